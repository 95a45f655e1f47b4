"""Placing large models on a mesh by cost alone: seconds, memory, cost and proven bound of --propagate-placements=solve.

    .venv/bin/python bench/placement_solve.py --programs DIRECTORY [--mesh dp=8,tp=8] [--memory BYTES,BYTES]

DIRECTORY has a folder a model with its program.mlir, as `bench/large_models.py --export MODEL --layers N --out FOLDER`
writes it. Each is placed on the mesh with the cost model of --cluster, without a limit of memory and then with each of
--memory. Seconds are those of the pass on a processor, the parser's taken off. Prints Markdown.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from layers import ROOT

UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6}


def run(command):
    """Processor seconds, peak bytes, standard error."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        text = log.read().decode()
    if process.returncode:
        sys.exit(next((line for line in text.splitlines() if "error:" in line), text))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text


def measure(opt, program, options):
    """One row: processor seconds, peak bytes, cost, bound, and the rest of the remark."""
    parsed, _, _ = run([opt, program, "-o", "/dev/null"])
    spent, peak, report = run([opt, program, f"--propagate-placements=solve {options}", "-o", "/dev/null"])
    found = re.findall(r"(?:step costs|costs less than) ([\d.]+) (\w+)", report)
    cost, bound = (float(number) * UNITS[unit] for number, unit in found)
    held = re.search(r"a rank holds at most (.*)", report)
    return max(spent - parsed, 0), peak, cost, bound, held[1] if held else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--mesh", default="dp=8,tp=8")
    parser.add_argument("--memory", default="", help="limits in bytes, separated by commas")
    parser.add_argument("--cluster", default=str(ROOT / "examples/devices/cluster-dgx-h100.json"))
    parser.add_argument("--opt", default=str(ROOT / "build/bin/cleave-opt"))
    options = parser.parse_args()
    print("| program | ops | memory of a rank | seconds of a processor | peak GiB | cost, s | bound, s | gap |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for program in sorted(options.programs.glob("*/program.mlir")):
        ops = len(re.findall(r" = (?:aten|train)\.", program.read_text()))
        for limit in ["", *filter(None, options.memory.split(","))]:
            more = f" memory={limit}" if limit else ""
            seconds, peak, cost, bound, held = measure(
                options.opt, program, f"mesh={options.mesh} microbatches=1 cluster={options.cluster}{more}"
            )
            name = held and f"{held} of {float(limit) / 2**30:.1f} GiB"
            print(
                f"| {program.parent.name} | {ops} | {name or 'unlimited'} | {seconds:.2f} | {peak / 2**30:.2f} "
                f"| {cost:.6g} | {bound:.6g} | {100 * (cost - bound) / cost:.3f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
