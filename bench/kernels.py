"""Compiled row kernels beside the same ops as separate ATen calls, on the CPU.

    .venv/bin/python bench/kernels.py [BUILD] [--target best] [--rounds 60] [--threads 1]
    .venv/bin/python bench/kernels.py [BUILD] --target x86-64-v3 --instructions

(after: ninja -C BUILD kernel-times). The kernels of bench/kernels.mlir, or of another module with
exec.kernel ops (--module, as cleave-opt --fuse-kernels makes it). Both sides take the same inputs
and write into memory that is there before, as far as ATen's operators can; runs alternate, a ratio
is the median over pairs. With one thread, times are that thread's CPU time.
--instructions counts one run of each side with callgrind, which does not know AVX-512.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def compile_module(tools, module, folder, target):
    compiled = folder / "kernels.mlirbc"
    options = "" if target == "best" else f"=cpu={target}"
    command = [tools / "cleave-opt", module, f"--compile-kernels{options}", "--emit-bytecode",
               "-o", compiled]  # fmt: skip
    subprocess.run(command, check=True)
    return compiled


def print_times(command, rounds):
    output = subprocess.run([*command, str(rounds)], check=True, capture_output=True, text=True).stdout
    print("| kernel | ATen calls | ... without allocation | ATen us | compiled us | "
          "compiled is faster by | GB/s compiled | difference |")  # fmt: skip
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for line in output.splitlines():
        row = json.loads(line)
        if "compiled" not in row:
            print(f"| {row['kernel']} | not compiled |")
            continue
        ours, theirs = row["compiled"], row["aten"]
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        mine = statistics.median(ours)
        print(f"| {row['kernel']} | {row['ops']} | {row['in_place']} | "
              f"{1e3 * statistics.median(theirs):.0f} | {1e3 * mine:.0f} | {ratio:.2f} | "
              f"{row['bytes'] / mine / 1e6:.1f} | {row['difference']:.0e} |")  # fmt: skip


def print_instructions(command, folder):
    subprocess.run(
        ["valgrind", "--tool=callgrind", "--instr-atstart=no",
         f"--callgrind-out-file={folder}/callgrind.out", *command, "0"],
        check=True, capture_output=True)  # fmt: skip
    counts = {}
    for path in folder.glob("callgrind.out*"):
        text = path.read_text()
        name = re.search(r"^desc: Trigger: Client Request: (\S+):(\w+)$", text, re.MULTILINE)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
        if name and total:
            counts.setdefault(name[1], {})[name[2]] = int(total[1])
    print("| kernel | ATen, thousands of instructions | compiled | fewer by |")
    print("| --- | ---: | ---: | ---: |")
    for kernel, sides in sorted(counts.items()):
        print(f"| {kernel} | {sides['aten'] / 1e3:.0f} | {sides['compiled'] / 1e3:.0f} | "
              f"{sides['aten'] / sides['compiled']:.2f} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--module", type=pathlib.Path, default=ROOT / "bench" / "kernels.mlir")
    parser.add_argument("--target", default="best")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--instructions", action="store_true")
    options = parser.parse_args()
    tools = options.build.resolve() / "bin"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        module = compile_module(tools, options.module, folder, options.target)
        command = [tools / "kernel-times", module, options.target, str(options.threads)]
        if options.instructions:
            print_instructions(command, folder)
        else:
            print_times(command, options.rounds)


if __name__ == "__main__":
    main()
