"""Meshes, placements, and what a list of tensors (one per rank) denotes."""

import dataclasses
import itertools
import re

import torch

# Reductions that a partial value may wait for. `P` alone is P(sum), the one that carries a gradient.
PARTIAL = ("sum", "avg", "max", "min", "product")
KINDS = ("R", "I", "V", "P", "P(avg)", "P(max)", "P(min)", "P(product)", "S(0)", "S(1)")
BITWISE = ("band", "bor", "bxor")
REDUCTIONS = ("sum", "avg", "premul_sum<0.5>", "max", "min", "product", *BITWISE)


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Named axes in order; ranks are numbered row-major, the last axis fastest."""

    axes: tuple  # of (name, size)

    @property
    def names(self):
        return [name for name, _ in self.axes]

    @property
    def ranks(self):
        product = 1
        for _, size in self.axes:
            product *= size
        return product

    def size(self, *names):
        sizes = dict(self.axes)
        product = 1
        for name in names:
            product *= sizes[name]
        return product

    def coordinates(self, rank):
        """The rank's position along each axis, by name."""
        position = {}
        for name, size in reversed(self.axes):
            position[name] = rank % size
            rank //= size
        return position

    def groups(self, over):
        """Ranks that communicate along the axes `over`; in each group the last of them is fastest."""
        groups = {}
        for rank in range(self.ranks):
            position = self.coordinates(rank)
            others = tuple(position[n] for n in self.names if n not in over)
            groups.setdefault(others, []).append((tuple(position[n] for n in over), rank))
        return [[rank for _, rank in sorted(group)] for group in groups.values()]

    def text(self):
        return "dist.mesh @mesh [" + ", ".join(f'"{n}" = {s}' for n, s in self.axes) + "]"


def shard(kind):
    """(dimension, order among axes that shard it) of `S(d)` or `S(d, k)`; None for other kinds."""
    match = re.fullmatch(r"S\((\d+)(?:, (\d+))?\)", kind)
    return match and (int(match[1]), int(match[2] or 0))


def sharded(dim, order=0):
    return f"S({dim}, {order})" if order else f"S({dim})"


def canonical(kinds):
    """Orders of axes on one dimension, counted from 0 again where an axis has left it."""
    result = dict(kinds)
    places = {}
    for axis, kind in kinds.items():
        if shard(kind):
            places.setdefault(shard(kind)[0], []).append((shard(kind)[1], axis))
    for dim, axes in places.items():
        for k, (_, axis) in enumerate(sorted(axes)):
            result[axis] = sharded(dim, k)
    return result


def partial(kind):
    """The pending reduction of a `P` kind, None for other kinds."""
    return "sum" if kind == "P" else kind[2:-1] if kind.startswith("P(") else None


def dual(kind):
    """The kind of a value's gradient; None if no gradient passes."""
    return {"R": "P", "P": "R"}.get(kind) or (None if partial(kind) else kind)


def reduce(reduction, tensors):
    """One reduction of a list of tensors, by PyTorch's own formula where it has one."""
    stack = torch.stack(list(tensors))
    if reduction.startswith("premul_sum"):
        return stack.sum(0) * float(reduction[len("premul_sum<") : -1])
    if reduction in BITWISE:
        apply = {"band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor}
        result = stack[0]
        for other in stack[1:]:
            result = apply[reduction](result, other)
        return result
    formula = {
        "sum": lambda: stack.sum(0),
        "avg": lambda: stack.sum(0) / len(stack),
        "max": lambda: torch.amax(stack, 0),
        "min": lambda: torch.amin(stack, 0),
        "product": lambda: torch.prod(stack, 0),
    }
    return formula[reduction]()


def denote(tensors, mesh, kinds):
    """What per-rank `tensors` mean: {positions along V axes: tensor}, one entry without V axes.

    R and I: one tensor. P: the reduction of the terms. S(d): the concatenation. V: the list itself.
    Axes that shard one dimension are joined from the last (minor) to the first (major).
    """
    table = {tuple(mesh.coordinates(r)[n] for n in mesh.names): t for r, t in enumerate(tensors)}
    names = sorted(mesh.names, key=lambda n: -(shard(kinds[n]) or (0, 0))[1])
    done = {}
    for name in names:
        at, kind = mesh.names.index(name), kinds[name]
        if kind == "V":
            continue
        rows = {}
        for position, tensor in table.items():
            key = position[:at] + ("*",) + position[at + 1 :]
            rows.setdefault(key, []).append((position[at], tensor))
        joined = {}
        for key, row in rows.items():
            row = [tensor for _, tensor in sorted(row, key=lambda item: item[0])]
            if kind in ("R", "I"):
                joined[key] = row[0]
            elif partial(kind):
                joined[key] = reduce(partial(kind), row)
            else:
                joined[key] = torch.cat(row, shard(kind)[0])
        table = joined
        done[name] = True
    return table


def disagreement(tensors, mesh, kinds):
    """The largest difference among ranks that the types call equal (R and I axes)."""
    equal = [n for n in mesh.names if kinds[n] in ("R", "I")]
    worst = 0.0
    for group in mesh.groups(equal) if equal else []:
        for one, other in itertools.pairwise(group):
            worst = max(worst, float((tensors[one] - tensors[other]).abs().max()))
    return worst


def spread(tensor, mesh, kinds):
    """Per-rank parts of a whole tensor whose every axis is R, I or S: the inverse of `denote`."""
    parts = []
    sharded = sorted((shard(kinds[n]), n) for n in mesh.names if shard(kinds[n]))
    for rank in range(mesh.ranks):
        part = tensor
        for (dim, _), name in sharded:
            part = chunks(part, mesh.size(name), dim)[mesh.coordinates(rank)[name]]
        parts.append(part)
    return parts


def chunks(tensor, count, dim):
    """`count` parts as torch.chunk makes them, the last ones shorter or empty if it does not divide."""
    size = -(-tensor.shape[dim] // count)
    starts = [min(i * size, tensor.shape[dim]) for i in range(count)]
    return [tensor.narrow(dim, s, min(size, tensor.shape[dim] - s)) for s in starts]
