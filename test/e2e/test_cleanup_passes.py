"""Canonicalization, CSE and dead-code removal leave every bit of every model as it was."""

import subprocess

import cleave_run  # noqa: F401
import pytest
from cleave import testing
from exported_models import MODELS
from safetensors.torch import save_file


@pytest.mark.parametrize("name", MODELS)
def test_cleaned_program_is_bitwise_equal(name, program, cleave_run, build_dir, tmp_path):
    spec, path = program(name)
    cleaned = tmp_path / path.name
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", path, "--canonicalize", "--cse", "-o", cleaned],
        check=True,
    )
    before, after = path.read_text().count(" = aten."), cleaned.read_text().count(" = aten.")
    assert after < before, "every model has views to fold, or common subexpressions"
    weights = path.with_suffix(".safetensors")
    cleaned.with_suffix(".safetensors").symlink_to(weights)
    inputs = tmp_path / "inputs.safetensors"
    example = testing.example_inputs(spec)
    save_file({n: t.contiguous() for n, t in example.items()}, inputs)
    # The default tolerance is 0: bitwise equality.
    cleave_run.succeed(path, "--against", cleaned, "--inputs", inputs, "--seed", 3)


@pytest.mark.parametrize("name", MODELS)
def test_every_operator_of_the_models_has_a_typed_op(name, program):
    _, path = program(name)
    assert "aten.call" not in path.read_text()
