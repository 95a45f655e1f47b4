"""Saved values in host memory: a step computes what it did, bit for bit, with less memory of the device, as planned."""

import re
import subprocess

import cleave_run  # noqa: F401
import pytest
import torch
from cleave import testing
from combinations_cover import covered
from pipelines import MICROBATCHES, schedule_passes
from safetensors.torch import save_file
from training import checkpoint_tensors, losses, newest_checkpoint, read_metrics, train

LOWER = "--lower-to-exec"
OFFLOAD = "--offload-saved=min-bytes=1"
SAVE_ALL = "--partition-joint=policy=save-all"


@pytest.fixture(scope="module")
def opt(build_dir, tmp_path_factory):
    """The program after passes, beside its weights."""
    folder = tmp_path_factory.mktemp("offloaded")
    made = {}

    def run(path, *passes):
        key = (path, passes)
        if key not in made:
            made[key] = folder / f"{path.stem}.{len(made)}.mlir"
            command = [build_dir / "bin" / "cleave-opt", path, *passes, "-o", made[key]]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
            made[key].with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        return made[key]

    return run


@pytest.fixture(scope="module")
def data(program, tmp_path_factory):
    """A file with data for 2 steps of MICROBATCHES microbatches."""

    def write(name):
        spec, _ = program(name)
        path = tmp_path_factory.mktemp("data") / "data.safetensors"
        batch = testing.random_batch(spec, 2 * MICROBATCHES, torch.Generator().manual_seed(1))
        save_file({n: t.contiguous() for n, t in batch.items()}, path)
        return path

    return write


def run(build_dir, program, data, folder, *options):
    """Losses and state after training, and the rows of its metrics."""
    metrics, out = folder / "metrics.jsonl", folder / "out"
    text = train(build_dir, program, "--data", f"safetensors:{data}", "--seed", 5, "--threads", 1,
                 "--metrics", metrics, "--checkpoint", out, *options)  # fmt: skip
    return losses(metrics), checkpoint_tensors(newest_checkpoint(out)), read_metrics(metrics), text


def same(found, expected):
    assert found[0] == expected[0]
    assert found[1].keys() == expected[1].keys()
    for key in expected[1]:
        assert torch.equal(found[1][key], expected[1][key]), key


@covered(
    {
        "name": ["gpt_tied", "gpt_dropout", "llama", "moe", "resnet18"],
        "passes": {"unfused": [], "fused": ["--fuse-kernels"]},
    },
    strength=1,
)  # fmt: skip
def test_computes_what_the_program_does(name, passes, program, opt, example, cleave_run):
    spec, path = program(name)
    offloaded = opt(path, SAVE_ALL, OFFLOAD, *passes)
    assert offloaded.read_text().count("dist.offload") > 3
    lowered = opt(path, SAVE_ALL, OFFLOAD, *passes, LOWER)
    assert "exec.wait" in lowered.read_text()
    for changed, check in ((offloaded, []), (lowered, ["--check", "memory"])):
        # The tolerance is 0: loss, outputs, gradients and buffers, bitwise.
        cleave_run.succeed(changed, "--against", path, "--weights", path.with_suffix(".safetensors"),
                           "--inputs", example(spec), "--seed", 3, *check)  # fmt: skip


@pytest.mark.parametrize("partition", [[SAVE_ALL], ["--partition-joint"]], ids=["save-all", "min-cut"])
@pytest.mark.parametrize("name", ["gpt_dropout", "llama"])
def test_split_before_or_after(name, partition, program, opt, example, cleave_run):
    """What each half needs of the host, it reloads."""
    spec, path = program(name)
    before = opt(path, *partition, "--split-backward", OFFLOAD)
    after = opt(path, *partition, OFFLOAD, "--split-backward", LOWER)
    weight = after.read_text().split("@backward_weight")[1]
    assert "dist.reload" in weight and "!dist.host<" in weight
    cleave_run.succeed(before, "--against", after, "--weights", path.with_suffix(".safetensors"),
                       "--inputs", example(spec), "--seed", 3)  # fmt: skip


@pytest.mark.parametrize("split", [[], ["--split-backward"]], ids=["whole", "split"])
def test_a_copy_is_proved_to_be_the_value(split, program, opt, build_dir):
    _, path = program("llama")
    offloaded = opt(path, SAVE_ALL, *split, OFFLOAD)
    command = [build_dir / "bin" / "cleave-prove", path, offloaded]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0 and "proved" in result.stdout, result.stdout + result.stderr


