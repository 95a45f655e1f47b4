"""Compiled row kernels beside the same ops as separate ATen calls, on the CPU.

    .venv/bin/python bench/kernels.py [BUILD] > bench/results/kernels.md       # the whole report
    .venv/bin/python bench/kernels.py [BUILD] --sizes 64x768 --target x86-64-v3
    .venv/bin/python bench/kernels.py [BUILD] --instructions

(after: ninja -C BUILD cleave-opt kernel-times). The kernels of bench/kernels.mlir at each size, rows x
columns; or of another module with exec.kernel ops (--module, as cleave-opt --fuse-kernels makes it).
Both sides take the same inputs and write into memory that is there before, as far as ATen's
operators can; runs alternate, a ratio is the median over pairs. With one thread, times are that
thread's CPU time. ATen takes the instructions of the target, too. --instructions counts one run of
each side with callgrind, which does not know AVX-512, so in AVX2 code, at the last size.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Within the second cache, beyond it, and beyond it with rows that leave the first.
SIZES = ["64x768", "512x768", "512x2048"]
TARGETS = {"x86-64-v4": "avx512vl", "x86-64-v3": "avx2"}
# What keeps ATen to the instructions of a target.
CAPABILITIES = {"x86-64-v2": "default", "x86-64-v3": "avx2", "x86-64-v4": "avx512", "best": ""}

HEADER = """\
# Compiled row kernels beside separate ATen calls, {date}

{processor}, {cores} cores, load {load} when it began, no GPU, torch {torch}. Made by
`.venv/bin/python bench/kernels.py > bench/results/kernels.md`: one thread, its CPU time, median of {rounds} runs,
both sides alternating; ratios are medians over pairs. Sizes are rows x columns; the rotary embedding is
always 8 x 16 x 128 x 64. Where ATen has no `out` overload that writes in
place (third column), it takes memory from the caching allocator. *Of a copy's speed*: the time that a
copy of as many bytes takes, half of them read, by the kernel's; above 100 % is what reads more than
it writes, or what stays in caches.
ATen has one call for layer norm, softmax and their backwards, so there only the code differs, not the
number of passes; beyond the second cache both sides wait for memory.
"""


def compile_module(tools, module, folder, target):
    compiled = folder / "kernels.mlirbc"
    options = "" if target == "best" else f"=cpu={target}"
    command = [tools / "cleave-opt", module, f"--compile-kernels{options}", "--emit-bytecode",
               "-o", compiled]  # fmt: skip
    subprocess.run(command, check=True)
    return compiled


def sized(module, size):
    """The text of bench/kernels.mlir with matrices of another size."""
    rows, columns = map(int, size.split("x"))
    text = re.sub(r"(?<!\d)512(?!\d)", str(rows), module)
    return re.sub(r"(?<!\d)2048(?!\d)", str(columns), text)


def print_times(command, rounds, environment):
    output = subprocess.run(
        [*command, str(rounds)], check=True, capture_output=True, text=True, env=environment
    ).stdout
    print("| kernel | ATen calls | ... without allocation | ATen us | compiled us | "
          "compiled is faster by | GB/s compiled | of a copy's speed | difference |")  # fmt: skip
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for line in output.splitlines():
        row = json.loads(line)
        if "compiled" not in row:
            print(f"| {row['kernel']} | not compiled |")
            continue
        ours, theirs = row["compiled"], row["aten"]
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        mine = statistics.median(ours)
        print(f"| {row['kernel']} | {row['ops']} | {row['in_place']} | "
              f"{1e3 * statistics.median(theirs):.1f} | {1e3 * mine:.1f} | {ratio:.2f} | "
              f"{row['bytes'] / mine / 1e6:.1f} | {statistics.median(row['copy']) / mine:.0%} | "
              f"{row['difference']:.0e} |")  # fmt: skip


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


def describe_machine(rounds):
    text = pathlib.Path("/proc/cpuinfo").read_text()
    processor = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)[1]
    import torch

    return HEADER.format(
        date=datetime.date.today(), processor=processor, cores=os.cpu_count(),
        load=f"{os.getloadavg()[0]:.1f}", torch=torch.__version__, rounds=rounds)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--module", type=pathlib.Path)
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--target", choices=list(CAPABILITIES))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--instructions", action="store_true", help="and no times")
    options = parser.parse_args()
    tools = options.build.resolve() / "bin"
    if not options.target and not options.instructions:
        print(describe_machine(options.rounds))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def command(target, size):
            module = options.module
            if not module:
                module = folder / "kernels.mlir"
                module.write_text(sized((ROOT / "bench" / "kernels.mlir").read_text(), size))
            module = compile_module(tools, module, folder, target)
            return [tools / "kernel-times", module, target, str(options.threads)]

        sizes = ["the module"] if options.module else options.sizes
        flags = pathlib.Path("/proc/cpuinfo").read_text().split()
        targets = [target for target, flag in TARGETS.items() if flag in flags]
        for target in [options.target] if options.target else targets:
            if options.instructions:
                break
            capability = {"ATEN_CPU_CAPABILITY": CAPABILITIES[target]} if target != "best" else {}
            for size in sizes:
                print(f"\n## {size}, f32, {target}\n", flush=True)
                print_times(command(target, size), options.rounds, os.environ | capability)
        if options.instructions or not options.target:
            print(f"\n## Instructions, {sizes[-1]}, AVX2\n", flush=True)
            print_instructions(command("x86-64-v3", sizes[-1]), folder)


if __name__ == "__main__":
    main()
