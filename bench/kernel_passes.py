"""Time of `--fuse-kernels`, `--compile-kernels` and `--lower-to-exec` over training graphs of Llama, by pass.

    .venv/bin/python bench/kernel_passes.py [BUILD] [--layers 32 126] [--cuda sm_80,sm_90,sm_100]

Layers repeat, so that kernels do: each is compiled once. Times are wall times of one run.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

from layers import ROOT, llama

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

PASSES = ["Parser", "FuseKernels", "CompileKernels", "LowerToExec", "VerifyExec"]


def measure(tool, program, options, output):
    """Seconds by pass, and the whole."""
    command = [tool, program, "--fuse-kernels", options, "--lower-to-exec", "--emit-bytecode", "-o",
               output, "--mlir-timing", "--mlir-timing-display=list"]  # fmt: skip
    text = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    seconds = dict.fromkeys(PASSES, 0.0)
    total = 0.0
    for line in text.splitlines():
        match = re.match(r"\s+([\d.]+) \(\s*[\d.]+%\)\s+(\w+)$", line)
        if match and match[2] in seconds:
            seconds[match[2]] += float(match[1])
        elif match and match[2] == "Total":
            total = float(match[1])
    return seconds, total


def count(tool, program):
    """Ops, kernels and launches after fusion."""
    before = program.read_text()
    text = subprocess.run([tool, program, "--fuse-kernels"], check=True, capture_output=True, text=True)
    return (len(re.findall(r" = aten\.", before)), text.stdout.count("exec.kernel @"),
            text.stdout.count("exec.launch"))  # fmt: skip


def main():
    from cleave.export import export_spec

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--layers", type=int, nargs="+", default=[32, 126])
    parser.add_argument("--cuda", default="sm_80,sm_90,sm_100", help="'none': CPUs only")
    options = parser.parse_args()
    tool = options.build.resolve() / "bin" / "cleave-opt"
    print("| layers | ops | kernels | launches | compiled for | " + " | ".join(PASSES) + " | all, s |")
    print("| ---: | ---: | ---: | ---: | --- |" + " ---: |" * (len(PASSES) + 1))
    targets = {"3 levels of x86-64": "--compile-kernels"}
    if options.cuda != "none":
        targets["those, " + options.cuda.replace(",", ", ")] = f"--compile-kernels=cuda={options.cuda}"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for layers in options.layers:
            program = export_spec(llama(layers), folder)
            ops, kernels, launches = count(tool, program)
            for name, option in targets.items():
                seconds, total = measure(tool, program, option, folder / "compiled.mlirbc")
                numbers = " | ".join(f"{seconds[name]:.2f}" for name in PASSES)
                print(f"| {layers} | {ops} | {kernels} | {launches} | {name} | {numbers} | {total:.2f} |")


if __name__ == "__main__":
    main()
