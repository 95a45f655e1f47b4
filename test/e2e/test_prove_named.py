"""The op that is changed, or a direct user of its value, is named: of changes of every kind, in programs that are those of one device op
for op, and in some that are not."""

import collections
import dataclasses
import json
import subprocess

import local_mutants
import local_pairs
import local_programs
import more_local_pairs
import numpy as np
import pytest

PAIRS = {local.name: (whole, local) for whole, local in local_pairs.programs() + more_local_pairs.programs()}
# How many of a hundred changes are named at least.
NAMED = {"tensor_parallel_4": 100, "norms": 99, "heads": 94, "microbatches": 98, "grid": 95, "statistics": 92, "sequence": 99,
         "zero_1": 99, "layer": 99, "tokens": 94}  # fmt: skip


def differing(whole, local):
    """(kind, program, changed ops) for each change of one op with which the ranks compute something else."""
    alone = dataclasses.replace(whole, mesh=tuple((axis, 1) for axis, _ in whole.mesh))
    inputs = [local_pairs.arguments(whole, i) for i in range(3)]
    expected = [[values[0] for values in local_programs.run(alone, given)[1]] for given in inputs]
    types = local.local_types()
    for kind, mutant in local_mutants.mutants(local):
        try:
            changed = mutant.local_types()
        except (ValueError, IndexError):
            continue
        if [changed[value] for value, _ in mutant.results] != [types[value] for value, _ in local.results]:
            continue
        ops = local_mutants.changed_ops(local, mutant)
        with np.errstate(all="ignore"):
            if ops and any(local_programs.difference(mutant, wanted, given) > 1e-9 for wanted, given in zip(expected, inputs, strict=True)):
                yield kind, mutant, ops


@pytest.mark.parametrize("name", NAMED)
def test_named(build_dir, tmp_path, name):
    whole, local = PAIRS[name]
    alone = dataclasses.replace(whole, mesh=tuple((axis, 1) for axis, _ in whole.mesh))
    made = list(differing(whole, local))
    texts = {"global": "", "local": local_programs.print_mesh(local.mesh)}
    for i, (_, mutant, _) in enumerate(made):
        texts["global"] += local_programs.print_function(alone, f"m{i}", is_global=True)
        texts["local"] += local_programs.with_lines(local_programs.print_function(mutant, f"m{i}", is_global=False))
    for stem, text in texts.items():
        (tmp_path / f"{stem}.mlir").write_text(text)
    done = subprocess.run(
        [build_dir / "bin" / "cleave-prove", tmp_path / "global.mlir", tmp_path / "local.mlir", "--json", "--execute=false", "--time-limit=600"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    places = {}
    for finding in json.loads(done.stdout)["findings"]:
        file, _, rest = finding.get("location", "").partition(":")
        places.setdefault(finding["function"], int(rest.split(":")[0]) if file == "ops" else None)
    missed = collections.Counter(kind for i, (kind, _, ops) in enumerate(made) if places[f"m{i}"] not in ops)
    assert len(made) > 100
    assert 100 * (len(made) - missed.total()) >= NAMED[name] * len(made), (missed, len(made))
