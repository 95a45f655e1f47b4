#!/usr/bin/env python3
"""solve-sharding beside a MIP solver, on random problems of up to 60 nodes.

    bench/solve_mip.py [--build build] [--problems 500] [--seed 1] [--time-limit 10] [--write]

Needs HiGHS (`pip install highspy`), which Cleave itself does not. A problem has a graph of any kind (chains, trees,
random edges, parallel ones, loops of a node to itself), memory over time from plentiful to too little, and
forbidden choices and pairs in half of them. The MIP has a variable for each choice and each pair of an edge, and
proves its optimum. Fails unless both say that there is no solution, or cost and bound of solve-sharding hold the
optimum between them. --write puts the table into bench/results/solve_mip.md.
"""

import argparse
import collections
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import highspy
from solve import FORBIDDEN, SOURCE, check


def make_problem(draw, most=60):
    """Limit, nodes (start, end, costs, usages), matrices (columns, values) and edges, as solve.read() has them."""
    count = draw.randint(2, most)
    forbids, largest = draw.random() < 0.5, draw.choice((5, 1000))

    def cost():
        return FORBIDDEN if forbids and draw.random() < 0.08 else draw.randrange(largest)

    nodes = []
    for _ in range(count):
        size, start = draw.randint(1, 5), draw.randrange(20)
        end = start + draw.randrange(12)
        nodes.append((start, end, [cost() for _ in range(size)], [draw.randrange(20) for _ in range(size)]))
    kind = draw.choice(("chain", "tree", "sparse", "dense"))
    pairs = [(i, i + 1) for i in range(count - 1)] if kind == "chain" else []
    if kind == "tree":
        pairs = [(draw.randrange(i), i) for i in range(1, count)]
    more = {"chain": count // 4, "tree": count // 4, "sparse": count, "dense": 2 * count}[kind]
    pairs += [(draw.randrange(count), draw.randrange(count)) for _ in range(more)]
    matrices, edges = [], []
    for first, second in pairs:
        if draw.random() < 0.5:
            first, second = second, first
        rows, columns = len(nodes[first][2]), len(nodes[second][2])
        edges.append((first, second, len(matrices)))
        matrices.append((columns, [cost() for _ in range(rows * columns)]))
    # Between what the least and what the most of all choices use.
    peaks = []
    for chosen in (min, max):
        at = [sum(chosen(node[3]) for node in nodes if node[0] <= moment < node[1]) for moment in range(40)]
        peaks.append(max(at))
    limit = draw.randint(int(0.9 * peaks[0]), peaks[1])
    return limit, nodes, matrices, edges


def write_problem(problem, path):
    limit, nodes, matrices, edges = problem
    lines = ["name random", f"usage_limit {limit}", f"nodes {len(nodes)}"]
    lines += [" ".join(map(str, (start, end, len(costs), *costs, *usages))) for start, end, costs, usages in nodes]
    lines += [f"matrices {len(matrices)}"]
    lines += [" ".join(map(str, (len(values) // columns, columns, *values))) for columns, values in matrices]
    lines += [f"edges {len(edges)}"] + [" ".join(map(str, edge)) for edge in edges]
    path.write_text("\n".join(lines) + "\n")


def solve_mip(problem, limit):
    """The optimum; None if there is no solution. A TimeoutError where it was not proved."""
    memory, nodes, matrices, edges = problem
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("threads", 1)
    model.setOptionValue("time_limit", limit)
    model.setOptionValue("mip_rel_gap", 0.0)
    model.setOptionValue("mip_abs_gap", 0.5)

    def variables(costs):
        # What is forbidden is fixed to 0.
        return [model.addVariable(0, 0 if cost >= FORBIDDEN else 1, 0 if cost >= FORBIDDEN else cost,
                                  highspy.HighsVarType.kInteger) for cost in costs]  # fmt: skip

    chosen = [variables(costs) for _, _, costs, _ in nodes]
    for choices in chosen:
        model.addConstr(sum(choices) == 1)
    for first, second, number in edges:
        columns, values = matrices[number]
        pairs = variables(values)
        rows = len(values) // columns
        if first == second:
            for row in range(rows):
                for column in range(columns):
                    pair = pairs[row * columns + column]
                    model.addConstr(pair == (chosen[first][row] if row == column else 0))
            continue
        for row in range(rows):
            model.addConstr(sum(pairs[row * columns : (row + 1) * columns]) == chosen[first][row])
        for column in range(columns):
            model.addConstr(sum(pairs[column::columns]) == chosen[second][column])
    for moment in sorted({node[0] for node in nodes}):
        live = [(choices, node[3]) for choices, node in zip(chosen, nodes) if node[0] <= moment < node[1]]
        if live:
            model.addConstr(sum(u * x for choices, usages in live for x, u in zip(choices, usages)) <= memory)
    model.minimize()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise TimeoutError
    return round(model.getObjectiveValue())


def solve(tool, file, folder, limit):
    command = [tool, file, f"--time-limit={limit}", "-o", folder / "choices.txt"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--problems", default=500, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--time-limit", default=10, type=float)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    counts, seconds = collections.Counter(), [0.0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number in range(options.problems):
            where = f"seed {options.seed}, problem {number}"
            problem = make_problem(random.Random(f"{options.seed}.{number}"))
            write_problem(problem, folder / "problem.iop")
            begin = time.monotonic()
            found = solve(options.build / "bin" / "solve-sharding", folder / "problem.iop", folder, options.time_limit)
            seconds[0] += time.monotonic() - begin
            begin = time.monotonic()
            try:
                optimum = solve_mip(problem, 60.0)
            except TimeoutError:
                counts["not proved by the MIP solver"] += 1
                continue
            finally:
                seconds[1] += time.monotonic() - begin
            if optimum is None:
                assert not found["feasible"] and found["lower_bound"] == "infeasible", f"{where}: {found}, no solution"
                counts["without a solution, by both"] += 1
                continue
            assert found["feasible"], f"{where}: {found}, optimum {optimum}"
            choices = list(map(int, (folder / "choices.txt").read_text().split()))
            assert check(problem, choices) == found["cost"], f"{where}: {found} is not what its choices cost"
            assert found["lower_bound"] <= optimum <= found["cost"], f"{where}: {found}, optimum {optimum}"
            proved = found["lower_bound"] == found["cost"]
            counts["equal, and proved by both" if proved else "within the printed gap"] += 1
    table = "| | problems |\n| --- | ---: |\n"
    table += "".join(f"| {name} | {count} |\n" for name, count in sorted(counts.items()))
    text = (
        f"{options.problems} problems of seed {options.seed}, 2 to 60 nodes with up to 5 choices each, HiGHS"
        f" {highspy.Highs().version()}; in all {seconds[0]:.0f} s for solve-sharding, {seconds[1]:.0f} s for building and solving MIPs.\n\n{table}"
    )
    print(text)
    if options.write:
        page = SOURCE / "bench" / "results" / "solve_mip.md"
        head = f"# Random problems beside a MIP solver\n\n{datetime.date.today()}, `bench/solve_mip.py`: "
        page.write_text(head + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
