"""Every op of docs/types.md on lists of tensors, one per rank of a group, and its spelling in the IR.

A function here takes what the ranks of one group hold, in the group's order, and gives what they hold after
the op. The ranks that get nothing hold zeros.
"""

import dataclasses

import torch

from .values import chunks, partial, reduce, shard

WITH_REDUCTION = ("all_reduce", "reduce_scatter", "reduce")
COLLECTIVES = (
    *WITH_REDUCTION,
    "all_gather",
    "all_to_all",
    "broadcast",
    "gather",
    "scatter",
    "permute",
    "shift",
)
FAKE = ("fake_broadcast", "fake_reduce", "fake_scatter", "fake_gather")
CONVERSIONS = ("convert", "reinterpret")
COMMUNICATIONS = (
    *COLLECTIVES,
    "fake_reduce",
    "fake_gather",
)  # what may only be started, and waited for


@dataclasses.dataclass(frozen=True)
class Op:
    """One op of the dist dialect with its attributes. `over`: the axes that it names."""

    name: str
    over: tuple
    reduction: str = None
    dim: int = None
    split: int = None
    concat: int = None
    root: int = None
    pairs: tuple = None  # of (from, to)
    by: int = None
    wrap: bool = False

    def prefix(self, operand):
        """The op as the IR writes it, up to the types."""
        over = f" over @mesh [{', '.join(chr(34) + a + chr(34) for a in self.over)}]"
        if self.name in CONVERSIONS:
            return f"dist.{self.name} {operand}" + ("" if self.dim is None else f" dim {self.dim}")
        text = f"dist.{self.name} " + (f"{self.reduction}(" if self.reduction else "(")
        text = text.replace(" (", "(") + operand + ")"
        if self.name == "all_to_all":
            text += f" split {self.split} concat {self.concat}"
        elif self.name == "permute":
            text += " [" + ", ".join(f"{a} -> {b}" for a, b in self.pairs) + "]"
        elif self.name == "shift":
            text += f" by {self.by}" + (" wrap" if self.wrap else "")
        else:
            text += "" if self.dim is None else f" dim {self.dim}"
            text += "" if self.root is None else f" root {self.root}"
        return text + over

    def apply(self, tensors, mesh, source, destination):
        """What all ranks hold after the op. `source`, `destination`: kinds by axis."""
        result = [None] * len(tensors)
        for group in mesh.groups(self.over):
            held = [tensors[rank] for rank in group]
            kinds = [k[self.over[0]] for k in (source, destination)]
            for rank, tensor in zip(group, self._group(held, *kinds)):
                result[rank] = tensor
        return result

    def _group(self, xs, source, destination):
        return getattr(self, "_" + self.name)(xs, source, destination)

    def _all_reduce(self, xs, *_):
        return [reduce(self.reduction, xs)] * len(xs)

    def _reduce_scatter(self, xs, *_):
        return chunks(reduce(self.reduction, xs), len(xs), self.dim)

    def _reduce(self, xs, *_):
        return self._at_root(reduce(self.reduction, xs), len(xs))

    def _all_gather(self, xs, *_):
        return [torch.cat(xs, self.dim)] * len(xs)

    def _gather(self, xs, *_):
        return self._at_root(torch.cat(xs, self.dim), len(xs))

    def _at_root(self, tensor, count):
        return [tensor if i == self.root else torch.zeros_like(tensor) for i in range(count)]

    def _scatter(self, xs, *_):
        return chunks(xs[self.root], len(xs), self.dim)

    def _broadcast(self, xs, *_):
        return [xs[self.root]] * len(xs)

    def _all_to_all(self, xs, *_):
        parts = [chunks(x, len(xs), self.split) for x in xs]
        return [torch.cat([p[i] for p in parts], self.concat) for i in range(len(xs))]

    def _permute(self, xs, *_):
        result = [torch.zeros_like(x) for x in xs]
        for a, b in self.pairs:
            result[b] = xs[a]
        return result

    def _shift(self, xs, *_):
        count = len(xs)
        source = [i - self.by for i in range(count)]
        inside = [self.wrap or 0 <= s < count for s in source]
        return [xs[s % count] if ok else torch.zeros_like(xs[0]) for s, ok in zip(source, inside)]

    def _reinterpret(self, xs, *_):
        return list(xs)

    def _convert(self, xs, source, destination):
        count = len(xs)
        if source in ("R", "I") and destination in ("R", "I"):
            return list(xs)
        if partial(destination) and source in ("R", "I"):
            return [x if i == 0 else torch.zeros_like(x) for i, x in enumerate(xs)]
        dim = self.dim if self.dim is not None else (shard(destination) or shard(source))[0]
        if partial(destination):  # from V or S: each term is the rank's part among zeros
            zeros = [torch.zeros_like(x) for x in xs]
            return [torch.cat([*zeros[:i], xs[i], *zeros[i + 1 :]], dim) for i in range(count)]
        return [chunks(x, count, dim)[i] for i, x in enumerate(xs)]

    def _fake_broadcast(self, xs, *_):
        return list(xs)

    def _fake_reduce(self, xs, *_):
        return [reduce("sum", xs)] * len(xs)

    def _fake_scatter(self, xs, *_):
        return [chunks(x, len(xs), self.dim)[i] for i, x in enumerate(xs)]

    def _fake_gather(self, xs, *_):
        return [torch.cat(xs, self.dim)] * len(xs)

    def resized(self, source, destination):
        """The dimension whose local size the op changes and how: (dim, +1 grows by the group's size, -1 shrinks)."""
        if self.name in ("all_gather", "gather", "fake_gather"):
            return [(self.dim, 1)]
        if self.name in ("reduce_scatter", "scatter", "fake_scatter"):
            return [(self.dim, -1)]
        if self.name == "all_to_all":
            return [(self.split, -1), (self.concat, 1)]
        if self.name == "convert":
            dim = self.dim
            if dim is None and (shard(source) or shard(destination)):
                dim = (shard(destination) or shard(source))[0]
            whole, parts = ("R", "I"), lambda k: k == "V" or shard(k)
            if source in whole and parts(destination):
                return [(dim, -1)]
            if parts(source) and not parts(destination):
                return [(dim, 1)]
        return []
