"""Values in a graph of Dynamo's that are the same whatever the inputs and parameters are."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

import torch
from torch import fx

from cleave.export.pytorch_tracing import without_tracing

_IN_PLACE = {operator.setitem} | {
    getattr(operator, name) for name in dir(operator) if name.startswith("i") and name[1:] in dir(operator)
}
_MODULES = ("torch", "_operator", "math", "builtins")


class NotConstant(Exception):
    """Depends on an input, a parameter, a random number, or on memory that nobody has written."""


def constant_value(node: fx.Node, held: Callable[[fx.Node], torch.Tensor | None] = lambda placeholder: None) -> object:
    """What `node` computes; NotConstant if that is not known.

    held: the tensor of a placeholder that is a constant.
    """
    values = {}
    needed = _ancestors(node, values, held)
    is_tensor = isinstance(node.meta.get("example_value"), torch.Tensor)
    if _is_changed(node, needed, until_now=is_tensor):
        raise NotConstant
    with without_tracing(), torch.random.fork_rng(devices=[]):
        state = torch.get_rng_state()
        for each in needed:
            if each in values:
                continue
            args, kwargs = fx.map_arg((each.args, each.kwargs), values.__getitem__)
            try:
                if each.op == "call_method":
                    values[each] = getattr(args[0], each.target)(*args[1:], **kwargs)
                else:
                    values[each] = each.target(*args, **kwargs)
            except Exception as error:  # whatever the model's own statement would have raised
                raise NotConstant from error
        if not torch.equal(state, torch.get_rng_state()):
            raise NotConstant
    return values[node]


def _ancestors(node: fx.Node, values: dict[fx.Node, object], held: Callable) -> list[fx.Node]:
    """The calls that `node` is made of, in order, itself among them. Adds the tensors that it begins with to `values`."""
    needed, waiting = {node}, [node]
    while waiting:
        each = waiting.pop()
        if each.op == "placeholder" and (tensor := held(each)) is not None:
            values[each] = tensor
        elif not _is_computed_alone(each):
            raise NotConstant
        for operand in each.all_input_nodes:
            if operand not in needed:
                needed.add(operand)
                waiting.append(operand)
    return [each for each in node.graph.nodes if each in needed]


def _is_computed_alone(node: fx.Node) -> bool:
    """Whether a call gives the same for the same operands, and does nothing else."""
    if node.op == "call_method":
        name = node.target
    elif node.op == "call_function" and (getattr(node.target, "__module__", None) or "torch").startswith(_MODULES):
        name = getattr(node.target, "__name__", "_")
    else:
        return False
    return not name.startswith("_") and "empty" not in name and not changes_its_operand(node)


def changes_its_operand(node: fx.Node) -> bool:
    """Whether a call of Dynamo's graph writes into memory that it is given."""
    if node.target in _IN_PLACE or "out" in node.kwargs:
        return True
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


def _is_changed(node: fx.Node, needed: Iterable[fx.Node], until_now: bool) -> bool:
    """Whether a call changes what `node` is made of in place: until the graph's end, or until the number is taken."""
    reached = set(needed)
    for each in node.graph.nodes:
        if each is node and not until_now:
            return False
        operands = each.all_input_nodes
        if each not in reached and not reached.isdisjoint(operands):
            if changes_its_operand(each) and ("out" in each.kwargs or each.args[0] in reached):
                return True
            reached.add(each)
    return False
