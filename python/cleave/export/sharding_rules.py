"""Rules that `torch.distributed.tensor.experimental.register_sharding` has for an operator, in the program's notation.

PyTorch's rules list how one mesh dimension may shard inputs and outputs. Each that shards something says which
dimensions correspond: they get one letter. `dialects/sharding/RuleText.h` describes the notation.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import torch

from cleave.export.pytorch import OpOverload, dtensor_spec, registered_sharding
from cleave.export.text import Unsupported

_WHOLE = "whole"
_REDUCTIONS = ("sum", "avg", "max", "min", "product")


def sharding_text(overload: OpOverload, bound: dict[str, Any], result: Any) -> str | None:
    """The rule of a call as text; None where none is registered.

    bound: arguments by name, nodes for tensors. result: the call's value in the trace. Raises Unsupported for a rule that
    does not fit the call.
    """
    rule = registered_sharding(overload)
    if rule is None:
        return None
    arguments = [_lookup(bound, argument) for argument in overload._schema.arguments]
    tensors = [_shape(leaf) for value in arguments for leaf in _leaves(value)]
    results = [tuple(value.shape) for value in _leaves(result)]
    try:
        found = list(rule(*_call_arguments(overload, bound)))
        pairs = [(list(outputs), list(inputs)) for outputs, inputs in found]
    except Exception as error:
        raise _refused(f"it raises {type(error).__name__}: {error}") from None
    text = _Text(tensors, results)
    for outputs, inputs in pairs:
        text.add(outputs, _of_tensors(inputs, arguments))
    return text.write(overload, arguments)


def _refused(what: str) -> Unsupported:
    return Unsupported(f"a sharding registered by register_sharding that does not fit the call: {what}")


def _lookup(bound: dict[str, Any], argument: torch.Argument) -> Any:
    if argument.name in bound:
        return bound[argument.name]
    return argument.default_value if argument.has_default_value() else None


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _shape(value: Any) -> tuple[int, ...] | None:
    """Of a tensor; None for anything else."""
    return tuple(value.meta["val"].shape) if isinstance(value, torch.fx.Node) else None


def _call_arguments(overload: OpOverload, bound: dict[str, Any]) -> list[Any]:
    """What DTensor would call the rule with: descriptions of tensors, and the other arguments."""
    def describe(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(describe(item) for item in value)
        if not isinstance(value, torch.fx.Node):
            return value
        return dtensor_spec(value.meta["val"])

    given = [_lookup(bound, argument) for argument in overload._schema.arguments]
    while given and overload._schema.arguments[len(given) - 1].name not in bound:
        given.pop()
    return [describe(value) for value in given]


def _of_tensors(inputs: list[Any], arguments: list[Any]) -> list[Any]:
    """The placements of tensor arguments: others have None, or none at all."""
    leaves = [leaf for value in arguments for leaf in _leaves(value)]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
    if len(inputs) == len(tensors):
        return inputs
    if len(tensors) < len(inputs) <= len(leaves):
        return [given for given, leaf in zip(inputs, leaves) if isinstance(leaf, torch.fx.Node)]
    raise _refused(
        f"it has placements for {len(inputs)} inputs; expected one for each of {len(tensors)} tensors, or of all "
        f"{len(leaves)} arguments"
    )


class _Text:
    """Factors by the dimensions that have them."""

    def __init__(self, tensors: Sequence[tuple[int, ...] | None], results: list[tuple[int, ...]]):
        self._operands = [shape for shape in tensors if shape is not None]
        self._results = results
        # (0 for operands or 1 for results, tensor, dimension) to a factor's number.
        self._factors: dict[tuple[int, int, int], int] = {}
        self._reductions: list[str | None] = []
        self._linear: list[list[int]] = []

    def add(self, outputs: list[Any], inputs: list[Any]):
        """One way to shard the call; those that the notation has no words for are left out."""
        if len(outputs) != len(self._results):
            raise _refused(f"it has placements for {len(outputs)} outputs, of which there are {len(self._results)}")
        # Tensors may have other reductions, or none, than the notation can say of a factor that it sums up.
        sharded = {(1, i): p for i, p in enumerate(outputs) if _is(p, "Shard")}
        sharded |= {(0, i): p for i, p in enumerate(inputs) if _is(p, "Shard")}
        places, size = [], None
        for (side, i), placement in sharded.items():
            shape = (self._operands, self._results)[side][i]
            kind = ("input", "output")[side]
            if not -len(shape) <= placement.dim < len(shape):
                raise _refused(f"{kind} {i} is placed as Shard({placement.dim}), and has {len(shape)} dimensions")
            dim = placement.dim % len(shape)
            if size is not None and shape[dim] != size:
                raise _refused(
                    f"{kind} {i} is placed as Shard({dim}), where it has {shape[dim]} elements; expected {size}, as in "
                    "the other sharded tensors"
                )
            size = shape[dim]
            places.append((side, i, dim))
        partial_inputs = [i for i, p in enumerate(inputs) if _is(p, "Partial")]
        reductions = {p.reduce_op for p in outputs if _is(p, "Partial")}
        known = all(_is(p, "Shard", "Partial", "Replicate") or p is None for p in (*outputs, *inputs))
        if not known or len(reductions) > 1 or not reductions <= set(_REDUCTIONS):
            return
        if partial_inputs and not sharded:
            sums = all(_is(p, "Partial") and p.reduce_op == "sum" for p in outputs)
            if sums and all(inputs[i].reduce_op == "sum" for i in partial_inputs):
                self._linear.append(partial_inputs)
            return
        # A dimension has one factor. What does not depend on a sharded input cannot be said of single outputs.
        if partial_inputs or not any(side == 0 for side, *_ in places):
            return
        if any(place in self._factors for place in places) or any(_is(p, "Replicate") for p in outputs):
            return
        for place in places:
            self._factors[place] = len(self._reductions)
        self._reductions.append(next(iter(reductions), None))

    def write(self, overload: OpOverload, arguments: list[Any]) -> str | None:
        """The text; None where it would say nothing."""
        if not self._factors and not self._linear:
            return None
        clauses: dict[str, list[str]] = {}
        letters = iter(string.ascii_letters)
        names: dict[int, str] = {}

        def name(place: tuple[int, int, int]) -> str:
            factor = self._factors.get(place)
            if factor in names:
                return names[factor]
            letter = next(letters)
            if factor is None:
                clauses.setdefault(_WHOLE, []).append(letter)
            else:
                names[factor] = letter
                if reduction := self._reductions[factor]:
                    clauses.setdefault(reduction, []).append(letter)
            return letter

        def dims(side: int, i: int, shape: tuple[int, ...]) -> str:
            return "".join(name((side, i, dim)) for dim in range(len(shape)))

        try:
            operands, places, number = [], [], 0
            for argument, value in zip(overload._schema.arguments, arguments):
                if "Tensor" not in str(argument.type):
                    continue
                for leaf in _leaves(value):
                    shape = _shape(leaf)
                    if shape is None:
                        operands.append("")
                        continue
                    places.append(len(operands))
                    operands.append(dims(0, number, shape))
                    number += 1
            results = [dims(1, i, shape) for i, shape in enumerate(self._results)]
        except StopIteration:
            return None  # more dimensions than letters
        text = f"{', '.join(operands)} -> {', '.join(results)}"
        for word, factors in clauses.items():
            text += f"; {word} {' '.join(factors)}"
        for group in self._linear:
            text += f"; linear {' '.join(str(places[i]) for i in group)}"
        return text


def _is(placement: Any, *kinds: str) -> bool:
    """By name: subclasses, such as strided shards, mean something else."""
    return type(placement).__name__ in kinds
