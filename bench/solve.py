#!/usr/bin/env python3
"""Cost and bound of solve-sharding over time, and packings by pack-buffers.

    bench/solve.py DATA [--build build] [--instances B,K] [--part 1] [--seeds 1] [--runs FILE] [--packing] [--write]

DATA has the instances X.iop.gz in iopddl/, their limits and best costs in iopddl/results.csv, and buffers
X.csv with capacities in minimalloc/index.csv. Each instance gets --part of its time limit. Solutions are
checked here, in Python's integers and apart from the solver. Prints Markdown; --write puts it, with the
date, into bench/results/solve.md, in place of the table of the same kind that was written there before, and
leaves everything else as it is.

A whole table takes hours. With --runs, each run is noted in a file when it is done, and runs that are in it
already are not repeated: stop it at any time, and start it again with the same file.
"""

import argparse
import csv
import datetime
import gzip
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
FORBIDDEN = 10**18


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def read(path):
    """Limit, nodes (start, end, costs, usages), matrices (columns, values) and edges of a problem."""
    with gzip.open(path, "rt") as file:
        lines = (line.split() for line in file if not line.startswith("#"))
        next(lines)
        limit = int(next(lines)[1])
        nodes, matrices, edges = [], [], []
        for _ in range(int(next(lines)[1])):
            start, end, size, *values = map(int, next(lines))
            nodes.append((start, end, values[:size], values[size:]))
        for _ in range(int(next(lines)[1])):
            _, columns, *values = map(int, next(lines))
            matrices.append((columns, values))
        for _ in range(int(next(lines)[1])):
            edges.append(tuple(map(int, next(lines))))
    return limit, nodes, matrices, edges


def check(problem, choices):
    """The cost of a solution; nothing if it is none."""
    limit, nodes, matrices, edges = problem
    if len(choices) != len(nodes):
        return None
    if any(not 0 <= choice < len(node[2]) for node, choice in zip(nodes, choices)):
        return None
    costs = [node[2][choice] for node, choice in zip(nodes, choices)]
    for first, second, number in edges:
        columns, values = matrices[number]
        costs.append(values[choices[first] * columns + choices[second]])
    changes = {}
    for (start, end, _, usages), choice in zip(nodes, choices):
        if start < end:
            changes[start] = changes.get(start, 0) + usages[choice]
            changes[end] = changes.get(end, 0) - usages[choice]
    present = 0
    for moment in sorted(changes):
        present += changes[moment]
        if present > limit:
            return None
    return None if any(cost >= FORBIDDEN for cost in costs) else sum(costs)


def check_packing(buffers, offsets, capacity):
    if len(buffers) != len(offsets):
        return False
    for (start, end, size), offset in zip(buffers, offsets):
        if offset < 0 or (start < end and offset + size > capacity):
            return False
    return not any(
        a[0] < b[1] and b[0] < a[1] and a[0] < a[1] and b[0] < b[1] and x < y + b[2] and y < x + a[2]
        for i, (a, x) in enumerate(zip(buffers, offsets))
        for b, y in zip(buffers[:i], offsets[:i]))


def integers(path):
    return [int(line) for line in path.read_text(encoding="utf-8").split()]


