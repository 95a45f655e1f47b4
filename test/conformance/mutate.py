"""Mutations of typed programs: an op dropped, a type changed, a reduction exchanged, an axis exchanged."""

import copy
import dataclasses

from .operations import WITH_REDUCTION, Op
from .values import BITWISE, KINDS, REDUCTIONS, shard

MUTATIONS = ("drop", "type", "reduction", "axis", "gradient type")


def mutate(program, kind, random):
    """A mutated copy, or None if the program has nothing of the kind.

    The copy's `values` are evaluated again where that is possible; where shapes no longer fit they are the
    original's, and the program that is printed has operands of wrong shapes.
    """
    mutant = copy.copy(program)
    mutant.steps = [dataclasses.replace(s, kinds=dict(s.kinds)) for s in program.steps]
    if not globals()["_" + kind.replace(" ", "_")](mutant, random):
        return None
    try:
        mutant.values = mutant.evaluate()
        mutant.evaluates = all(
            len({t.shape for t in ranks}) == 1 and all(n > 0 for n in ranks[0].shape)
            for ranks in mutant.values
        )
    except (RuntimeError, IndexError, TypeError, ValueError):  # no such shapes, dimensions, types
        mutant.evaluates = False
    if not mutant.evaluates:
        mutant.values = program.values
    return mutant


def _dist_steps(program, names=None):
    return [
        i
        for i, s in enumerate(program.steps)
        if isinstance(s.op, Op) and (names is None or s.op.name in names)
    ]


def _drop(program, random):
    """Uses of a dist op take its operand instead; types stay unchanged written."""
    choices = [i for i in _dist_steps(program) if i != program.loss]
    if not choices:
        return False
    at = random.choice(choices)
    (operand,) = program.steps[at].operands
    for step in program.steps:
        step.operands = tuple(operand if o == at else o for o in step.operands)
    program.steps[at].dropped = True
    return True


def _type(program, random):
    """One value gets another type on one axis, where it is made and where it is used."""
    choices = [i for i, s in enumerate(program.steps) if s.op != "leaf"]
    step = program.steps[random.choice(choices)]
    axis = random.choice(program.mesh.names)
    step.kinds[axis] = random.choice([k for k in KINDS if k != step.kinds[axis]])
    return True


def _gradient_type(program, random):
    """A parameter that is replicated becomes invariant, or the other way round."""
    choices = [
        (s, a) for s in program.steps if s.gradient for a in s.kinds if s.kinds[a] in ("R", "I")
    ]
    if not choices:
        return False
    step, axis = random.choice(choices)
    step.kinds[axis] = "I" if step.kinds[axis] == "R" else "R"
    return True


def _reduction(program, random):
    choices = _dist_steps(program, WITH_REDUCTION)
    if not choices:
        return False
    step = program.steps[random.choice(choices)]
    others = [r for r in REDUCTIONS if r != step.op.reduction and r not in BITWISE]
    step.op = dataclasses.replace(step.op, reduction=random.choice(others))
    return True


def _axis(program, random):
    """An op runs along the other axis of the mesh, or a conversion is written there."""
    if len(program.mesh.names) < 2:
        return False
    choices = [i for i in _dist_steps(program) if len(program.steps[i].op.over) == 1]
    if not choices:
        return False
    step = program.steps[random.choice(choices)]
    (old,) = step.op.over
    (new,) = [a for a in program.mesh.names if a != old]
    if step.op.name in ("convert", "reinterpret"):
        source = program.steps[step.operands[0]].kinds
        step.kinds[new], step.kinds[old] = step.kinds[old], source[old]
        if shard(step.kinds[new]) and shard(step.kinds[old]):
            return False
    step.op = dataclasses.replace(step.op, over=(new,))
    return True
