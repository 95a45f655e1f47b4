"""Placing large models on a mesh by cost alone: seconds, memory, cost and proven bound of --propagate-placements=solve.

    .venv/bin/python bench/placement_solve.py --programs FOLDER [--only NAME,NAME] [--runs 2] [--write]

FOLDER keeps the programs that `bench/large_models.py --export MODEL --layers N` makes; those that are not there yet
are exported first. Each is placed on the mesh with the cost model of --cluster, without a limit of memory and below
limits that bind: at least 1 % less than what the optimum without a limit holds, and for some programs 1 % more than the least
that will do, and the middle between both. Seconds are those of the pass on a processor, all threads together, the
parser's taken off, in the fastest of --runs runs. Prints Markdown; --write puts it, with the date, into
bench/results/placement_solve.md.
"""

import argparse
import dataclasses
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from large_models import MODELS
from layers import ROOT

RESULTS = ROOT / "bench/results/placement_solve.md"
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6}
GIB = 2**30
# A limit that never binds: with it, what the optimum holds is reported.
UNBOUND = 1e15


@dataclasses.dataclass
class Case:
    model: str
    layers: int
    # Which of the binding limits are measured.
    limits: tuple[str, ...] = ()

    @property
    def name(self):
        return f"{self.model}-{self.layers}"

    @property
    def title(self):
        return f"{MODELS[self.model].title}, {self.layers} layers, {MODELS[self.model].batch} sequences"


CASES = [
    Case("llama3-8b", 32, ("just below", "middle", "least")),
    Case("llama3-8b", 126),
    Case("deepseek-v3", 61, ("just below",)),
]


def run(command):
    """Exit status, processor seconds, peak bytes, standard error."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        text = log.read().decode()
    return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text


def succeed(command):
    code, *rest = run(command)
    if code:
        sys.exit(next((line for line in rest[-1].splitlines() if "error:" in line), rest[-1]))
    return rest


class Placing:
    def __init__(self, options, program):
        self.runs, self.program = options.runs, program
        self.command = [options.opt, program, "-o", "/dev/null"]
        self.options = f"mesh={options.mesh} microbatches=1 cluster={options.cluster}"
        self.parsing = min(succeed(self.command)[0] for _ in range(options.runs))

    def passes(self, limit):
        memory = "" if limit is None else f" memory={limit:.0f}"
        return [*self.command, f"--propagate-placements=solve {self.options}{memory}"]

    def held(self):
        """Bytes that a rank holds at least where there is no limit."""
        report = succeed(self.passes(UNBOUND))[-1]
        number, unit = re.search(r"a rank holds at most ([\d.]+) (\w+)", report).groups()
        # Rounded to the last digit that is printed: the least that it may stand for.
        return (float(number) - 0.05) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)

    def least(self):
        """Bytes that are enough, as the error says where there are too few."""
        return int(re.search(r"(\d+) bytes \([^)]*\) are enough", run(self.passes(1))[-1])[1])

    def limits(self, names):
        """Title and bytes of each row."""
        rows = [("unlimited", None)]
        if not names:
            return rows
        below = 0.99 * self.held()
        if "just below" in names:
            rows.append(("just below the optimum's", below))
        if {"middle", "least"} & set(names):
            least = 1.01 * self.least()
            rows += [("in the middle", (below + least) / 2)] * ("middle" in names)
            rows += [("just above the least", least)] * ("least" in names)
        return rows

    def measure(self, limit):
        """Processor seconds, peak bytes, cost, bound, and what a rank holds."""
        spent, peak, report = min(succeed(self.passes(limit)) for _ in range(self.runs))
        found = re.findall(r"(?:step costs|costs less than) ([\d.]+) (\w+)", report)
        cost, bound = (float(number) * UNITS[unit] for number, unit in found)
        held = re.search(r"a rank holds at most (.*)", report)
        return max(spent - self.parsing, 0), peak, cost, bound, held[1] if held else ""


def export(case, folder):
    program = folder / case.name / "program.mlir"
    if not program.exists():
        script = [sys.executable, ROOT / "bench/large_models.py", "--export", case.model]
        subprocess.run([*script, "--layers", str(case.layers), "--out", program.parent], check=True)
    return program


def rows(options):
    for case in CASES:
        if options.only and case.name not in options.only.split(","):
            continue
        program = export(case, options.programs)
        ops = len(re.findall(r" = (?:aten|train)\.", program.read_text()))
        placing = Placing(options, program)
        for title, limit in placing.limits(case.limits):
            seconds, peak, cost, bound, held = placing.measure(limit)
            memory = f"{title}: {held} of {limit / GIB:.1f} GiB" if limit else title
            yield (
                f"| {case.title} | {ops} | {memory} | {seconds:.2f} | {peak / GIB:.2f} "
                f"| {cost:.6g} | {bound:.6g} | {100 * (cost - bound) / cost:.3f} % |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--only", help=", ".join(case.name for case in CASES))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--mesh", default="dp=8,tp=8")
    parser.add_argument("--cluster", default=ROOT / "examples/devices/cluster-dgx-h100.json", type=pathlib.Path)
    parser.add_argument("--opt", default=ROOT / "build/bin/cleave-opt", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write needs all programs")
    table = [
        "| program | ops | memory of a rank | seconds of a processor | peak GiB | cost, s | bound, s | gap |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    print("\n".join(table), flush=True)
    for row in rows(options):
        print(row, flush=True)
        table.append(row)
    if options.write:
        RESULTS.write_text(page(options, table))


def page(options, table):
    lines = "\n".join(table)
    return f"""# Placement by cost alone

{datetime.date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, fastest of {options.runs} runs. Models of their published
layouts with AdamW, exported without weights; mesh `{options.mesh}`, cost model of `{options.cluster.name}`, one microbatch. Seconds of the pass
on a processor, system's included, all threads together, the parser's taken off; cost and bound of a step by the cost model. Made by
`bench/placement_solve.py --write`.

{lines}

A limit that binds takes longer: prices of memory are searched for, and where the gap stays above 0.1 % all moves are made.
"""


if __name__ == "__main__":
    main()
