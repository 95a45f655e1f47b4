"""Random operators: which `aten.rng_*` op replaces each, and what it draws from the generator.

`docs/random.md` has the table of draws and how it was measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import operator
from collections.abc import Iterator
from typing import Any

import torch

from cleave.export.pytorch import KEPT_WHERE_UNUSED, OpOverload, schemas
from cleave.export.text import Unsupported, float_literal

aten = torch.ops.aten


@dataclasses.dataclass
class RandomCall:
    """An `aten.rng_*` op: its name, the node or sizes it takes shape and dtype from, attributes.

    draws: 32-bit numbers that it takes from the CPU generator.
    """

    mnemonic: str
    like: torch.fx.Node | torch.Tensor
    attributes: str
    draws: int


@contextlib.contextmanager
def unused_draws_kept() -> Iterator[None]:
    """While this is entered, PyTorch's passes keep random calls whose results nothing uses.

    Eager mode draws their numbers too, so that later calls get others.
    """
    added = _random_overloads() - KEPT_WHERE_UNUSED
    KEPT_WHERE_UNUSED.update(added)
    try:
        yield
    finally:
        KEPT_WHERE_UNUSED.difference_update(added)


@functools.cache
def _random_overloads() -> frozenset[OpOverload]:
    """All pure operators of PyTorch that may draw random numbers."""
    found = set()
    for schema in schemas():
        namespace, _, name = schema.name.partition("::")
        packet = getattr(aten, name, None) if namespace == "aten" else None
        overload = getattr(packet, schema.overload_name or "default", None)
        if overload is not None and torch.Tag.nondeterministic_seeded in overload.tags:
            found.add(overload)
    return frozenset(found)


def is_random(overload: OpOverload, bound: dict[str, Any]) -> bool:
    """Whether the call draws numbers; attention does only with dropout."""
    return torch.Tag.nondeterministic_seeded in overload.tags and not (
        "attention" in overload._schema.name and not bound.get("dropout_p", 0.0)
    )


def replace(overload, bound: dict[str, Any], result: Any) -> RandomCall:
    """The random op for a call; Unsupported for what has none.

    result: the call's value in the trace, a (fake) tensor or a tuple of them.
    """
    first = result[0] if isinstance(result, (list, tuple)) else result
    if first.is_complex():
        raise Unsupported("random numbers of a complex type; expected those of its real and imaginary parts")
    n = first.numel()
    wide = 2 if first.dtype == torch.float64 else 1
    if overload is aten.native_dropout.default:
        if bound["train"] is not True:
            raise Unsupported("native_dropout outside of training")
        return RandomCall(
            "rng_native_dropout",
            bound["input"],
            f"p = {float_literal(bound['p'])}, train = true",
            2 * n,
        )
    if overload is aten.bernoulli.p:
        return RandomCall("rng_bernoulli", bound["self"], f"p = {float_literal(bound['p'])}", 2 * n)
    if overload is aten.bernoulli.default:
        return RandomCall("rng_bernoulli", bound["self"], "", wide * n)
    if overload in (aten.rand.default, aten.rand_like.default, aten.uniform.default):
        low, high = bound.get("from", 0.0), bound.get("to", 1.0)
        return RandomCall(
            "rng_uniform",
            _like(bound, first),
            f"from = {float_literal(low)}, to = {float_literal(high)}",
            wide * n,
        )
    if overload in (aten.randn.default, aten.randn_like.default, aten.normal_functional.default):
        mean, std = bound.get("mean", 0.0), bound.get("std", 1.0)
        return RandomCall(
            "rng_normal",
            _like(bound, first),
            f"mean = {float_literal(mean)}, std = {float_literal(std)}",
            _normal_draws(first, wide),
        )
    if overload is aten.normal.float_float:
        return RandomCall(
            "rng_normal",
            first,
            f"mean = {float_literal(bound['mean'])}, std = {float_literal(bound['std'])}",
            _normal_draws(first, wide),
        )
    if overload is aten.bernoulli.Tensor:
        return _bernoulli_of_tensor(bound, first)
    if overload is aten.exponential.default:
        rate = bound.get("lambd", 1.0)
        return RandomCall(
            "rng_exponential", _like(bound, first), f"lambd = {float_literal(rate)}", 2 * n
        )
    if overload in _INTEGERS:
        return _integers(bound, first)
    if overload is aten.randperm.default:
        return RandomCall("rng_randperm", first, "", max(n, 1) - 1)
    if overload is aten.multinomial.default:
        samples, replacement = bound["num_samples"], bound.get("replacement", False)
        weights = bound["self"].meta["val"].numel()
        return RandomCall(
            "rng_multinomial",
            bound["self"],
            f"num_samples = {samples}, replacement = {str(replacement).lower()}",
            # One sample is drawn as samples without replacement are: by a number for each weight.
            2 * (n if replacement and samples > 1 else weights),
        )
    if "rrelu" in overload._schema.name:
        raise Unsupported(
            "rrelu, which draws as many numbers as data say, so that no later one has a place; expected leaky_relu, or slopes of "
            "torch.empty_like(x).uniform_(lower, upper)"
        )
    raise Unsupported("a random operator without a counterpart in programs")


_INTEGERS = {
    aten.randint.default, aten.randint.low, aten.randint_like.default, aten.randint_like.low_dtype,
}  # fmt: skip
# From this range on, PyTorch makes an integer of two draws.
_WIDE_RANGE = 2**28


def _integers(bound: dict[str, Any], first: torch.Tensor) -> RandomCall:
    low, high = bound.get("low", 0), bound["high"]
    draws = first.numel() * (2 if high - low >= _WIDE_RANGE else 1)
    return RandomCall("rng_randint", _like(bound, first), f"low = {low}, high = {high}", draws)


def _bernoulli_of_tensor(bound: dict[str, Any], first: torch.Tensor) -> RandomCall:
    """`x.bernoulli_(p)`: the same as `torch.bernoulli(p)` where p is of x's shape, dtype and strides."""
    p = bound["p"].meta["val"]
    if (p.dtype, p.shape, p.stride()) != (first.dtype, first.shape, first.stride()):
        raise Unsupported(
            "bernoulli_ with a tensor of probabilities of another type, shape or memory order than that of what it "
            "fills; use torch.bernoulli(p)"
        )
    wide = 2 if first.dtype == torch.float64 else 1
    return RandomCall("rng_bernoulli", bound["p"], "", wide * first.numel())


