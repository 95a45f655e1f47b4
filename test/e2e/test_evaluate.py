"""cleave-run evaluates each model to eager mode's bits: loss, gradients, buffers, outputs."""

import cleave
import cleave_run  # noqa: F401
import pytest
import torch
from cleave import testing
from combinations_cover import part_of_today
from exported_models import ALL_MODELS
from library_models import LIBRARY_MODELS
from safetensors.torch import load_file, save_file


pytestmark = pytest.mark.usefixtures("one_thread")


def assert_equal(got, want):
    assert sorted(got) == sorted(want)
    different = [
        f"{name}: {(got[name].double() - want[name].double()).abs().max():.3g}"
        for name in want
        if got[name].dtype != want[name].dtype or not torch.equal(got[name], want[name])
    ]
    assert not different, different


@pytest.mark.parametrize("name", part_of_today([*ALL_MODELS, *LIBRARY_MODELS]))
def test_bitwise_equal_to_eager(name, program, cleave_run, tmp_path):
    spec, path = program(name)
    want = testing.evaluate(spec, seed=5)
    assert any(key.startswith("grad.") for key in want)
    got = cleave_run.evaluate(path, testing.example_inputs(spec), tmp_path, "--seed", 5)
    assert_equal(got, want)


class SharedNorm(torch.nn.Module):
    """One batch norm twice in a microbatch, all of it in `dtype`, statistics included."""

    def __init__(self, dtype):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1, dtype=dtype)
        self.norm = torch.nn.BatchNorm2d(3, dtype=dtype)

    def forward(self, images):
        return self.norm(self.conv(self.norm(images)))


def test_batch_norm_with_statistics_in_bfloat16(cleave_run, tmp_path):
    """The trace's fake kernel calls them f32."""
    torch.manual_seed(0)
    module = SharedNorm(torch.bfloat16)
    spec = cleave.ExportSpec(module, (torch.randn(2, 3, 4, 4, dtype=torch.bfloat16),),
                             loss=lambda y: y.float().pow(3).mean(), targets=())  # fmt: skip
    path = cleave.export_spec(spec, tmp_path)
    want = testing.evaluate(spec, seed=5)
    assert want["buffer.norm.running_var"].dtype == torch.bfloat16
    got = cleave_run.evaluate(path, testing.example_inputs(spec), tmp_path, "--seed", 5)
    assert_equal(got, want)


def test_other_inputs_and_seed_give_other_results(program, cleave_run, tmp_path):
    spec, path = program("gpt_dropout")
    batch = testing.random_batch(spec, 1, torch.Generator().manual_seed(9))
    want = testing.evaluate(spec, batch, seed=6)
    got = cleave_run.evaluate(path, batch, tmp_path, "--seed", 6)
    assert_equal(got, want)
    other = cleave_run.evaluate(path, batch, tmp_path, "--seed", 7)
    assert not torch.equal(other["loss"], got["loss"])


def test_bytecode_runs_as_text_does(program, cleave_run, build_dir, tmp_path):
    import subprocess

    spec, path = program("gpt_tied")
    bytecode = tmp_path / "gpt.mlirbc"
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", path, "--emit-bytecode", "-o", bytecode], check=True
    )
    inputs = testing.example_inputs(spec)
    weights = path.with_suffix(".safetensors")
    assert_equal(
        cleave_run.evaluate(bytecode, inputs, tmp_path, "--weights", weights),
        cleave_run.evaluate(path, inputs, tmp_path),
    )

    def fingerprint(program):
        lines = cleave_run.succeed(program, "--dry-run").splitlines()
        return next(line for line in lines if line.startswith("fingerprint"))

    assert fingerprint(bytecode) == fingerprint(path)
    assert fingerprint(path) != fingerprint(program("gpt_untied")[1])


def test_weights_may_stand_under_an_alias(program, cleave_run, tmp_path):
    spec, path = program("gpt_tied")
    weights = load_file(path.with_suffix(".safetensors"))
    [tied] = [name for name in ("wte.weight", "lm_head.weight") if name in weights]
    other = ({"wte.weight", "lm_head.weight"} - {tied}).pop()
    renamed = {other if name == tied else name: tensor for name, tensor in weights.items()}
    save_file(renamed, tmp_path / "renamed.safetensors")
    got = cleave_run.evaluate(
        path,
        testing.example_inputs(spec),
        tmp_path,
        "--weights",
        tmp_path / "renamed.safetensors",
    )
    assert_equal(got, testing.evaluate(spec))


def test_bfloat16_needs_no_help_with_the_processor(cleave_run, program, tmp_path, monkeypatch):
    """Where AMX is announced and refused, cleave-run finds out by itself."""
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    spec, path = program("gpt_autocast")
    assert "loss" in cleave_run.evaluate(path, testing.example_inputs(spec), tmp_path)
