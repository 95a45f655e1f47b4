"""Values in a graph of Dynamo's that are the same whatever the inputs and parameters are."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch import fx

from cleave.export.pytorch_tracing import source_name, storage_key, traced_input, without_tracing
from cleave.export.weightless import has_values

_IN_PLACE = {operator.setitem} | {
    getattr(operator, name) for name in dir(operator) if name.startswith("i") and name[1:] in dir(operator)
}
_MODULES = ("torch", "_operator", "math", "builtins")
# Memory that nobody has written.
_UNWRITTEN = ("empty", "resize", "Tensor")
# They write into statistics that they are given.
_RUNNING = ("batch_norm", "instance_norm")


class NotConstant(Exception):
    """Depends on an input, a parameter, a random number, or on memory that nobody has written."""


class Constants:
    """data: the tensors that differ from call to call, or from run to run; all others that forward reaches are constants.
    read: those that the values were computed from, by where forward finds them.
    """

    def __init__(self, data: Iterable[torch.Tensor] = ()):
        data = list(data)
        self._data = {id(tensor) for tensor in data}
        self._memory = {storage_key(tensor) for tensor in data if has_values(tensor)}
        self.read: dict[str, torch.Tensor] = {}

    def value(self, node: fx.Node) -> object:
        """What `node` computes; NotConstant if that is not known, or is not what it is at the graph's end."""
        needed, values = self._calls(node)
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
                if not _is_alike(values[each], each.meta.get("example_value")):
                    raise NotConstant
            if not torch.equal(state, torch.get_rng_state()):
                raise NotConstant
        return values[node]

    def _calls(self, node: fx.Node) -> tuple[list[fx.Node], dict[fx.Node, object]]:
        """The calls that `node` is made of, in order, itself among them; and the tensors that they begin with."""
        values: dict[fx.Node, object] = {}
        needed: set[fx.Node] = set()
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each not in needed:
                needed.add(each)
                if each.op == "placeholder":
                    values[each] = self._read(each)
                elif not _is_computed_alone(each):
                    raise NotConstant
                waiting += each.all_input_nodes
            if not waiting:
                waiting += _changes(node.graph, needed)
        return [each for each in node.graph.nodes if each in needed], values

    def held(self, placeholder: fx.Node) -> tuple[str, torch.Tensor] | None:
        """A tensor that is no data, and where forward finds it; None: another placeholder."""
        tensor = traced_input(placeholder)
        if tensor is None or id(tensor) in self._data or not has_values(tensor):
            return None
        return source_name(placeholder), tensor

    def _read(self, placeholder: fx.Node) -> torch.Tensor:
        source, tensor = self.held(placeholder) or ("", None)
        if tensor is None or storage_key(tensor) in self._memory:
            raise NotConstant
        self.read[source] = tensor
        return tensor


def _is_alike(value: object, traced: object) -> bool:
    """Whether a value has the type that the trace gives it, which depends on torch.autocast and default types."""
    if not isinstance(traced, torch.Tensor):
        return True
    return isinstance(value, torch.Tensor) and value.dtype == traced.dtype and value.shape == traced.shape


def _is_computed_alone(node: fx.Node) -> bool:
    """Whether a call gives the same for the same operands, and does nothing but write into its first one."""
    if node.op == "call_method":
        name = node.target
    elif node.op == "call_function" and _is_pytorchs(node.target):
        name = getattr(node.target, "__name__", "_")
    else:
        return False
    is_written = name != "new" and not any(part in name for part in _UNWRITTEN)
    return is_written and not name.startswith("_") and "out" not in node.kwargs


def _is_pytorchs(function: object) -> bool:
    """Whether a function is one of PyTorch's or Python's, and neither a library's operator nor one that runs a graph."""
    if any(kind.__module__ == "torch._ops" for kind in type(function).__mro__):
        return str(function).startswith("aten.")
    return (getattr(function, "__module__", None) or "torch").startswith(_MODULES)


def changes_its_operand(node: fx.Node) -> bool:
    """Whether a call of Dynamo's graph writes into memory that it is given."""
    if node.target in _IN_PLACE or "out" in node.kwargs or node.kwargs.get("inplace") is True:
        return True
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


def _changes(graph: fx.Graph, needed: set[fx.Node]) -> list[fx.Node]:
    """The calls that change in place what those that are needed compute; NotConstant if more may be changed than that."""
    memory = _memory_of(needed)
    kept = _memory_of(each for each in needed if each.op == "placeholder")
    found = []
    for each in graph.nodes:
        if not each.op.startswith("call_") or memory.isdisjoint(_memory_of(each.all_input_nodes)):
            continue
        if not changes_its_operand(each):
            if not _only_reads(each):
                raise NotConstant
            continue
        changed = _memory_of(written_operands(each))
        if memory.isdisjoint(changed):
            continue
        if not kept.isdisjoint(changed):  # the next step begins with what this one leaves
            raise NotConstant
        if each not in needed:
            found.append(each)
    return found


def written_operands(call: fx.Node) -> list[fx.Node]:
    """What a call that changes its operand changes."""
    found: list[fx.Node] = []
    fx.map_arg(call.kwargs["out"] if "out" in call.kwargs else call.args[:1], found.append)
    return found


def _memory_of(nodes: Iterable[fx.Node]) -> set[int]:
    """The memory of the trace's tensors; a view has its tensor's."""
    tensors = [each.meta.get("example_value") for each in nodes]
    return {storage_key(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor)}


def _only_reads(node: fx.Node) -> bool:
    if node.op == "call_method":
        return True
    name = getattr(node.target, "__name__", "")
    return node.op == "call_function" and _is_pytorchs(node.target) and not any(part in name for part in _RUNNING)
