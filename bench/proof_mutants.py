#!/usr/bin/env python3
"""Changed programs of ranks: what each computes, beside what cleave-prove and the type checker say of it.

    bench/proof_mutants.py [--build build] [--mutants 10000] [--each 400] [--programs loss,ring] [--log FILE] [--write]

The programs are those of test/e2e/local_pairs.py and more_local_pairs.py, the changes those of local_mutants.py; NumPy runs each on all ranks
in float64, on three sets of inputs. Each is tried without types, and with those of the right program where there are
any: what `cleave-opt --check-spmd-types` accepts is proved, too. First come all single changes, then programs with two
changes, of which the second one is of a kind that is drawn: more often of those of which there are fewer than --each, in
the programs that can have such. With --log every program of a round is kept in FILE, and a later run goes on from
there. Prints Markdown; --write puts it into bench/results/proof_mutants.md. Ends with status 1 if a program that
differs was proved.
"""

import argparse
import bisect
import collections
import dataclasses
import datetime
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "test/e2e"))

import local_mutants  # noqa: E402
import local_pairs  # noqa: E402
import local_programs  # noqa: E402
import local_types  # noqa: E402
import more_local_pairs  # noqa: E402
import numpy as np  # noqa: E402

PAIRS = 100  # of changes in one program, tried in each round but the first
TOLERANCE = 1e-9


def fits(program, wanted):
    """Whether all shapes fit, and the results have the types that they had."""
    try:
        types = program.local_types()
    except (ValueError, IndexError):
        return False
    return [types[value] for value, _ in program.results] == wanted


def variants(local, number, short=frozenset()):
    """(kind, program): in round 0 every change, later pairs of changes, by the last one's kind, more of `short` ones."""
    types = local.local_types()
    wanted = [types[value] for value, _ in local.results]
    singles = [(kind, mutant) for kind, mutant in local_mutants.mutants(local) if fits(mutant, wanted)]
    if number == 0:
        yield from singles
        return
    chosen = random.Random(f"{local.name} {number}")
    for _ in range(PAIRS):
        by_kind = collections.defaultdict(list)
        for kind, mutant in local_mutants.mutants(chosen.choice(singles)[1]):
            by_kind[kind].append(mutant)
        kinds = sorted(by_kind)
        (kind,) = chosen.choices(kinds, [100 if kind in short else 1 for kind in kinds])
        mutant = chosen.choice(by_kind[kind])
        if fits(mutant, wanted):
            yield kind, mutant


