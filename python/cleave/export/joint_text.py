"""Writes joint graphs of torch.compile so that `--partition-joint` can say what a forward saves of them.

The text is analysed and never run: what draws numbers, or what programs have no op for, is an opaque call, which is
saved and never recomputed.
"""

from __future__ import annotations

import operator

import torch

from cleave.export.errors import ExportError
from cleave.export.graph_writer import GraphWriter, draws_numbers
from cleave.export.operators import result_types
from cleave.export.pytorch import OpOverload
from cleave.export.pytorch import descriptors as aot
from cleave.export.roles import Role
from cleave.export.text import Unsupported


class JointText(GraphWriter):
    """The text of a program for a joint graph, whose ops have their node's name as location.

    graph: is left as it is. forward, gradients: its results, without None; gradients with the input that each is of.
    """

    def __init__(
        self, graph: torch.fx.GraphModule, forward: list[torch.fx.Node], gradients: dict[torch.fx.Node, torch.fx.Node]
    ):
        super().__init__(graph, generator="mt19937", holds_gradients=True)
        self._locations = _NodeNames()
        self._changed = changed_arguments(graph)
        self._unknown: set[torch.fx.Node] = set()
        self.text = self._write(forward, gradients)

    def _write(self, forward: list[torch.fx.Node], gradients: dict[torch.fx.Node, torch.fx.Node]) -> str:
        seed = self._add_argument("seed", "tensor<f32>", Role("seed"))
        for node in self._graph.graph.nodes:
            if node.op == "placeholder" and is_tangent(node):
                # They are what the backward starts from, in any number and of any type.
                self._add_stand_in(node, [seed], "tensor<f32>")
            elif node.op == "placeholder":
                type_ = self._type(node)
                self._values[node] = self._add_argument(node.name, type_, Role("input", node.name))
                self._types[node] = type_
            elif node.op == "get_attr" and isinstance(value := getattr(self._graph, node.target, None), torch.Tensor):
                self._types[node] = type_ = self._type_of(node, value)
                self._values[node] = self._add_argument(node.name, type_, Role("constant", node.name))
            elif node.op == "call_function":
                self._write_any(node)
        returned = [
            (self._values[node], self._types[node], Role("output", str(number)))
            for number, node in enumerate(dict.fromkeys(forward))
        ]
        for of, node in gradients.items():
            returned.append((self._values[node], self._types[node], Role("gradient", of.name)))
        return f"module @joint {{\n  train.program\n\n{self._function(returned)}}}\n"

    def _write_any(self, node: torch.fx.Node):
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable and not node.users:
            return  # of its own: it takes no part in what is saved
        if node.target in (operator.getitem, torch.ops.prims.convert_element_type.default):
            return self._write_node(node)
        if isinstance(node.target, OpOverload) and not draws_numbers(node):
            try:
                return self._write_call(node)
            except (ExportError, Unsupported):
                pass
        self._unknown.add(node)
        operands = [operand for operand in node.all_input_nodes if operand in self._types]
        self._add_stand_in(node, [self._values[o] for o in operands], ", ".join(self._types[o] for o in operands))

    def _add_stand_in(self, node: torch.fx.Node, operands: list[str], types: str):
        value = node.meta.get("val")
        try:
            results = result_types(value)
        except Unsupported as error:
            raise self._refusal(node, str(error)) from None
        made = ", ".join(["Tensor"] * len(results))
        schema = f"(Tensor[] values) -> ({made})" if len(results) != 1 else "(Tensor[] values) -> Tensor"
        self._emit(
            node, f'aten.call "graph::{node.name}" "{schema}"(values = [{", ".join(operands)}])', types, results
        )

    def _discardable(self, node: torch.fx.Node) -> str:
        """Tags of checkpointing. Saved is what recomputing would change: what draws numbers, what takes an argument that
        has got a new value by then, and what is unknown."""
        if node.op != "call_function":
            return ""
        if node in self._unknown or self._changed.intersection(node.all_input_nodes):
            return " {train.checkpoint = #train.checkpoint<must_save, graph 0>}"
        return super()._discardable(node)


def changed_arguments(graph: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The arguments that get new values, such as running statistics."""
    arguments = {node.meta.get("desc"): node for node in graph.graph.nodes if node.op == "placeholder"}
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = [desc for desc in output.meta.get("desc", ()) if isinstance(desc, aot.InputMutationAOTOutput)]
    changed = {arguments[desc.mutated_input] for desc in results if desc.mutated_input in arguments}
    copies = [node for node in graph.graph.nodes if node.target is torch.ops.aten.copy_.default]
    return changed | {node.args[0] for node in copies if node.args[0].op == "placeholder"}


def is_tangent(node: torch.fx.Node) -> bool:
    return node.op == "placeholder" and "tangents" in str(node.target)


class _NodeNames:
    """Locations that name the node of each op."""

    def of(self, node: torch.fx.Node) -> str:
        return f'loc("{node.name}")'
