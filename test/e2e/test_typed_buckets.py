"""Buckets of programs with placements: which there are, and what evaluations and other people's
optimizers see of them."""

import dataclasses
import re
import subprocess

import placement_cases
import pytest
import torch
from cleave import export_spec, testing
from combinations_cover import covered
from safetensors.torch import load_file, save_file
from training import MODELS, run

BUCKETS = "--bucket-gradients"


@pytest.fixture(scope="module")
def placed(build_dir, tmp_path_factory):
    """An exported model on a mesh: its own program, and the local one after further passes."""
    folder = tmp_path_factory.mktemp("placed")
    cache = {}

    def make(name, mesh, *passes, optimizer=True):
        if (name, optimizer) not in cache:
            spec = placement_cases.spec(name, 4)
            if not optimizer:
                spec = dataclasses.replace(spec, optimizer=None)
            source = export_spec(spec, folder / f"{name}.{optimizer}")
            inputs = source.with_name("inputs.safetensors")
            save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, inputs)
            cache[name, optimizer] = source, inputs
        source, inputs = cache[name, optimizer]
        plan = source.with_name(f"{mesh.replace(' ', '')}.json")
        placement_cases.plan(name, mesh).write(plan)
        local = source.with_name(f"local{len(list(source.parent.iterdir()))}.mlir")
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", source, f"--annotate-placements=plan={plan}",
             "--propagate-placements", "--partition", *passes, "-o", local],
            capture_output=True, text=True,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return source, local, inputs

    return make


def agree(build_dir, local, source, inputs, ranks):
    """Every value of the evaluation on all ranks is that of the other program."""
    result = run(
        build_dir, local, "--against", source, "--weights", source.with_suffix(".safetensors"),
        "--inputs", inputs, "--ranks", ranks, "--ranks-as", "threads", "--tolerance", "1e-5",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    compared = int(re.search(r"of (\d+) values", result.stdout)[1])
    gradients = source.read_text().split("func.func @update")[0].count("#train.role<gradient")
    assert compared > gradients > 4


@covered({"mesh": ["dp2", "dp2 x tp2"], "name": ["gpt_untied", "llama"]}, strength=1)
def test_evaluated_gradients_are_those_of_one_device(name, mesh, placed, build_dir):
    source, local, inputs = placed(name, mesh, "--partition-joint", BUCKETS)
    assert "train.reduce_bucket" in local.read_text()
    agree(build_dir, local, source, inputs, placement_cases.ranks(mesh))


def test_dumped_gradients_are_whole(placed, build_dir, tmp_path):
    source, local, inputs = placed("gpt_untied", "dp2 x tp2", BUCKETS)
    dumps = []
    for program, ranks in ((source, 1), (local, 4)):
        dumps.append(tmp_path / f"{ranks}.safetensors")
        result = run(build_dir, program, "--weights", source.with_suffix(".safetensors"), "--inputs",
                     inputs, "--dump", dumps[-1], "--ranks", ranks, "--ranks-as", "threads")  # fmt: skip
        assert result.returncode == 0, result.stderr
    expected, found = map(load_file, dumps)
    assert expected.keys() == found.keys() and sum(k.startswith("grad.") for k in found) > 10
    for key, tensor in expected.items():
        assert found[key].shape == tensor.shape, key
        assert (found[key] - tensor).abs().max() <= 3e-6 * tensor.abs().max(), key


@pytest.mark.parametrize("name", ["gpt_untied", "llama"])
def test_one_bucket_for_each_set_of_axes(name, placed):
    """All parameters have one learning rate, which the local program converts for each of them."""
    _, local, _ = placed(name, "dp2 x tp2", BUCKETS)
    text = local.read_text()
    update = text[text.index("func.func @update") :]
    assert update.count("dist.convert") > 2
    axes = re.findall(r"train\.bucket @\w+ of f32 .* over @\w+ (\[.*?\])", text)
    assert axes and len(axes) == len(set(axes))


# Without an optimizer


@pytest.mark.parametrize("mesh", ["dp2", "dp2 x tp2"])
def test_gradients_are_reduced_for_an_optimizer_outside(mesh, placed, build_dir):
    passes = ["--sync-gradients", "--partition-joint"]
    source, local, inputs = placed("gpt_untied", mesh, *passes, optimizer=False)
    assert "train.phase<update>" not in local.read_text()
    assert "train.phase<reduce>" in local.read_text()
    agree(build_dir, local, source, inputs, placement_cases.ranks(mesh))
    _, local, _ = placed("gpt_untied", mesh, *passes, BUCKETS, optimizer=False)
    assert "train.reduce_bucket" in local.read_text()
    agree(build_dir, local, source, inputs, placement_cases.ranks(mesh))


@pytest.mark.parametrize("passes", [[], [BUCKETS]], ids=["one by one", "buckets"])
def test_data_parallel_sums_without_an_optimizer(passes, build_dir, tmp_path):
    spec = dataclasses.replace(MODELS["gpt_untied"](), optimizer=None)
    source = export_spec(spec, tmp_path)
    program, inputs = tmp_path / "dp.mlir", tmp_path / "inputs.safetensors"
    subprocess.run([build_dir / "bin" / "cleave-opt", source, "--sync-gradients", *passes, "-o",
                    program], check=True)  # fmt: skip
    dumps = {}
    for path, ranks in ((source, 1), (program, 2)):
        # Both ranks have the same examples.
        examples = testing.example_inputs(spec)
        save_file({n: torch.cat([t] * ranks) for n, t in examples.items()}, inputs)
        dump = tmp_path / f"dump{ranks}.safetensors"
        result = run(build_dir, path, "--weights", source.with_suffix(".safetensors"), "--inputs",
                     inputs, "--dump", dump, "--ranks", ranks, "--ranks-as", "threads")  # fmt: skip
        assert result.returncode == 0, result.stderr
        dumps[ranks] = load_file(dump)
    # A sum of two equal numbers is exact.
    for key, tensor in dumps[1].items():
        factor = 2 if key.startswith("grad.") else 1
        assert dumps[2][key].equal(factor * tensor), key


def test_a_program_without_gradients_is_refused(build_dir, tmp_path):
    spec = dataclasses.replace(MODELS["gpt_untied"](), mode="loss", optimizer=None)
    source = export_spec(spec, tmp_path)
    for option, message in (
        ("--sync-gradients", "has no gradients of parameters to reduce"),
        (BUCKETS, "has neither an update nor a reduce function"),
    ):
        result = subprocess.run([build_dir / "bin" / "cleave-opt", source, option, "-o",
                                 tmp_path / "out.mlir"], capture_output=True, text=True)  # fmt: skip
        assert result.returncode == 1 and message in result.stderr
        assert not (tmp_path / "out.mlir").exists()


@pytest.mark.parametrize("name", ["gpt_untied", "llama"])
def test_scattered_gradients_are_whole_in_an_evaluation(name, placed, build_dir):
    """Each rank holds its part of a scattered member."""
    source, local, inputs = placed(name, "fsdp2", "--split-fsdp-collectives", BUCKETS)
    assert 'scatter ["dp"]' in local.read_text()
    agree(build_dir, local, source, inputs, ranks=2)