def refused_by_types(build, mutants):
    """For each mutant whether the type checker, or the verifier of an op, refuses it."""
    texts, starts, line = [], [], 1
    for mutant in mutants:
        text = local_programs.print_mesh(mutant.mesh)
        text += local_programs.print_function(mutant, "rank", is_global=False, is_typed=True) + "// -----\n"
        texts.append(text)
        starts.append(line)
        line += text.count("\n")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "typed.mlir"
        file.write_text("".join(texts))
        done = subprocess.run(
            [build / "bin/cleave-opt", file, "--split-input-file", "--check-spmd-types", "--error-limit=0", "-o", "/dev/null"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    errors = {int(number) for number in re.findall(r"typed\.mlir:(\d+):\d+: error", done.stderr)}
    if (done.returncode != 0) != bool(errors):
        raise RuntimeError(done.stderr)
    refused = {bisect.bisect_right(starts, error) - 1 for error in errors}
    return [i in refused for i in range(len(mutants))]


def prove(build, whole, mutants, is_typed=False):
    """For each mutant None if it is proved, or the line of the op that is named, -1 where none is."""
    if not mutants:
        return []
    texts = {"global": "", "local": local_programs.print_mesh(mutants[0].mesh) + "\n"}
    for i, mutant in enumerate(mutants):
        texts["global"] += local_programs.print_function(whole, f"m{i}", is_global=True)
        local = local_programs.print_function(mutant, f"m{i}", is_global=False, is_typed=is_typed)
        texts["local"] += local_programs.with_lines(local)
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / f"{name}.mlir" for name in texts]
        for file, text in zip(files, texts.values(), strict=True):
            file.write_text(text)
        done = subprocess.run(
            [build / "bin/cleave-prove", *files, "--json", "--execute=false", "--time-limit=600"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode not in (0, 2):
        raise RuntimeError(done.stderr)
    answer = json.loads(done.stdout)
    if "reason" in answer:
        raise RuntimeError(answer["reason"])
    named = {}
    for finding in answer["findings"]:
        place = finding.get("location", "").split(":")
        named.setdefault(finding["function"], int(place[1]) if place[0] == "ops" else -1)
    return [named.get(f"m{i}") for i in range(len(mutants))]


def run_round(build, whole, local, number, is_typed, short=frozenset()):
    """Counts by kind of one program's round, and the texts of what was proved though it differs."""
    alone = dataclasses.replace(whole, mesh=tuple((axis, 1) for axis, _ in whole.mesh))
    if is_typed:
        local = local_types.typed(local)
    made = list(variants(local, number, short))
    mutants = [mutant for _, mutant in made]
    refused = refused_by_types(build, mutants) if is_typed else [False] * len(made)
    accepted = [mutant for mutant, is_refused in zip(mutants, refused, strict=True) if not is_refused]
    named = iter(prove(build, alone, accepted, is_typed))
    inputs = [local_pairs.arguments(whole, seed) for seed in range(3)]
    np.seterr(all="ignore")  # what is not finite differs
    expected = [[values[0] for values in local_programs.run(alone, given)[1]] for given in inputs]
    counts = collections.defaultdict(collections.Counter)
    wrong = []
    for (kind, mutant), is_refused in zip(made, refused, strict=True):
        worst = max(
            local_programs.difference(mutant, wanted, given) for wanted, given in zip(expected, inputs, strict=True)
        )
        differs = worst > TOLERANCE
        counts[kind]["made"] += 1
        counts[kind]["differ"] += differs
        if is_refused:
            counts[kind]["refused by types"] += 1
            continue
        line = next(named)
        is_proved = line is None
        if not differs:
            counts[kind]["equal, proved" if is_proved else "equal, unknown"] += 1
            continue
        counts[kind]["passed by types"] += is_typed
        if is_proved:
            counts[kind]["differ, proved"] += 1
            wrong.append(f"{kind}: {worst}\n" + local_programs.print_function(mutant, "rank", is_global=False))
        # Where only the choice of what is returned is wrong, no op is.
        elif number == 0 and (ops := local_mutants.changed_ops(local, mutant)):
            counts[kind]["one change"] += 1
            counts[kind]["named"] += line in ops
    return {"program": local.name, "round": number, "typed": is_typed, "kinds": counts, "wrong": wrong}


def read(log):
    return [json.loads(line) for line in log.read_text().splitlines()] if log and log.exists() else []


def report(rows):
    """The page's tables."""
    by_kind, by_program = (collections.defaultdict(collections.Counter) for _ in range(2))
    for row in rows:
        for kind, counts in row["kinds"].items():
            by_kind[kind].update(counts)
            by_kind[kind]["typed"] += counts["made"] if row["typed"] else 0
            by_program[row["program"]].update(counts)
    total = sum(by_kind.values(), collections.Counter())
    typed = collections.Counter()
    for row in rows:
        for counts in row["kinds"].values():
            typed.update(counts if row["typed"] else {})
    columns = ("made", "typed", "differ", "refused by types", "differ, proved", "equal, proved", "equal, unknown")
    lines = [
        f"{total['made']} changed programs, of {len(by_program)} programs, {typed['made']} of them with types: "
        f"{total['differ']} differ by more than {TOLERANCE} in float64, of which {total['differ, proved']} are proved. {total['equal, unknown']} "
        f"({100 * total['equal, unknown'] / max(1, total['made']):.1f} % of all) are equal and not proved.",
        "",
        f"Of the {typed['differ']} with types that differ, the type checker refuses all but "
        f"{typed['passed by types']}; cleave-prove proves {typed['differ, proved']} of these.",
        "",
        f"Of {total['one change']} programs with one changed op that differ, cleave-prove names that op or a direct "
        f"user in {total['named']} ({100 * total['named'] / max(1, total['one change']):.1f} %).",
    ]
    for what, table in (("change", by_kind), ("program", by_program)):
        shown = columns if what == "change" else [column for column in columns if column != "typed"]
        lines += ["", f"| {what} | {' | '.join(shown)} | one change | op named |"]
        lines.append("| --- |" + " --- |" * (len(shown) + 2))
        for name, counts in sorted(table.items()):
            cells = [str(counts[column]) for column in shown]
            lines.append(f"| {name} | {' | '.join(cells)} | {counts['one change']} | {counts['named']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--mutants", type=int, default=10_000, help="stop after the round that has as many")
    parser.add_argument("--each", type=int, default=0, help="go on until there are as many of each kind")
    parser.add_argument("--programs", help="names of programs, comma-separated; all if not given")
    parser.add_argument("--log", type=pathlib.Path, help="counts of each program's rounds, one of JSON a line")
    parser.add_argument("--write", action="store_true", help="write bench/results/proof_mutants.md")
    options = parser.parse_args()
    pairs = local_pairs.programs() + more_local_pairs.programs() + more_local_pairs.untuned()
    programs = {local.name: (whole, local) for whole, local in pairs}
    if options.programs:
        unknown = set(options.programs.split(",")) - set(programs)
        if unknown:
            parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(programs)}")
        programs = {name: programs[name] for name in options.programs.split(",")}
    # Some have values for which there is no type.
    right = [local_types.typed(local) for _, local in programs.values()]
    refused = refused_by_types(options.build, right)
    typed = {local.name for local, is_refused in zip(right, refused, strict=True) if not is_refused}
    rows = [row for row in read(options.log) if row["program"] in programs]
    done = {(row["program"], row["round"], row["typed"]) for row in rows}
    number = 0
    while number == 0 or sum(kinds_of(rows).values()) < options.mutants or short_kinds(rows, options.each):
        # Of what came before this round, also where it goes on.
        before = [row for row in rows if row["round"] < number]
        short = short_kinds(before, options.each) if number else set()
        for name, (whole, local) in programs.items():
            of_program = kinds_of(row for row in before if row["program"] == name)
            for is_typed in (False, True):
                if (name, number, is_typed) in done or (is_typed and name not in typed):
                    continue
                if short and not short & set(of_program):
                    continue
                row = run_round(options.build, whole, local, number, is_typed, short)
                rows.append(row)
                if options.log:
                    with options.log.open("a") as log:
                        log.write(json.dumps(row) + "\n")
        number += 1
    text = report(rows)
    print(text)
    if options.write:
        head = "# Proofs of changed programs\n\n"
        head += f"`bench/proof_mutants.py`, {datetime.date.today()}. Changes are made without knowledge of the "
        head += "prover; [docs/proof.md](../../docs/proof.md) says what is proved. A program with two changes counts as "
        head += "its second one. "
        head += "An op is looked for where there is one change, and not where only another value is returned.\n\n"
        (SOURCE / "bench/results/proof_mutants.md").write_text(head + text)
    wrong = [text for row in rows for text in row["wrong"]]
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


def kinds_of(rows):
    """How many there are of each kind of change."""
    made = collections.Counter()
    for row in rows:
        for kind, counts in row["kinds"].items():
            made[kind] += counts["made"]
    return made


def short_kinds(rows, each):
    """The kinds of which there are fewer."""
    return {kind for kind, count in kinds_of(rows).items() if count < each}


if __name__ == "__main__":
    sys.exit(main())
