"""The aten ops that typed programs are made of, and the types that each gives (docs/types.md, "Which types")."""

import dataclasses
import typing

import torch

from .values import partial, shard, sharded


@dataclasses.dataclass(frozen=True)
class Compute:
    """An op without communication.

    `rule` maps the operands' kinds along one axis to the result's, or to None if the op is not allowed.
    """

    mnemonic: str
    formula: typing.Callable
    rule: typing.Callable
    attributes: str = ""

    def text(self, operands):
        inside = ", ".join([*operands, *([self.attributes] if self.attributes else [])])
        return f"aten.{self.mnemonic}({inside})"


def _same(kinds):
    """What values of one shape, elementwise and non-linear, give."""
    if any(partial(k) for k in kinds):
        return None
    if "I" in kinds:
        return "I" if set(kinds) == {"I"} else None
    if "V" in kinds:
        return "V"
    return kinds[0] if len(set(kinds)) == 1 else None


def _linear(kinds):
    return "P" if set(kinds) == {"P"} else _same(kinds)


def _product(kinds):
    return "P" if sorted(kinds) == ["P", "R"] else _same(kinds)


def _matmul(kinds):
    a, b = kinds
    if sorted(kinds) == ["P", "R"]:
        return "P"
    if partial(a) or partial(b):
        return None
    if "I" in kinds:
        return "I" if a == b else None
    if "V" in kinds:
        return "V"
    da, db = (shard(k) and shard(k)[0] for k in kinds)
    if (da, db) == (1, 0) and shard(a)[1] == shard(b)[1]:
        return "P"
    if da == 0 and b == "R":
        return a
    if a == "R" and db == 1:
        return b
    return "R" if (a, b) == ("R", "R") else None


def _transpose(kinds):
    if shard(kinds[0]):
        dim, order = shard(kinds[0])
        return sharded(1 - dim, order)
    return kinds[0]


def _sum_over(*dims):
    def rule(kinds):
        place = shard(kinds[0])
        return "P" if place and place[0] in dims else kinds[0]

    return rule


def _only_sum(rule):
    """P(avg), P(max) and their like pass views only."""
    return lambda kinds: None if partial(kinds[0]) not in (None, "sum") else rule(kinds)


COMPUTE = {
    "neg": Compute("neg", torch.neg, _linear),
    "scale": Compute("mul_scalar", lambda x: x * 0.5, _linear, "other = 0.5"),
    "tanh": Compute("tanh", torch.tanh, _same),
    "sigmoid": Compute("sigmoid", torch.sigmoid, _same),
    "sin": Compute("sin", torch.sin, _same),
    "add": Compute("add", torch.add, _linear),
    "sub": Compute("sub", torch.sub, _linear),
    "mul": Compute("mul", torch.mul, _product),
    "mm": Compute("mm", torch.mm, _matmul),
    "t": Compute("t", torch.t, _transpose),
    "rows": Compute(
        "sum_dim_int_list",
        lambda x: x.sum(0, True),
        _only_sum(_sum_over(0)),
        "dim = [0], keepdim = true",
    ),
    "columns": Compute(
        "sum_dim_int_list",
        lambda x: x.sum(1, True),
        _only_sum(_sum_over(1)),
        "dim = [1], keepdim = true",
    ),
    "sum": Compute("sum", torch.sum, _only_sum(_sum_over(0, 1, 2, 3))),
}
