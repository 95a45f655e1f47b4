"""Numbers that forward takes from tensors which no data reaches, as numbers of the program.

`torch.arange(cache_position[-1] + 1)`, as Jamba and Phi-3.5-MoE have it, has a size that a tensor holds. Where that is
computed from constants alone, what is traced is the number.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator

import torch
from torch import fx

from cleave.export.constants import Constants, NotConstant
from cleave.export.locations import statement
from cleave.export.pytorch_tracing import VariableTracker, calls_rewritten, constant, numbers_taken, traced_node


@contextlib.contextmanager
def constant_numbers(constants: Constants, notes: list[str]) -> Iterator[None]:
    """While this is entered, Dynamo knows the numbers that are taken from constants; `notes` gets a sentence for each
    line of source that takes some.
    """

    def known(translator, node: fx.Node) -> object:
        value = constants.value(node)
        where, code = statement(translator)
        note = f"the numbers of tensors{where}{code} are always the same: they are computed from constants alone"
        if note not in notes:
            notes.append(note)
        return value

    def take(translator, tensor: VariableTracker, method: str) -> VariableTracker | None:
        try:
            return constant(translator, getattr(known(translator, traced_node(tensor)), method)())
        except (NotConstant, RuntimeError):  # of more elements than one
            return None

    def rewrite(translator, target: Callable | str, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        def number(value: object, place: int | str | None = None) -> object:
            if not isinstance(value, fx.Proxy) or not _is_number(value.node):
                return value
            if place is not None and not _takes_number(packet, place):
                return value
            try:
                return known(translator, value.node).item()
            except NotConstant:
                return value

        if target is operator.getitem:
            return _map_slices(args, number), kwargs
        packet = _packet(target)
        if packet is None:
            return args, kwargs
        args = tuple(_map(value, lambda v, place=place: number(v, place)) for place, value in enumerate(args))
        return args, {name: _map(value, lambda v, name=name: number(v, name)) for name, value in kwargs.items()}

    with numbers_taken(take), calls_rewritten(rewrite):
        yield


def _is_number(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    # Sizes that depend on data are symbols, and a comparison with one would raise.
    one_element = isinstance(value, torch.Tensor) and all(isinstance(size, int) and size == 1 for size in value.shape)
    return one_element and not value.requires_grad


def _map(value: object, change: Callable[[object], object]) -> object:
    if isinstance(value, (tuple, list)):
        return type(value)(_map(each, change) for each in value)
    return change(value)


def _map_slices(args: tuple, change: Callable[[object], object]) -> tuple:
    def changed(index: object) -> object:
        if isinstance(index, tuple):
            return tuple(map(changed, index))
        if isinstance(index, slice):
            return slice(change(index.start), change(index.stop), change(index.step))
        return index

    return (args[0], *map(changed, args[1:]))


def _packet(target: Callable | str):
    """The operator that a call in Dynamo's graph runs into, of that name; None: not known."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return getattr(torch.ops.aten, name, None) if name and not name.startswith("_") else None


def _takes_number(packet, place: int | str) -> bool:
    """Whether an operator takes numbers alone at a place or by a name."""
    found = []
    for overload in packet.overloads():
        arguments = getattr(packet, overload)._schema.arguments
        if isinstance(place, str):
            found += [each for each in arguments if each.name == place]
        else:
            positional = [each for each in arguments if not each.kwarg_only]
            found += positional[place : place + 1] or positional[-1:]  # x.view(2, 3)
    return bool(found) and not any("Tensor" in str(each.type) for each in found)
