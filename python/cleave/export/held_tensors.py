"""What a module holds as neither parameter nor buffer: tensors and numbers of Python, which are constants of its program.

The next step would begin with what forward makes of them, in place or by assigning another: no constant can be that. Tensors are
refused then; numbers, which are often counted for others to read, are noted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import fx

from cleave.export.constants import Constants, NotConstant, changes_its_operand, written_operands
from cleave.export.errors import ExportError
from cleave.export.locations import attribute, place, statement
from cleave.export.pytorch_tracing import VariableTracker, attributes_assigned, graph_finished, storage_key, traced_node
from cleave.export.weightless import has_values

_BUFFER = "expected a buffer (register_buffer), which forward may change in place"


class HeldTensors:
    """trained: the parameters by name that training changes. notes: where to put what is changed and not refused."""

    def __init__(self, constants: Constants, trained: Mapping[str, torch.Tensor], notes: list[str]):
        self._constants, self._notes = constants, notes
        self._trained = {storage_key(tensor): name for name, tensor in trained.items() if has_values(tensor)}
        # What is assigned to attributes (None: not known), and where.
        self._assigned: dict[str, tuple[torch.Tensor | None, str]] = {}
        # Numbers of Python: before, after, and where.
        self._counted: dict[str, tuple[float, float, str]] = {}
        self._refusal: str | None = None

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Around Dynamo's trace; ExportError afterwards for what is no constant."""
        with attributes_assigned(self._assign), graph_finished(self._finish):
            yield
        if self._refusal:
            raise ExportError(f"cannot export{self._refusal}")
        self._notes += [
            f"forward changes {attribute(source)} from {old} to {new}{where}: it is {old} at the beginning of every step of the program"
            for source, (old, new, where) in self._counted.items()
            if old != new
        ]

    def _assign(self, translator, source: str, value: VariableTracker, old: object):
        where, code = statement(translator)
        if type(old) in (int, float) and value.is_python_constant() and type(value.as_python_constant()) in (int, float):
            self._counted[source] = (old, value.as_python_constant(), where)
        node = traced_node(value)
        try:
            new = self._constants.value(node) if node is not None else None
        except NotConstant:
            new = None
        self._assigned[source] = (new, f"{where}{code}")

    def _finish(self, graph: fx.Graph):
        held = {node: found for node in graph.find_nodes(op="placeholder") if (found := self._constants.held(node)) is not None}
        changed = {
            storage_key(operand.meta["example_value"]): call
            for call in graph.nodes if changes_its_operand(call) for operand in written_operands(call)
        }  # fmt: skip
        for node, (source, tensor) in held.items():
            name = attribute(source)
            if call := changed.get(storage_key(node.meta["example_value"])):
                self._refusal = f"{place(call)}: forward changes {name} in place, a tensor that the module holds otherwise; {_BUFFER}"
            elif trained := self._trained.get(storage_key(tensor)):
                self._refusal = (
                    f": {name}, a tensor that the module holds otherwise, shares memory with the parameter '{trained}', which training "
                    "changes; expected the parameter itself in forward, or a copy (clone)"
                )
        for source, tensor in (self._constants.read | dict(held.values())).items():
            new, where = self._assigned.get(source, (tensor, ""))
            if not isinstance(new, torch.Tensor) or new.dtype != tensor.dtype or not torch.equal(new, tensor):
                self._refusal = f"{where}: forward assigns another tensor to {attribute(source)}, which it reads; {_BUFFER}"
        if not self._refusal:
            _copy_before_writing(graph, set(held))


def _copy_before_writing(graph: fx.Graph, held: set[fx.Node]):
    """Has forward change copies of constants: AOT Autograd would compute on the tensor at hand what is made of it alone."""
    origins: dict[fx.Node, set[fx.Node]] = {node: {node} for node in held}
    written: set[fx.Node] = set()
    for call in graph.nodes:
        operands = call.all_input_nodes
        if not call.op.startswith("call_") or not operands or not all(each in origins for each in operands):
            if changes_its_operand(call):
                written |= set().union(*(origins.get(each, ()) for each in written_operands(call)))
            continue
        origins[call] = set().union(*map(origins.get, operands))
        if changes_its_operand(call):
            written |= origins[call]
    end_of_arguments = next(node for node in graph.nodes if node.op != "placeholder")
    for node in written:
        traced = node.meta["example_value"]
        with graph.inserting_before(end_of_arguments):
            memory = graph.call_function(
                torch.empty_strided, (tuple(traced.shape), tuple(traced.stride())), {"dtype": traced.dtype}
            )
            copy = graph.call_method("copy_", (memory, node))
        memory.meta["example_value"] = copy.meta["example_value"] = traced
        node.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)
