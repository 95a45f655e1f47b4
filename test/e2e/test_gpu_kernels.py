"""GPU code of the example models' kernels, without a GPU: executed in an interpreter that checks every
access to memory, and assembled for every chip."""

import os
import re
import shutil
import subprocess

import pytest
from exported_models import MODELS

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


@pytest.mark.parametrize("name", MODELS)
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
