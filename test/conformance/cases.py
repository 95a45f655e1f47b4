"""A program for each legal row of the table in each setup: source value, op, result, loss."""

import torch

from .program import Program, type_text
from .table import rows
from .values import BITWISE, Mesh, partial, shard, sharded


def local_shape(count):
    """What a rank holds of a source: dimensions 0 and 1 are divisible by the group's size."""
    return (2 * count, count, 2)


def placed(kind, over, other, mesh):
    """Kinds by axis of a row's source or destination: `kind` along `over`, `other` elsewhere."""
    kinds = {axis: other for axis in mesh.names}
    for order, axis in enumerate(over):
        kinds[axis] = sharded(shard(kind)[0], order) if shard(kind) else kind
    return kinds


def allowed(row, over, other):
    """Whether the row exists in a setup: conversions change one axis; what is not linear passes no pending sum."""
    if row.name in ("convert", "reinterpret") and len(over) > 1:
        return False
    if other == "P":  # pending reductions of other kinds do not commute with a sum
        return row.linear and {partial(row.source), partial(row.destination)} <= {
            None,
            "sum",
            "avg",
        }
    return True


def smooth(shape):
    return torch.randn(shape, dtype=torch.float64)


def ties_and_zeros(shape):
    return torch.randint(-1, 2, shape).double()


def integers(shape):
    return torch.randint(0, 1 << 40, shape)


def row_program(row, mesh, over, other, prefix, make=smooth):
    """The row's op on a source of its type. Without derivative there is no loss and no parameter."""
    program = Program(mesh, prefix)
    op = row.op(mesh, over)
    kinds = placed(row.source, over, other, mesh)
    make = integers if row.reduction in BITWISE else make
    local = local_shape(mesh.size(*over))
    source = program.source(kinds, local, make, gradient=row.differentiable)
    destination = placed(row.destination, over, other, mesh)
    value = program.dist(op, source, {axis: destination[axis] for axis in over})
    program.tested = value
    if row.differentiable:
        program.loss = program.weighted_sum(value)
    program.observe(value)
    return program


def programs(setup, make=smooth, keep=lambda row: True):
    """{row: program} of all legal rows in a setup (see table.setups)."""
    axes, over, other = setup
    mesh = Mesh(axes)
    found = {}
    for number, row in enumerate(rows()):
        if row.legal and allowed(row, over, other) and keep(row):
            found[row] = row_program(row, mesh, over, other, f"n{number}", make)
    return mesh, found


def bare(row, mesh, over):
    """The row's op alone in a function, legal or not."""
    op = row.op(mesh, over)
    source = placed(row.source, over, "R", mesh)
    destination = placed(row.destination, over, "R", mesh)
    count = mesh.size(*over)
    shape = list(local_shape(count))
    result = list(shape)
    for dim, grows in op.resized(row.source, row.destination):
        result[dim] = result[dim] * count if grows > 0 else result[dim] // count
    dtype = torch.int64 if row.reduction in BITWISE else torch.float64
    types = [type_text(shape, dtype, source), type_text(result, dtype, destination)]
    return (
        f"{mesh.text()}\n"
        f"func.func @f(%0: {types[0]}) -> {types[1]} {{\n"
        f"  %1 = {op.prefix('%0')} : {types[0]} -> {types[1]}\n"
        f"  return %1 : {types[1]}\n"
        "}\n"
    )