BY_HAND = """
train.program
func.func @microbatch(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                      %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
                      %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>},
                      %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<8x8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %y = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  COPY
  %0 = aten.tanh(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = aten.mean(%0) : (tensor<4x8xf32>) -> tensor<f32>
  BACK
  %1 = aten.sin(%b) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = aten.mul(%1, %s) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %xt = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %g = aten.mm(%xt, %2) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %sum = train.accumulate %g into %a : tensor<8x8xf32>
  return %loss, %sum : tensor<f32>, tensor<8x8xf32>
}
"""
COPIES = ("%h = dist.offload %y : tensor<4x8xf32>", "%b = dist.reload %h : tensor<4x8xf32>")


@pytest.mark.parametrize("policy", ["save-all", "min-cut recompute=all", "budget memory=1MiB"])
def test_written_by_hand(policy, build_dir, cleave_run, tmp_path):
    """In the joint graph: a partition saves the host's copy."""
    joint = tmp_path / "joint.mlir"
    joint.write_text(BY_HAND.replace("COPY", COPIES[0]).replace("BACK", COPIES[1]))
    plain = tmp_path / "plain.mlir"
    plain.write_text(BY_HAND.replace("COPY", "").replace("BACK", "").replace("%b", "%y"))
    parts, lowered = tmp_path / "parts.mlir", tmp_path / "lowered.mlir"
    opt = build_dir / "bin" / "cleave-opt"
    subprocess.run([opt, joint, f"--partition-joint=policy={policy}", "-o", parts], check=True)
    subprocess.run([opt, parts, LOWER, "-o", lowered], check=True)
    backward = parts.read_text().split("@backward")[1]
    assert "!dist.host<tensor<4x8xf32>> {train.role = #train.role<saved" in backward
    assert "dist.offload" not in backward and "dist.reload" in backward
    inputs = tmp_path / "inputs.safetensors"
    generator = torch.Generator().manual_seed(2)
    save_file({"x": torch.randn(4, 8, generator=generator)}, inputs)
    weights = tmp_path / "weights.safetensors"
    save_file({"w": torch.randn(8, 8, generator=generator)}, weights)
    for program in (joint, parts, lowered):
        cleave_run.succeed(program, "--against", plain, "--inputs", inputs, "--weights", weights)


@covered(
    {
        "name": ["gpt_dropout", "llama", "resnet18"],
        "split": {"whole": [], "split": ["--split-backward"]},
        "lowered": {"plain": False, "lowered": True},
    }
)  # fmt: skip
def test_planned_is_measured(name, split, lowered, program, opt, data, cleave_run, build_dir, tmp_path):
    _, path = program(name)
    kept = opt(path, SAVE_ALL, *split, *[LOWER] * lowered)
    offloaded = opt(path, SAVE_ALL, *split, OFFLOAD, *[LOWER] * lowered)
    options = ["--microbatches", 2]
    (before, none), (device, host) = (cleave_run.plan(each, *options)[0] for each in (kept, offloaded))
    assert none == 0 < host and device < before
    folder = tmp_path / "kept"
    folder.mkdir()
    expected = run(build_dir, kept, data(name), folder, "--steps", 2, *options)
    found = run(build_dir, offloaded, data(name), tmp_path, "--steps", 2, *options)
    same(found, expected)
    assert "host_bytes" not in expected[2][0] and "host memory" not in expected[3]
    assert all(row["host_bytes"] == host for row in found[2])
    if lowered:
        assert max(row["memory_bytes"] for row in found[2][1:]) == pytest.approx(device, rel=0.02)
        assert re.search(r"host memory: (.*) planned, \1 measured", found[3])


@covered(
    {
        "name": ["gpt_tied", "llama"],
        "schedule": ["1f1b", "interleaved-1f1b", "zb-h1", "zbv"],
        "lowered": {"plain": False, "lowered": True},
    }
)  # fmt: skip
def test_by_schedule(name, schedule, lowered, program, opt, data, cleave_run, build_dir, tmp_path):
    _, path = program(name)
    kept = opt(path, *schedule_passes(schedule, 2))
    offloaded = opt(path, *schedule_passes(schedule, 2, more=[OFFLOAD]), *[LOWER] * lowered)
    folder = tmp_path / "kept"
    folder.mkdir()
    options = ["--steps", 2, "--ranks", 2, "--ranks-as", "processes"]
    expected = run(build_dir, kept, data(name), folder, *options)
    found = run(build_dir, offloaded, data(name), tmp_path, *options)
    same(found, expected)
    _, host = cleave_run.plan(offloaded)[0]
    assert found[2][-1]["host_bytes"] == host > 0
