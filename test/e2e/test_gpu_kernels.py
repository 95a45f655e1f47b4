"""GPU code of kernels, without a GPU: executed in an interpreter that checks every access to memory, and
assembled for every chip."""

import os
import re
import shutil
import subprocess

import combinations_cover
import kernel_cases as cases
import pytest
import torch
from exported_models import MODELS
from safetensors.torch import load_file, save_file
from test_compile_kernels import TOLERANCE, describe_difference

CHIPS = ["sm_80", "sm_90", "sm_100"]

pytestmark = pytest.mark.skipif(
    not (shutil.which("ptxas") or os.environ.get("CUDA_HOME")), reason="needs a CUDA toolkit"
)


@pytest.fixture(scope="module")
def fused(build_dir, program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu_kernels")

    def fuse(name):
        path = folder / f"{name}.mlir"
        if not path.exists():
            tool = build_dir / "bin" / "cleave-opt"
            subprocess.run([tool, program(name)[1], "--fuse-kernels", "-o", path], check=True)
        return path

    return fuse


def run(build_dir, *arguments):
    command = [build_dir / "unit" / "gpu-kernels", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("name", MODELS)
def test_executed_kernels_compute_what_programs_mean(name, build_dir, fused):
    lines = run(build_dir, fused(name))
    equal = [line for line in lines if line.endswith(": equal")]
    left_out = [line for line in lines if line.endswith(": no row program")]
    assert equal
    assert len(equal) + len(left_out) == len(lines)


@pytest.mark.parametrize("name", combinations_cover.part_of_today(list(MODELS)))
def test_kernels_assemble_without_spills(name, build_dir, fused):
    """No register is spilled, and what a block takes fits a multiprocessor of any chip."""
    lines = [line for line in run(build_dir, fused(name), "resources") if "registers" in line]
    kernels = {chip: set() for chip in CHIPS}
    for line in lines:
        chip, kernel, *numbers = re.fullmatch(
            r"(\w+) (\S+): (\d+) threads, (\d+) registers, (\d+) bytes spilled, "
            r"(\d+) bytes shared, (\d+) bytes stack",
            line,
        ).groups()
        threads, registers, spilled, shared, _ = map(int, numbers)
        kernels[chip].add(kernel)
        assert spilled == 0, line
        assert threads * registers <= 65536, line
        assert shared <= 48 * 1024, line
    assert kernels["sm_80"]
    assert kernels["sm_80"] == kernels["sm_90"] == kernels["sm_100"]


def test_executed_kernels_compute_what_aten_computes(build_dir, cleave_run, tmp_path):
    """Each op's kernel in the interpreter beside ATen's results for the same numbers."""
    kernels = cases.pointwise(torch.float32, (7, 37)) + cases.windows(torch.float32, 2, 3, 5, 44)
    for dtype in [torch.float32, torch.bfloat16]:
        kernels += cases.reductions(dtype, (13, 34 if dtype == torch.float32 else 31))
    program, made = tmp_path / "kernels.mlir", tmp_path / "made.safetensors"
    program.write_text(cases.program(kernels))
    inputs = cases.tensors(kernels, combinations_cover.seed())
    dumped = cleave_run.evaluate(program, inputs, tmp_path)
    expected = {name.removeprefix("output."): tensor for name, tensor in dumped.items()}
    save_file(inputs, tmp_path / "inputs.safetensors")
    printed = run(build_dir, program, "evaluate", tmp_path / "inputs.safetensors", made)
    assert printed == []
    actual = load_file(made)
    assert actual.keys() == expected.keys()
    tolerance = dict(TOLERANCE) | {torch.float32: 1e-5}
    wrong = [
        f"{name}: {difference}"
        for name, tensor in expected.items()
        if (difference := describe_difference(actual[name], tensor, tolerance[tensor.dtype]))
    ]
    assert not wrong, "\n".join(wrong)