def measure(command):
    """The tool's report, wall time and processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), wall, after.ru_utime - before.ru_utime


def solve(build, folder, row, part, seed):
    """Score, cost, bound, wall and processor time, and (seconds, cost, bound) over time."""
    path = folder / f"{row['instance']}.iop.gz"
    limit = float(row["timeout_s"]) * part
    with tempfile.TemporaryDirectory() as scratch:
        out, trace = pathlib.Path(scratch) / "out", pathlib.Path(scratch) / "trace"
        report, wall, processor = measure([build / "bin/solve-sharding", path, f"--time-limit={limit}",
                                           f"--seed={seed}", "-o", out, f"--trace={trace}"])
        history = list(csv.reader(trace.read_text(encoding="utf-8").splitlines()))[1:]
        cost = check(read(path), integers(out)) if report["feasible"] else None
    if cost != report["cost"]:
        sys.exit(f"{path}: solve-sharding reports a cost of {report['cost']}, its choices cost {cost}")
    known = int(row["best_verified_by_us"])
    bound = report["lower_bound"]
    if bound > int(row["best_known"]):
        sys.exit(f"{path}: the bound {bound} is above a known solution's cost")
    return (known / cost if cost else 0.0), cost, bound, wall, processor, limit, history


def runs_of(build, folder, row, part, seeds, notes):
    """One run for each seed, those noted before included; notes new ones."""
    found = []
    known = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()] if notes and notes.exists() else []
    for seed in range(1, seeds + 1):
        key = {"instance": row["instance"], "seed": seed, "part": part}
        run = next((entry["run"] for entry in known if entry["key"] == key), None)
        if run is None:
            run = solve(build, folder, row, part, seed)
            if notes:
                with open(notes, "a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "run": run}) + "\n")
        found.append(tuple(run))
    return sorted(found, key=lambda run: run[0])


def solve_table(build, data, names, part, seeds, notes):
    lines = ["| instance | limit (s) | score | cost | certified bound | published bound | gap (%) | wall (s) | CPU (s) | score / bound over time |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"]
    for row in rows(data / "iopddl/results.csv"):
        if names and row["instance"] not in names:
            continue
        runs = runs_of(build, data / "iopddl", row, part, seeds, notes)
        # The middle one of an odd number, the lower of the middle two otherwise.
        score, cost, bound, wall, processor, limit, history = runs[(len(runs) - 1) // 2]
        known = int(row["best_verified_by_us"])
        course = "; ".join(
            f"{float(seconds):.0f} s: {known / int(c) if c else 0:.3f} / {int(b):.4g}"
            for seconds, c, b in history if b)
        gap = f"{100 * (cost - bound) / cost:.2f}" if cost else ""
        lines.append(f"| {row['instance']} | {limit:g} | {score:.4f} | {cost} | {bound} | {row['lower_bound']} "
                     f"| {gap} | {wall:.1f} | {processor:.1f} | {course} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def packing_table(build, data, names):
    lines = ["| instance | buffers | capacity | height | fits | wall (s) | CPU (s) |",
             "| --- | ---: | ---: | ---: | --- | ---: | ---: |"]
    for row in rows(data / "minimalloc/index.csv"):
        if names and row["instance"] not in names:
            continue
        path = data / f"minimalloc/{row['instance']}.csv"
        buffers = [(int(b["lower"]), int(b["upper"]), int(b["size"])) for b in rows(path)]
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch) / "out"
            report, wall, processor = measure([build / "bin/pack-buffers", path, f"--capacity={row['capacity']}",
                                               "--time-limit=60", "-o", out])
            fits = check_packing(buffers, integers(out), int(row["capacity"]))
        if fits != report["feasible"]:
            sys.exit(f"{path}: pack-buffers reports feasible = {report['feasible']}, the check says {fits}")
        lines.append(f"| {row['instance']} | {len(buffers)} | {row['capacity']} | {report['height']} | "
                     f"{'yes' if fits else 'no'} | {wall:.1f} | {processor:.1f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def replace_section(old, kind, text):
    """Puts the text, between two marks, where the marks of that kind are, or at the end."""
    begin, end = f"<!-- {kind}: made by bench/solve.py --write -->", f"<!-- end of {kind} -->"
    section = f"{begin}\n\n{text}\n\n{end}"
    before, found, rest = old.partition(begin)
    if not found:
        return f"{old.rstrip()}\n\n{section}\n"
    if end not in rest:
        sys.exit(f"expected '{end}' after '{begin}'")
    return before + section + rest.partition(end)[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--instances", default="", help="names, separated by commas (all if not given)")
    parser.add_argument("--part", type=float, default=1.0, help="of each time limit")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each instance; the median is shown")
    parser.add_argument("--runs", type=pathlib.Path, help="file of runs that are done, read and added to")
    parser.add_argument("--packing", action="store_true", help="buffers only")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in arguments.instances.split(",") if name]
    load = os.getloadavg()[0]
    text = [f"{datetime.date.today()}; {os.cpu_count()} processors shared with other work (load at the start "
            f"{load:.1f}), so wall time says little: compare CPU time. Limits times {arguments.part:g}; seeds: "
            f"{arguments.seeds}.", ""]
    if arguments.packing:
        text += packing_table(arguments.build, arguments.data, names)
    else:
        text += solve_table(arguments.build, arguments.data, names, arguments.part, arguments.seeds,
                            arguments.runs)
    print("\n".join(text))
    if arguments.write:
        path = SOURCE / "bench/results/solve.md"
        title = "# Solving shardings, packing buffers\n"
        old = path.read_text(encoding="utf-8") if path.exists() else title
        kind = "packing" if arguments.packing else f"table of {arguments.part:g} of the limits"
        path.write_text(replace_section(old, kind, "\n".join(text)), encoding="utf-8")


if __name__ == "__main__":
    main()
