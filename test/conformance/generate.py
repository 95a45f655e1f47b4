"""Random typed programs: well-typed by the rules of docs/types.md, and smooth where they are evaluated.

Ops are drawn among those that the types of the values at hand allow: pointwise ops, matrix products,
sums and transposes of matrices, and every differentiable row of the conformance table over one or both axes.
"""

import dataclasses

import torch

from .compute import COMPUTE
from .operations import Op
from .program import Program
from .table import rows
from .values import Mesh, canonical, denote, partial, shard, sharded

MESHES = (
    Mesh((("tp", 2),)),
    Mesh((("tp", 3),)),
    Mesh((("tp", 4),)),
    Mesh((("dp", 2), ("tp", 2))),
)
LARGEST = 48  # elements of a value
ROWS = [row for row in rows() if row.legal and row.differentiable]
UNARY = ("neg", "scale", "tanh", "sigmoid", "sin", "t", "rows", "columns")
BINARY = ("add", "sub", "mul", "mm")
SMOOTH = {
    "max": 1e-4,
    "min": 1e-4,
}  # how far apart operands of an extremum are, for its derivative to exist


def random_program(mesh, prefix, random):
    """A program with a loss over a few ops; `random`: a random.Random. Draws tensors from torch's generator."""
    program = Program(mesh, prefix)
    for _ in range(random.randint(1, 2)):
        _add_source(program, random)
    wanted = random.randint(4, 12)
    for _ in range(6 * wanted):
        if wanted == 0:
            break
        kind = random.random()
        if kind < 0.1:
            done = _add_source(program, random)
        elif kind < 0.55:
            done = _add_dist(program, random)
        else:
            done = _add_compute(program, random)
        wanted -= done
    _add_loss(program, random)
    return program


def _add_source(program, random):
    kinds = {
        a: random.choice(("R", "R", "I", "I", "V", "P", "S(0)", "S(1)")) for a in program.mesh.names
    }
    if len(kinds) > 1 and random.random() < 0.3:  # blocks of invariant computation
        kinds = dict.fromkeys(kinds, "I")
    count = max(size for _, size in program.mesh.axes)
    local = [random.choice((1, 2, count)) for _ in range(2)]
    program.source(canonical(kinds), local)
    return 0


def _pick(program, random):
    """A value to go on from: mostly one that nothing uses yet, and of these mostly a recent one."""
    used = {o for s in program.steps for o in s.operands}
    ends = [i for i in range(len(program.steps)) if i not in used]
    choices = ends if random.random() < 0.7 else range(len(program.steps))
    return choices[int(len(choices) * random.random() ** 0.5)]


def _within_bounds(program, index):
    tensors = program.values[index]
    return all(t.numel() <= LARGEST and t.abs().max() < 30 for t in tensors)


def _undo_unless(program, good):
    if not good:
        program.steps.pop()
        program.values.pop()
    return good


def _add_compute(program, random):
    x = _pick(program, random)
    if random.random() < 0.45:
        operands = (random.choice(UNARY), x)
    else:
        name = random.choice(BINARY)
        joinable = [y for y in range(len(program.steps)) if y != x and _joins(program, name, x, y)]
        if not joinable:
            return False
        operands = (name, x, random.choice(joinable))
    if any(
        COMPUTE[operands[0]].rule([program.steps[o].kinds[a] for o in operands[1:]]) is None
        for a in program.mesh.names
    ):
        return False
    index = program.compute(*operands)
    return _undo_unless(program, _within_bounds(program, index))


def _joins(program, name, x, y):
    """Whether shapes and types let x and y be operands."""
    a, b = (program.values[v][0].shape for v in (x, y))
    if (a[1] != b[0]) if name == "mm" else (a != b):
        return False
    pairs = ([program.steps[v].kinds[axis] for v in (x, y)] for axis in program.mesh.names)
    return all(COMPUTE[name].rule(pair) is not None for pair in pairs)


