"""What the kernels of a GPT and a Llama take of each GPU: registers, spills, shared memory, as ptxas reports them.

The programs are a GPT of GPT-2's width in f32 and the Llama of about a billion parameters in bf16, traced without
weights; layers share kernels. Nothing is executed, and no GPU is needed, but a CUDA toolkit is.

    .venv/bin/python bench/gpu_kernels.py [--chips sm_80,sm_90,sm_100]
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import gpt  # noqa: E402
import llama  # noqa: E402
import torch  # noqa: E402
from cleave.export.capture import capture  # noqa: E402
from cleave.export.program import Program  # noqa: E402

GPT = gpt.GPTConfig(vocabulary=50257, context=1024, layers=2, heads=12, width=768)

MODELS = {
    "GPT, width 768, batch 8 x 1024, f32": lambda: gpt._spec("gpt", GPT, batch=8),
    "Llama, 1.1 B, batch 4 x 2048, bf16": lambda: llama.make_spec(
        llama.BILLION, "llama", 4, torch.bfloat16, fill=False
    ),
}

LINE = re.compile(
    r"(\w+) (\S+): (\d+) threads, (\d+) registers, (\d+) bytes spilled, (\d+) bytes shared"
)


def compile_kernels(source, chips):
    """The report of every function, by its name: {chip: (threads, registers, spilled, shared)}."""
    passes = [
        "--cse",
        "--canonicalize",
        "--fuse-kernels",
        f"--compile-kernels=cpu=none cuda={chips} print-resources",
    ]
    command = [ROOT / "build" / "bin" / "cleave-opt", source, *passes, "-o", "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    kernels = collections.defaultdict(dict)
    for chip, name, *numbers in LINE.findall(result.stdout):
        kernels[name][chip] = tuple(map(int, numbers))
    left_out = result.stderr.count("is not compiled")
    return kernels, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chips", default="sm_80,sm_90,sm_100")
    options = parser.parse_args()
    chips = options.chips.split(",")
    for title, make in MODELS.items():
        spec = make()
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as source:
            source.write(Program(spec, capture(spec)).text)
            source.flush()
            kernels, left_out = compile_kernels(source.name, options.chips)
        print(f"## {title}\n")
        print("| kernel | threads |", " | ".join(chips), "|")
        print("| --- | ---: |", " | ".join("---:" for _ in chips), "|")
        for name, reports in kernels.items():
            cells = [f"{r} / {s} / {m}" for _, r, s, m in (reports[chip] for chip in chips)]
            print(f"| `{name}` | {reports[chips[0]][0]} |", " | ".join(cells), "|")
        spilled = sum(report[2] for reports in kernels.values() for report in reports.values())
        print(f"\n{len(kernels)} functions; {spilled} bytes spilled; {left_out} kernels left out.\n")


if __name__ == "__main__":
    main()
