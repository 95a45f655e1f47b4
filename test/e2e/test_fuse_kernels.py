"""A program whose ops are joined to kernels computes, bit for bit, what it did before."""

import subprocess

import cleave_run  # noqa: F401
import pytest
from exported_models import MODELS


@pytest.fixture(scope="module")
def fuse(build_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused")

    def run(path, *passes):
        fused = folder / f"{path.stem}.{len(passes)}.mlir"
        command = [build_dir / "bin" / "cleave-opt", path, *passes, "--fuse-kernels", "-o", fused]
        subprocess.run(command, check=True)
        weights = fused.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(path.with_suffix(".safetensors"))
        return fused

    return run


@pytest.mark.parametrize("name", MODELS)
def test_fused_computes_what_unfused_does(name, program, fuse, example, cleave_run):
    spec, path = program(name)
    fused = fuse(path)
    assert "exec.launch" in fused.read_text()
    # The default tolerance is 0. Kernels give what views of eager mode would keep in another
    # order of strides, so that nothing but values is compared.
    cleave_run.succeed(path, "--against", fused, "--inputs", example(spec), "--seed", 3)


@pytest.mark.parametrize("name", ["llama", "gpt_dropout"])
def test_parts_of_a_microbatch(name, program, fuse, example, cleave_run):
    spec, path = program(name)
    fused = fuse(path, "--partition-joint", "--split-backward")
    cleave_run.succeed(path, "--against", fused, "--inputs", example(spec), "--seed", 3)


def test_layers_share_kernels(program, fuse):
    """Both layers of the model launch the same gate."""
    _, path = program("llama")
    text = fuse(path).read_text()
    assert text.count("exec.launch @silu_mul(") == 2
    assert text.count("exec.kernel @silu_mul(") == 1
