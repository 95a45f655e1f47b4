"""Random programs and their mutations, run through the compiler and compared with the oracle.

    python test/conformance/campaign.py PROGRAMS [SEED] [BUILD]

runs so many programs, and mutants of a tenth of them, prints what it finds and writes
test/conformance/campaign.json, which docs/collectives.md quotes.
"""

import argparse
import collections
import datetime
import json
import pathlib
import random
import re
import sys
import tempfile
import time

import torch

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from conformance.comparison import FLOAT64, difference
from conformance.generate import MESHES, random_program, well_typed_meaning
from conformance.module import Module
from conformance.mutate import MUTATIONS, mutate
from conformance.tools import Tools

BUNDLE = 250  # programs that run as one
FLOOR = 1e-3  # values are of order 1; what is smaller may be what rounding leaves of differences
PASSES = ("--check-spmd-types", "--autodiff", "--check-spmd-types")
RECORD = pathlib.Path(__file__).with_name("campaign.json")


class Failure(Exception):
    """A program that has other gradients than its denotation, or a mutant whose types lie; says which."""


def generated(mesh, count, seed):
    """`count` programs; the same for the same seed."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    for number in range(count):
        program = random_program(mesh, f"p{number}", draw)
        if not well_typed_meaning(program):
            raise Failure(
                f"seed {seed}, mesh {mesh.text()}: the generator made no typed program, number {number}"
            )
        yield program


def compare(tools, mesh, programs, names, check=True, passes=PASSES):
    """Executes programs as one and compares losses and gradients; returns the worst difference.

    `check`: also compare, op by op, what types call equal. `passes`: what differentiates them.
    """
    if not programs:
        return 0.0
    module = Module(mesh, programs)
    joint = tools.transform(module.text(), *passes)
    found = tools.run(
        joint,
        module.tensors(True),
        module.tensors(False),
        mesh.ranks,
        *check * ["--check", "replicated"],
    )
    worst = 0.0
    for program, name in zip(programs, names):
        loss, gradients = program.gradients()
        gap = difference(found[f"output.{program.prefix}loss"], loss, FLOOR)
        for parameter, gradient in gradients.items():
            gap = max(gap, difference(found[f"grad.{parameter}"], gradient, FLOOR))
        if not gap < FLOAT64:
            (tools.folder / "failure.mlir").write_text(Module(mesh, [program]).text())
            raise Failure(f"{name}: differs by {gap}")
        worst = max(worst, gap)
    return worst


def run_programs(tools, mesh, count, seed, check=True, passes=PASSES):
    """`count` programs as one; returns the worst difference."""
    programs = list(generated(mesh, count, seed))
    names = [f"seed {seed}, {mesh.text()}, program {n}" for n in range(count)]
    return compare(tools, mesh, programs, names, check, passes)


def run_mutants(tools, mesh, count, seed):
    """One mutant of each kind of each of `count` programs: {(kind, outcome): how many}.

    Outcomes: refused; unchanged (accepted, the same loss and gradients as before); right (accepted, other
    values, and gradients of its own denotation).
    """
    draw = random.Random(seed)
    mutants = []
    for program in generated(mesh, count, seed):
        for kind in MUTATIONS:
            mutant = mutate(program, kind, draw)
            if mutant is not None:
                mutants.append(
                    (kind, program, mutant.renamed(f"m{len(mutants)}"), mutant.evaluates)
                )
    errors = tools.refusals([Module(mesh, [m]).text() for _, _, m, _ in mutants], *PASSES)
    for number, (_, _, mutant, evaluates) in enumerate(mutants):
        if not errors[number] and not evaluates:
            errors[number] = refused_when_loaded(tools, Module(mesh, [mutant]))
    counts = collections.Counter((kind, "refused") for (kind, *_), e in zip(mutants, errors) if e)
    accepted = [m for m, e in zip(mutants, errors) if not e]
    for kind, _, mutant, evaluates in accepted:
        if not evaluates or not mutant.honest():
            (tools.folder / "failure.mlir").write_text(Module(mesh, [mutant]).text())
            raise Failure(
                f"seed {seed}, {mesh.text()}, {kind}, {mutant.prefix}: types that lie are accepted"
            )
    names = [f"seed {seed}, {mesh.text()}, {kind}, {m.prefix}" for kind, _, m, _ in accepted]
    compare(tools, mesh, [m for _, _, m, _ in accepted], names)
    for kind, original, mutant, _ in accepted:
        counts[kind, "unchanged" if _equal(original, mutant) else "right"] += 1
    return counts


def refused_when_loaded(tools, module):
    """The error where ranks that would hold less than others share one function with them."""
    result = tools.start(
        module.text(), module.tensors(True), module.tensors(False), module.mesh.ranks
    )
    found = re.search(r"rank \d+ holds \d+; the function is for ranks that hold \d+", result.stderr)
    return found and found[0] if result.returncode == 1 else None


def _equal(original, mutant):
    before, after = original.gradients(), mutant.gradients()
    values = [before[0], *(g for _, g in sorted(before[1].items()))]
    others = [
        after[0],
        *(after[1][mutant.prefix + n[len(original.prefix) :]] for n in sorted(before[1])),
    ]
    return all(difference(b, a, FLOOR) < FLOAT64 for a, b in zip(values, others))


def main(count, seed, build, resume):
    torch.set_num_threads(1)
    start, done = time.time(), 0
    counts, worst = collections.Counter(), 0.0
    if resume:
        record = json.loads(RECORD.read_text())
        seed, done, worst = record["seed"], record["programs"], record["worst"]
        start -= record["seconds"]
        for kind, outcomes in record["mutants"].items():
            counts.update({(kind, outcome): n for outcome, n in outcomes.items()})
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(pathlib.Path(build), pathlib.Path(folder))
        while done < count:
            for mesh in MESHES:
                size = min(BUNDLE, count - done)
                if size == 0:
                    break
                number = -(-done // BUNDLE)
                worst = max(
                    worst, run_programs(tools, mesh, size, seed + number, check=number % 9 == 0)
                )
                if number % 40 < len(MESHES):
                    counts += run_mutants(tools, mesh, size, seed + number)
                done += size
            report(done, seed, worst, round(time.time() - start), counts)


def report(programs, seed, worst, seconds, counts):
    """Prints how far it is, and records it: a campaign that is stopped has a record too."""
    print(
        f"{programs} programs, {sum(counts.values())} mutants, worst {worst:.1e}, {seconds} s",
        flush=True,
    )
    record = {
        "date": datetime.date.today().isoformat(),
        "seed": seed,
        "programs": programs,
        "worst": float(f"{worst:.1e}"),
        "seconds": seconds,
        "mutants": {
            kind: {o: counts[kind, o] for o in ("refused", "unchanged", "right")}
            for kind in MUTATIONS
        },
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs random typed programs and their mutations.")
    parser.add_argument("programs", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--resume", action="store_true", help="go on from the recorded programs")
    arguments = parser.parse_args()
    try:
        main(arguments.programs, arguments.seed, arguments.build, arguments.resume)
    except Failure as failure:
        sys.exit(f"error: {failure}")
