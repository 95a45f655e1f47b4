"""Programs with complex numbers: beside eager mode, and in every form beside themselves."""

import json
import re
import shutil
from itertools import product

import combinations_cover
import complex_models
import float64
import pytest
import torch
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, testing
from cleave.tensor_files import load_file, save_file
from pipelines import schedule_passes
from training import checkpoint_tensors, expected_tensors, newest_checkpoint, optimize, random_batches, save_batches

import cleave

STEPS, MICROBATCHES = 2, 4
PLACE = ("--annotate-placements=plan={plan}", "--propagate-placements", "--partition")
TENSOR_PARALLEL = {
    "rotary": [("*.q", ColwiseParallel()), ("*.k", ColwiseParallel())],
    "fourier": [],
    "llama3": [
        ("layers.*.attention.{wq,wk,wv}", ColwiseParallel()), ("layers.*.feed_forward.{w1,w3}", ColwiseParallel()),
        ("layers.*.attention.wo", RowwiseParallel()), ("layers.*.feed_forward.w2", RowwiseParallel()),
    ],
}  # fmt: skip
# By name: the ranks, the mesh and rules of a plan, and the passes.
FORMS = {
    "compiled": (1, None, ["--fuse-kernels", "--compile-kernels", "--lower-to-exec"]),
    "planned split backward": (1, None, ["--partition-joint", "--split-backward", "--lower-to-exec"]),
    "data parallel": (2, None, ["--sync-gradients", "--bucket-gradients", "--clip-gradients=max-norm=0.1"]),
    "fsdp": (2, ({"dp": 2}, [("", FSDP())]), ["--partition-joint", "--clip-gradients=max-norm=0.1", "--fuse-kernels",
                                               "--compile-kernels", "--lower-to-exec"]),
    "tensor parallel": (2, ({"tp": 2}, None), ["--fuse-kernels", "--compile-kernels"]),
    "1f1b": (2, None, schedule_passes("1f1b", 2, MICROBATCHES)),
    "zero bubble": (2, None, schedule_passes("zb-h1", 2, MICROBATCHES, more=["--clip-gradients=max-norm=0.1"])),
}  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model in float64 and its program."""
    cache = {}

    def get(name, gradients=True):
        if (name, gradients) not in cache:
            spec = complex_models.spec(name, torch.float64, batch=2, gradients=gradients)
            # torchtitan computes rotary embeddings in float32 whatever its weights are.
            export = float64.export if name == "llama3" else cleave.export_spec
            cache[name, gradients] = spec, export(spec, tmp_path_factory.mktemp(name))
        return cache[name, gradients]

    return get


@pytest.mark.parametrize("name", complex_models.MODELS)
def test_bitwise_on_one_rank(name, cleave_run, tmp_path):
    spec = complex_models.spec(name)
    program = cleave.export_spec(spec, tmp_path)
    text = program.read_text()
    assert "xcomplex<f32>>" in text and "aten.call" not in text
    expected = testing.evaluate(spec)
    found = cleave_run.evaluate(program, testing.example_inputs(spec), tmp_path)
    assert sorted(found) == sorted(expected)
    for key, value in expected.items():
        assert found[key].dtype == value.dtype and torch.equal(found[key], value), key


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_training_with_complex_parameters(optimizer, cleave_run, tmp_path):
    """Steps of the optimizer, part by part; checkpoints of pairs, which training goes on from."""
    spec = complex_models.spec("fourier")
    if optimizer == "sgd":
        spec.optimizer = torch.optim.SGD(spec.module.parameters(), lr=0.1, momentum=0.9)
    program = cleave.export_spec(spec, tmp_path)
    batches = random_batches(spec, 4, 2, seed=1)
    data = tmp_path / "data.safetensors"
    save_batches(spec, batches, data)
    eager = testing.train(spec, batches, 2)
    arguments = ["--microbatches", 2, "--data", f"safetensors:{data}", "--checkpoint", tmp_path / "c", "--threads", 1]
    cleave_run.succeed(program, "--steps", 2, *arguments)
    metrics = tmp_path / "metrics.jsonl"
    cleave_run.succeed(program, "--steps", 4, *arguments, "--resume", "--metrics", metrics)
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
    assert losses[-2:] == eager.losses[2:]
    found, expected = checkpoint_tensors(newest_checkpoint(tmp_path / "c")), expected_tensors(eager, spec)
    complex_names = [n for n, t in expected.items() if t.is_complex()]
    assert len(complex_names) == (3 if optimizer == "adamw" else 2) * 4
    for key, value in expected.items():
        assert torch.equal(found[key], value), key
    # And as weights of an evaluation.
    inputs = testing.example_inputs(spec)
    trained = cleave_run.evaluate(program, inputs, tmp_path, "--weights", newest_checkpoint(tmp_path / "c"))
    with torch.no_grad():
        for key, parameter in spec.module.named_parameters():
            parameter.copy_(eager.tensors[f"param.{key}"])
    for key, value in testing.evaluate(spec).items():
        assert torch.equal(trained[key], value), key


@pytest.mark.parametrize("name", complex_models.MODELS)
def test_autodiff(name, exported, build_dir, cleave_run, tmp_path):
    spec, joint = exported(name)
    _, forward = exported(name, gradients=False)
    optimize(build_dir, forward, "--autodiff", "-o", tmp_path / "joint.mlir")
    found = cleave_run.evaluate(
        tmp_path / "joint.mlir", testing.example_inputs(spec), tmp_path, "--weights", joint.with_suffix(".safetensors")
    )
    expected = cleave_run.evaluate(joint, testing.example_inputs(spec), tmp_path)
    assert sorted(found) == sorted(expected)
    for key, value in expected.items():
        assert found[key].dtype == value.dtype
        assert (found[key] - value).abs().max() <= 1e-9 * value.abs().max(), key


def train(cleave_run, program, weights, data, folder, *options):
    """Losses of some steps, and the checkpoint's tensors."""
    metrics, checkpoint = folder / "metrics.jsonl", folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    cleave_run.succeed(
        program, "--steps", STEPS, "--threads", 1, "--weights", weights, "--metrics", metrics, "--checkpoint", checkpoint,
        "--data", f"safetensors:{data}", *options,
    )  # fmt: skip
    return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()], checkpoint_tensors(newest_checkpoint(checkpoint))