def spell_out_normals(graph: torch.fx.Graph):
    """`torch.normal` of tensors, as its kernel computes it: standard numbers times `std`, plus `mean`.

    Eager mode gives neither of them a gradient.
    """
    for node in list(graph.nodes):
        if node.target not in (aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor):
            continue
        mean, std, *_ = (*node.args, *([1.0] if len(node.args) < 2 else []))
        with graph.inserting_before(node):

            def add(target, *args, value=node.meta["val"], **kwargs):
                made = graph.call_function(target, args, kwargs)
                made.meta = {**node.meta, "val": value}
                return made

            def constant(number):
                if not isinstance(number, torch.fx.Node):
                    return number
                return add(aten.detach.default, number, value=number.meta["val"])

            value = node.meta["val"]
            drawn = add(aten.randn.default, list(value.shape), dtype=value.dtype)
            result = add(aten.add.Tensor, add(aten.mul.Tensor, drawn, constant(std)), constant(mean))
        node.replace_all_uses_with(result)
        graph.erase_node(node)


def _like(bound: dict[str, Any], result: torch.Tensor):
    """The operand whose shape, dtype and strides the result takes: a node, or a tensor to fill."""
    source = bound.get("self")
    if source is not None and source.meta["val"].dtype == result.dtype:
        return source
    return result


def _normal_draws(result: torch.Tensor, wide: int) -> int:
    n = result.numel()
    if n >= 16 and result.is_contiguous():
        return wide * (n if n % 16 == 0 else n + 16)
    if n % 2:
        raise Unsupported(
            f"a draw of {n} normal numbers (shape {tuple(result.shape)}): below 16, PyTorch generates "
            "them in pairs and keeps the odd one for a later draw; draw an even number"
        )
    return 2 * n


def with_eager_scale(overload, bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a dropout's backward with eager mode's scale, others unchanged."""
    if overload is not aten.native_dropout_backward.default:
        return bound
    mask, scale = bound["mask"], bound["scale"]
    forward = mask.args[0] if mask.target is operator.getitem else None
    if forward is not None and forward.target is aten.native_dropout.default:
        keep = 1 - forward.args[1]
    elif scale and math.isfinite(scale):
        keep = 1 / scale
    else:
        return bound
    dtype = bound["grad_output"].meta["val"].dtype
    return {**bound, "scale": torch.ones((), dtype=dtype).div_(keep).item()}