def _add_dist(program, random):
    x = _pick(program, random)
    mesh, step, shape = program.mesh, program.steps[x], program.values[x][0].shape
    moves = []
    over_choices = [(a,) for a in mesh.names] + ([tuple(mesh.names)] if len(mesh.names) > 1 else [])
    for over in over_choices:
        for row in ROWS:
            for dim in (0, 1):
                move = _move(row, dim, over, step.kinds, shape, mesh)
                if move:
                    moves.append(move)
    if not moves:
        return False
    by_name = {}
    for op, destination in moves:
        by_name.setdefault(f"{op.name} {op.reduction}", []).append((op, destination))
    op, destination = random.choice(by_name[random.choice(sorted(by_name))])
    if op.root is not None:
        op = dataclasses.replace(op, root=random.randrange(mesh.size(*op.over)))
    if op.reduction in SMOOTH and not _far_apart(program, x, op):
        return False
    index = program.dist(op, x, destination)
    return _undo_unless(program, _within_bounds(program, index))


def _move(row, dim, over, kinds, shape, mesh):
    """(op, destination kinds) if `row`, with its dimension 0 standing for `dim`, applies to a value; else None."""
    if row.name in ("convert", "reinterpret") and len(over) > 1:
        return None
    others = [a for a in kinds if a not in over]
    pending = [partial(kinds[a]) for a in others if partial(kinds[a])]
    if pending and not row.linear:
        return None
    source, destination = (_turned(k, dim) for k in (row.source, row.destination))
    for axis, kind in _placed(source, over, kinds, others).items():
        if kinds[axis] != kind:
            return None
    op = _turned_op(row, mesh, over, dim)
    count = mesh.size(*over)
    for d, grows in op.resized(source, destination):
        if grows < 0 and shape[d] % count:
            return None
    return op, _placed(destination, over, kinds, others)


def _placed(kind, over, kinds, others):
    """`kind` along the axes `over`: as the minor ones of a dimension that others shard too."""
    if not shard(kind):
        return dict.fromkeys(over, kind)
    dim = shard(kind)[0]
    first = sum((shard(kinds[a]) or (None,))[0] == dim for a in others)
    return {axis: sharded(dim, first + k) for k, axis in enumerate(over)}


def _turned(kind, dim):
    return sharded(shard(kind)[0] ^ dim) if shard(kind) else kind


def _turned_op(row, mesh, over, dim):
    op = row.op(mesh, over, dim=dim)
    if row.name == "all_to_all":
        op = dataclasses.replace(op, split=1 ^ dim, concat=dim)
    return op


def _far_apart(program, x, op):
    """Whether no two ranks are (nearly) tied, so that the extremum has one derivative."""
    for group in program.mesh.groups(op.over):
        stack = torch.stack([program.values[x][rank] for rank in group]).sort(0).values
        if (stack[1:] - stack[:-1]).min() < SMOOTH[op.reduction]:
            return False
    return True


def _add_loss(program, random):
    """Differentiates a weighted sum of what nothing uses yet, of type I."""
    used = {o for s in program.steps for o in s.operands}
    ends = [i for i in range(len(program.steps)) if i not in used]
    by_type = {}
    for end in ends:
        part = program.weighted_sum(end)
        before = by_type.get(str(program.steps[part].kinds))
        by_type[str(program.steps[part].kinds)] = (
            part if before is None else program.compute("add", before, part)
        )
    total = None
    for part in by_type.values():
        for axis in program.mesh.names:
            if program.steps[part].kinds[axis] == "P":
                op = Op("all_reduce", (axis,), reduction="sum")
                part = program.dist(op, part, {axis: "I"})
        total = part if total is None else program.compute("add", total, part)
    program.loss = total


def well_typed_meaning(program):
    """Whether the loss means one number (a sanity check of the generator itself)."""
    values = program.values[program.loss]
    return (
        len(denote(values, program.mesh, program.steps[program.loss].kinds)) == 1
        and program.honest()
    )