# The model with complex parameters in every form; of the others, what they add.
COVER = [("fourier", form) for form in FORMS] + [
    ("llama3", "fsdp"), ("llama3", "tensor parallel"), ("llama3", "zero bubble"),
    ("rotary", "compiled"), ("rotary", "tensor parallel"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "form"), list(product(complex_models.MODELS, FORMS)) if combinations_cover.run_all() else combinations_cover.part_of_today(COVER)
)
def test_forms(name, form, exported, build_dir, cleave_run, tmp_path):
    """Two steps of training in float64, as one rank trains the exported program."""
    ranks, layout, passes = FORMS[form]
    spec, source = exported(name)
    weights = source.with_suffix(".safetensors")
    data = tmp_path / "data.safetensors"
    save_batches(spec, random_batches(spec, STEPS, MICROBATCHES, seed=2), data)
    reference = source
    if clip := [option for option in passes if "clip" in option]:
        reference = tmp_path / "clipped.mlir"
        optimize(build_dir, source, *clip, "-o", reference)
    if layout:
        mesh, rules = layout
        rules = TENSOR_PARALLEL[name] if rules is None else rules
        plan = Plan(mesh, rules).write(tmp_path / "plan.json")
        passes = [option.format(plan=plan) for option in PLACE] + passes
    program = tmp_path / "program.mlir"
    optimize(build_dir, source, *passes, "-o", program)
    losses, expected = train(cleave_run, reference, weights, data, tmp_path, "--microbatches", MICROBATCHES)
    several = ["--ranks", ranks, "--ranks-as", "threads", "--timeout", 60] if ranks > 1 else []
    microbatches = MICROBATCHES // 2 if form == "data parallel" else MICROBATCHES
    found_losses, found = train(cleave_run, program, weights, data, tmp_path, "--microbatches", microbatches, *several)
    assert found_losses == pytest.approx(losses, rel=1e-9)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert (found[key] - value).abs().max() <= 1e-9 * value.abs().max(), key


def test_differences_of_complex_numbers(cleave_run, tmp_path):
    """--against says how far complex outputs are apart; marks of conjugation do not reach a dump."""
    z = torch.randn(3, 4, dtype=torch.complex64)
    inputs = tmp_path / "inputs.safetensors"
    save_file({"z": z}, inputs)
    programs = []
    for name, op in (
        ("a", "aten.conj_physical(%z)"), ("b", 'aten.call "aten::_conj"(self = %z)'),
        ("c", "aten.mul_scalar(%z, other = #aten.complex<1.0, 0.0>)"),
    ):  # fmt: skip
        type_ = "tensor<3x4xcomplex<f32>>"
        programs.append(tmp_path / f"{name}.mlir")
        programs[-1].write_text(f"""module {{
  train.program
  func.func @microbatch(%z: {type_} {{train.role = #train.role<input "z" batch 0>}})
      -> ({type_} {{train.role = #train.role<output "0">}}) attributes {{train.phase = #train.phase<microbatch>}} {{
    %0 = {op} : ({type_}) -> {type_}
    return %0 : {type_}
  }}
}}
""")
    dump = tmp_path / "dump.safetensors"
    for program in programs[:2]:
        cleave_run.succeed(program, "--inputs", inputs, "--dump", dump)
        assert torch.equal(load_file(dump)["output.0"], z.conj().resolve_conj())
    assert "bitwise" in cleave_run.succeed(programs[0], "--inputs", inputs, "--against", programs[1])
    result = cleave_run(programs[0], "--inputs", inputs, "--against", programs[2])
    assert result.returncode == 1
    worst = float((z.conj() - z).abs().max() / z.abs().max())
    assert any(
        float(number) == pytest.approx(worst, rel=1e-2)
        for number in re.findall(r"\d\.\d+(?:e[+-]?\d+)?", result.stdout + result.stderr)
    ), result.stdout + result.stderr


def test_files_without_the_list_are_refused(cleave_run, tmp_path):
    """Pairs that the metadata does not list are real numbers."""
    from safetensors.torch import save_file as save_plain

    spec = complex_models.spec("fourier")
    program = cleave.export_spec(spec, tmp_path)
    weights = load_file(program.with_suffix(".safetensors"))
    save_plain(
        {n: torch.view_as_real(t).contiguous() if t.is_complex() else t for n, t in weights.items()},
        tmp_path / "plain.safetensors",
    )
    save_file(testing.example_inputs(spec), tmp_path / "inputs.safetensors")
    message = cleave_run.fail(
        program, "--inputs", tmp_path / "inputs.safetensors", "--weights", tmp_path / "plain.safetensors"
    )
    assert "'0.filter': the program has C64 [5], the file F32 [5, 2]" in message


def test_fnet(cleave_run, tmp_path):
    """GoogleFnet of PyTorch's Hugging Face dashboard, with its dropout."""
    import hugging_face

    spec = hugging_face.make("GoogleFnet")
    program = cleave.export_spec(spec, tmp_path)
    found = cleave_run.evaluate(program, testing.example_inputs(spec), tmp_path, "--seed", 5)
    for key, value in testing.evaluate(spec, seed=5).items():
        assert torch.equal(found[key], value), key
