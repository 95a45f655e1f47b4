"""Types for small programs of ranks: how each value lies, as a user would write it.

A change is printed with the types of the right program, and what it adds with those of its operands: the type checker
then says whether it notices.
"""

import dataclasses

from local_programs import COLLECTIVES


def placements(program):
    """For each value {axis: "R", "P", "V" or a dimension}."""
    given = [dict(on) for _, on, _ in program.arguments]
    types = program.local_types()
    for i, op in enumerate(program.ops):
        operands = [given[value] for value in op.inputs]
        ranks = [len(types[value][0]) for value in op.inputs]
        shape = types[len(program.arguments) + i][0]
        given.append({axis: _on(op, axis, [each[axis] for each in operands], ranks, shape) for axis, _ in program.mesh})
    return given


def _on(op, axis, on, ranks, shape):
    name = op.name
    if name == "axis_index":
        return "V" if axis in op.axes else "R"
    if name in COLLECTIVES and axis in op.axes:
        return {
            "all_reduce": lambda: "R", "all_gather": lambda: "R" if on[0] != "V" else "V", "shift": lambda: "V",
            "reduce_scatter": lambda: op.get("dim"), "all_to_all": lambda: op.get("split"),
        }[name]()  # fmt: skip
    if not on or all(each == "R" for each in on):
        return "R"
    if "V" in on:
        return "V"
    if name in ("mm", "addmm"):
        left, right = on[-2:]
        if left == 1 and right == 0:
            return "P"
        return 0 if left == 0 else 1 if right == 1 else "P"
    if pending := next((each for each in on if str(each).startswith("P")), None):
        return pending
    dims = [each - rank if isinstance(each, int) else None for each, rank in zip(on, ranks, strict=True)]
    dim = next(each for each in dims if each is not None)
    if name == "t":
        return -1 - dim if dim < 0 else dim
    if name in ("sum", "norm", "mean", "var", "amax") and dim + ranks[0] == op.get("dim"):
        return {"sum": "P", "mean": "P(avg)", "amax": "P(max)"}.get(name, "V")
    if name in ("nll_loss", "nll_weight"):
        return "P"
    if name == "nll_loss_backward":
        return 0
    if name == "view":
        return 0
    return dim + len(shape)


def typed(program):
    """The program, of which each op says how its result lies."""
    first, on = len(program.arguments), placements(program)
    ops = [dataclasses.replace(op, on=tuple(on[first + i].items())) for i, op in enumerate(program.ops)]
    return dataclasses.replace(program, ops=tuple(ops))
