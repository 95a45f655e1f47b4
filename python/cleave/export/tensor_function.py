"""Writes the graphs that torch.compile hands to back ends: functions of tensors, without roles of a training step."""

from __future__ import annotations

import copy

import torch

from cleave.export.graph_writer import GraphWriter
from cleave.export.pytorch import erase_assertions, erase_unused_numbers
from cleave.export.random_ops import spell_out_normals
from cleave.export.roles import Role
from cleave.export.strides import settle_strides


class TensorFunction(GraphWriter):
    """The text of a program that computes what a graph of AOT Autograd computes, on the processor.

    text: the MLIR module, its arguments inputs and constants, its results outputs.
    inputs: which of the graph's arguments are the function's, in order; it does not use the others.
    constants: tensors that are the function's further arguments.
    results: for each result of the graph, the number of the function's that it is, or `Value`: None or a number.
    """

    def __init__(self, graph: torch.fx.GraphModule, name: str):
        graph = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))  # PyTorch may have to run the other one
        super().__init__(graph, generator="mt19937", holds_gradients=True)
        spell_out_normals(graph.graph)
        erase_assertions(graph.graph)
        erase_unused_numbers(graph.graph)
        settle_strides(graph.graph)
        self.inputs: list[int] = []
        self.constants: list[torch.Tensor] = []
        self.results: list[int | Value] = []
        self.text = self._write(name)

    def _write(self, name: str) -> str:
        self._check_devices()
        arguments = [node for node in self._graph.graph.nodes if node.op == "placeholder"]
        for place, node in enumerate(arguments):
            if node.users:
                type_ = self._type(node)
                self._types[node] = type_
                self._values[node] = self._add_argument(node.name, type_, Role("input", node.name))
                self.inputs.append(place)
        self._add_constants()
        self._reserve_random_arguments()
        for node in self._graph.graph.nodes:
            if node.op == "call_function":
                self._write_node(node)
            elif node.op not in ("placeholder", "get_attr", "output"):
                raise self._refusal(node, f"a {node.op} node")
        self._add_random_arguments()
        function = self._function(self._add_results())
        return f"module @{name} {{\n  train.program\n\n{function}}}\n" + self._locations.definitions()

    def _check_devices(self):
        for node in self._graph.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                raise self._refusal(node, f"a tensor on {value.device}; expected tensors on the CPU")

    def _add_constants(self):
        known: dict[str, str] = {}
        for node in self._graph.graph.nodes:
            if node.op != "get_attr":
                continue
            value = getattr(self._graph, node.target, None)
            if not isinstance(value, torch.Tensor):
                continue  # the body of a higher-order operator, which is refused at its call
            if node.target not in known:
                name = f"constant.{len(known)}"
                known[node.target] = self._add_argument(name, self._type_of(node, value), Role("constant", name))
                self.constants.append(value.detach())
            self._values[node], self._types[node] = known[node.target], self._type_of(node, value)

    def _add_results(self) -> list[tuple[str, str, Role]]:
        (output,) = (node for node in self._graph.graph.nodes if node.op == "output")
        numbers: dict[torch.fx.Node, int] = {}
        returned = []
        for result in output.args[0]:
            if not isinstance(result, torch.fx.Node):
                self.results.append(Value(result))
                continue
            if result not in numbers:
                if result not in self._values:
                    raise self._refusal(result, "a result that is not a tensor")
                numbers[result] = len(returned)
                role = Role("output", str(len(returned)))
                returned.append((self._values[result], self._types[result], role))
            self.results.append(numbers[result])
        return returned


class Value:
    """A result of a graph that is not a tensor: None, or a number."""

    def __init__(self, value: object):
        self.value = value
