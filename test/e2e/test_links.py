"""What cleave-run is made of: no compiler, no CUDA driver."""

import subprocess


def test_links_neither_mlir_nor_llvm(cleave_run):
    listed = subprocess.run(["ldd", cleave_run.path], check=True, capture_output=True, text=True)
    assert "libtorch_cpu.so" in listed.stdout
    for library in ("libMLIR", "libLLVM", "libtorch_cuda", "libcuda.so", "not found"):
        assert library not in listed.stdout


def test_help_and_version(cleave_run):
    help_text = cleave_run.succeed("--help")
    for option in ("--weights", "--inputs", "--dump", "--against", "--tolerance", "--dry-run"):
        assert option in help_text
    assert "cleave-run" in cleave_run.succeed("--version")
