"""Nothing that computes something else on a mesh is proved to be the program of one device.

Every change of one op, and pairs of changes, of programs for tensor, data, sequence and context parallelism
without types: what each computes, NumPy says, on all ranks in float64.
"""

import collections
import dataclasses
import random

import local_mutants
import local_pairs
import local_programs
import pytest
from combinations_cover import seed

PAIRS = 60  # of changes, in each program


def variants(local):
    """The program itself, all changes, and some pairs of them; those whose shapes fit."""

    def fits(mutant):
        try:
            types = mutant.local_types()
        except (ValueError, IndexError):
            return False
        return [types[value] for value, _ in mutant.results] == wanted

    original = local.local_types()
    wanted = [original[value] for value, _ in local.results]
    singles = [(kind, mutant) for kind, mutant in local_mutants.mutants(local) if fits(mutant)]
    yield "none", local
    yield from singles
    chosen = random.Random(seed())
    for _ in range(PAIRS):
        _, once = chosen.choice(singles)
        _, twice = chosen.choice(list(local_mutants.mutants(once)))
        if fits(twice):
            yield "two changes", twice


def prove_all(prove, folder, whole, mutants):
    """For each mutant whether it was proved: all are functions of one module."""
    texts = {"global": "", "local": local_programs.print_mesh(mutants[0].mesh)}
    for i, mutant in enumerate(mutants):
        texts["global"] += local_programs.print_function(whole, f"m{i}", is_global=True)
        texts["local"] += local_programs.print_function(mutant, f"m{i}", is_global=False)
    for name, text in texts.items():
        (folder / f"{name}.mlir").write_text(text)
    answer = prove(folder / "global.mlir", folder / "local.mlir")
    assert "reason" not in answer, answer["reason"]
    assert answer["results"] == len(mutants) * len(whole.results)
    failed = {finding["function"] for finding in answer["findings"]}
    return [f"m{i}" not in failed for i in range(len(mutants))]


@pytest.mark.parametrize("pair", local_pairs.programs(), ids=lambda pair: pair[0].name)
def test_no_mutant_that_differs_is_proved(prove, tmp_path, pair):
    whole, local = pair
    made = list(variants(local))
    kinds, mutants = zip(*made, strict=True)
    alone = on_one_rank(whole)
    proved = prove_all(prove, tmp_path, alone, mutants)
    assert proved[0], "the program itself"

    tensors = [local_pairs.arguments(whole, i) for i in range(3)]
    expected = [[values[0] for values in local_programs.run(alone, given)[1]] for given in tensors]
    counts = collections.Counter()
    for kind, mutant, is_proved in zip(kinds, mutants, proved, strict=True):
        worst = max(
            local_programs.difference(mutant, wanted, given) for wanted, given in zip(expected, tensors, strict=True)
        )
        assert not (is_proved and worst > 1e-9), (
            f"{kind}: proved, but differs by {worst}\n"
            + local_programs.print_function(alone, "one_device", is_global=True)
            + local_programs.print_function(mutant, "rank", is_global=False)
        )
        counts["differs" if worst > 1e-9 else "proved" if is_proved else "equal, unknown"] += 1
    # The changes are worth something, and the answer "unknown" is not the only one.
    assert counts["differs"] > 20, counts
    print(whole.name, dict(counts))


def on_one_rank(program):
    """The program of one device, as one that runs on a mesh of one rank."""
    return dataclasses.replace(program, mesh=tuple((axis, 1) for axis, _ in program.mesh))
