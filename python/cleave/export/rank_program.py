"""Reads what one rank of a distributed program runs, a graph of ATen ops and functional collectives, as a local program.

The graph is one of `make_fx` or AOT Autograd, traced under PyTorch's fake process group, so that one process traces any
rank of any mesh. A layout says what the graph does not: the mesh, which axes a process group is, and how inputs and
outputs lie. `cleave-prove` then compares it with the program of one device, written from a graph without communication
and with the same names.

Ranks may differ by numbers that are affine in their places, such as the first row of a vocabulary that a rank has: the
graphs of all ranks together show which.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import torch

from cleave.export.errors import ExportError
from cleave.export.operators import bind, schema_name
from cleave.export.rank_graph import functional_graph
from cleave.export.roles import Role
from cleave.export.tensor_function import TensorFunction
from cleave.export.text import Unsupported, string, tensor_type

_REDUCTIONS = ("sum", "avg", "max", "min", "product")
_KINDS = ("R", "P")
_aten = torch.ops.aten
_all_to_all = torch.ops._c10d_functional.all_to_all_single.default
# For each op whose second argument may differ between ranks: what the rank's share of it does to the first one instead.
_SHIFTS = {
    _aten.add.Tensor: "add",
    **dict.fromkeys(
        (_aten.sub.Tensor, _aten.lt.Scalar, _aten.le.Scalar, _aten.gt.Scalar, _aten.ge.Scalar, _aten.eq.Scalar,
         _aten.ne.Scalar), "sub"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RankLayout:
    """What a rank's graph does not say of itself.

    mesh: sizes of the axes, major first.
    groups: for the name of each process group in the graph, its axes, major first.
    inputs: for each argument of the graph, in order, its name and how it lies: `{"tp": 1}` is a shard along dimension 1,
        `{"tp": "P"}` a term of a sum; an axis that is not named has the same tensor on all ranks.
    outputs: the same for each result.
    """

    mesh: Mapping[str, int]
    groups: Mapping[str, tuple[str, ...]]
    inputs: tuple[tuple[str, Mapping[str, int | str]], ...]
    outputs: tuple[tuple[str, Mapping[str, int | str]], ...]

    @classmethod
    def from_json(cls, document: dict) -> RankLayout:
        """Of a file:
        `{"mesh": {"tp": 2}, "groups": {"0": ["tp"]}, "inputs": [["x", {"tp": 0}]], "outputs": [["y", {}]]}`.
        """
        expected = {field.name for field in dataclasses.fields(cls)}
        if set(document) != expected:
            found = ", ".join(sorted(document))
            raise ExportError(f"expected a layout of {', '.join(sorted(expected))}, found {found}")
        return cls(
            dict(document["mesh"]),
            {name: tuple(axes) for name, axes in document["groups"].items()},
            tuple((name, dict(placement)) for name, placement in document["inputs"]),
            tuple((name, dict(placement)) for name, placement in document["outputs"]),
        )

    def __post_init__(self):
        for what, values in (("input", self.inputs), ("output", self.outputs)):
            names = [name for name, _ in values]
            if len(set(names)) < len(names):
                raise ExportError(f"expected a name of its own for each {what}, found {', '.join(names)}")
            for name, placement in values:
                for axis, on in placement.items():
                    self._check_axis(axis, f"{what} '{name}'")
                    if not (isinstance(on, int) and on >= 0) and on not in _KINDS:
                        raise ExportError(
                            f"{what} '{name}': expected a dimension, \"P\" or \"R\" on '{axis}', found {on!r}"
                        )
        for group, axes in self.groups.items():
            for axis in axes:
                self._check_axis(axis, f"group '{group}'")

    def _check_axis(self, axis: str, where: str):
        if axis not in self.mesh:
            axes = ", ".join(self.mesh)
            raise ExportError(f"{where} names axis '{axis}', which the mesh does not have (it has {axes})")

    def placement(self, placement: Mapping[str, int | str]) -> str:
        """As the attribute; axes that shard one dimension are major in the order of the mapping."""
        order: dict[int, int] = {}
        parts = {}
        for axis, on in placement.items():
            if isinstance(on, int):
                parts[axis] = f"S({on}, {order.setdefault(on, 0)})"
                order[on] += 1
            else:
                parts[axis] = on
        return "#dist.on<@mesh, " + ", ".join(f"{axis} = {parts.get(axis, 'R')}" for axis in self.mesh) + ">"


def write_rank_program(
    graph: torch.fx.GraphModule | Sequence[torch.fx.GraphModule], layout: RankLayout, name: str = "rank"
) -> str:
    """The program of each rank, without types: only arguments and results have placements.

    graph: of any rank, if all run the same; or those of all ranks in order, if a number in them depends on the rank.

    Raises `ExportError` for what has no op, such as a collective along a group that the layout does not name.
    """
    if isinstance(graph, torch.fx.GraphModule):
        return RankFunction(functional_graph(graph), name, layout).text
    graphs = [functional_graph(each) for each in graph]
    return RankFunction(graphs[0], name, layout, numbers=_numbers_of_ranks(graphs, layout)).text


def write_device_program(graph: torch.fx.GraphModule, layout: RankLayout, name: str = "device") -> str:
    """The program of one device, whose inputs and outputs have the layout's names."""
    return RankFunction(functional_graph(graph), name, dataclasses.replace(layout, groups={}), is_whole=True).text


def _numbers_of_ranks(graphs: Sequence[torch.fx.GraphModule], layout: RankLayout) -> dict[str, list]:
    """The second argument by rank, of each node in which it differs; of what one rank sends to one, the receivers."""
    expected = math.prod(layout.mesh.values())
    if len(graphs) != expected:
        raise ExportError(f"expected a graph for each of {expected} ranks, found {len(graphs)}")
    found = {}
    # Of each graph by number: names may differ.
    places = {node: i for graph in graphs for i, node in enumerate(graph.graph.nodes)}
    for nodes in itertools.zip_longest(*(graph.graph.nodes for graph in graphs)):
        if None in nodes or len({_without_number(node, places) for node in nodes}) > 1:
            name = next(node.name for node in nodes if node is not None)
            raise ExportError(f"'{name}' differs between ranks by more than a number that is added or compared")
        if nodes[0].target is _all_to_all and all(_receiver(node) is not None for node in nodes):
            found[nodes[0].name] = [_receiver(node) for node in nodes]
            continue
        numbers = [node.args[1] if len(node.args) > 1 else None for node in nodes]
        if nodes[0].target in _SHIFTS and all(isinstance(n, int) for n in numbers) and len(set(numbers)) > 1:
            found[nodes[0].name] = numbers
    return found


def _without_number(node: torch.fx.Node, places: Mapping[torch.fx.Node, int]) -> tuple:
    """What must be the same on all ranks."""
    value = node.meta.get("val")
    shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
    is_free = node.target in _SHIFTS and isinstance(node.args[1], int)
    if node.target is _all_to_all and _receiver(node) is not None:
        is_free, args = True, (node.args[0], *node.args[3:])
    else:
        args = (node.args[0], *node.args[2:]) if is_free else node.args
    args, kwargs = (torch.fx.node.map_arg(given, places.get) for given in (args, dict(node.kwargs)))
    return node.op, str(node.target), shape, is_free, str(args), str(kwargs)


def _receiver(node: torch.fx.Node) -> int | None:
    """The number in its group of the only rank to which an exchange sends, and which is sent as much by one."""
    received, sent = node.args[1:3]
    whole = node.args[0].meta["val"].shape[0] if node.args[0].meta["val"].dim() else 0
    for sizes in (received, sent):
        if len(sizes) < 2 or sorted(sizes)[-2:] != [0, whole] or sum(sizes) != whole:
            return None
    return list(sent).index(whole)


@dataclasses.dataclass(frozen=True)
class _Placed(Role):
    """A role, and beside it how the argument or result lies."""

    placement: str | None = None

    def __str__(self) -> str:
        placement = f", dist.placement = {self.placement}" if self.placement else ""
        return super().__str__() + placement


class RankFunction(TensorFunction):
    """A function of tensors with collectives, whose arguments and results say how they lie."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        name: str,
        layout: RankLayout,
        is_whole: bool = False,
        numbers: Mapping[str, list[int]] | None = None,
    ):
        self._layout = layout
        self._is_whole = is_whole
        self._numbers = numbers or {}
        self._coalesced: dict[tuple, str] = {}
        arguments = [node for node in graph.graph.nodes if node.op == "placeholder"]
        if len(arguments) != len(layout.inputs):
            expected = len(layout.inputs)
            raise ExportError(f"expected {expected} arguments, as the layout has inputs, found {len(arguments)}")
        super().__init__(graph, name)

    def _write(self, name: str) -> str:
        text = super()._write(name)
        if self._is_whole:
            return text
        axes = ", ".join(f"{string(axis)} = {size}" for axis, size in self._layout.mesh.items())
        return text.replace("  train.program\n", f"  train.program\n  dist.mesh @mesh [{axes}]\n", 1)

    def _add_argument(self, name: str, type_: str, role: Role) -> str:
        if role.kind != "input":
            raise ExportError("found a tensor that the graph holds itself; expected all tensors to be inputs")
        arguments = [node.name for node in self._graph.graph.nodes if node.op == "placeholder"]
        own, placement = self._layout.inputs[arguments.index(name)]
        return super()._add_argument(own, type_, _Placed("input", own, placement=self._attribute(placement)))

    def _attribute(self, placement) -> str | None:
        return None if self._is_whole else self._layout.placement(placement)

    def _add_results(self):
        returned = super()._add_results()
        if len(returned) != len(self._layout.outputs) or len(self.results) != len(returned):
            expected = len(self._layout.outputs)
            raise ExportError(f"expected {expected} different results, as the layout has outputs, found {len(returned)}")
        return [
            (value, type_, _Placed("output", name, placement=self._attribute(placement)))
            for (value, type_, _), (name, placement) in zip(returned, self._layout.outputs, strict=True)
        ]

    def _write_call(self, node: torch.fx.Node):
        if node.target.namespace not in ("_c10d_functional", "_c10d_functional_autograd"):
            if node.name in self._numbers:
                return self._write_by_rank(node, self._numbers[node.name])
            return super()._write_call(node)
        call = schema_name(node.target).split("::")[1].split(".")[0]
        bound = bind(node.target, node.args, node.kwargs)
        operands = next(value for value in bound.values() if isinstance(value, (torch.fx.Node, list, tuple)))
        if call == "wait_tensor":
            self._values[node], self._types[node] = self._values[operands], self._types[operands]
            return
        if self._is_whole:
            raise Unsupported("a collective; expected the program of one device")
        axes, size = self._group(bound)
        reduction = bound.get("reduce_op", "sum").lower()
        if reduction not in _REDUCTIONS:
            raise Unsupported(f"the reduction '{reduction}'")
        over = ", ".join(string(axis) for axis in axes)
        if call == "all_to_all_single":
            if node.name in self._numbers:
                return self._write_permutation(node, operands, self._numbers[node.name], axes)
            return self._write_all_to_all(node, operands, bound, size, over)
        form = {
            "all_reduce": f"all_reduce {reduction}({{}})",
            "all_gather_into_tensor": "all_gather({}) dim 0",
            "reduce_scatter_tensor": f"reduce_scatter {reduction}({{}}) dim 0",
            "broadcast": f"broadcast({{}}) root {bound.get('src')}",
        }.get(call.removesuffix("_coalesced"))
        if form is None:
            raise Unsupported("a collective that is not a reduction, a gather, a scatter, an exchange or a broadcast")
        if call.endswith("_coalesced"):
            return self._write_coalesced(node, operands, form, over)
        result, before = self._type(node), self._types[operands]
        value = self._names.fresh(node.name)
        self._values[node], self._types[node] = value, result
        types = before if before == result else f"{before} -> {result}"
        text = form.format(self._values[operands])
        self._body.append(f"{value} = dist.{text} over @mesh [{over}] : {types} {self._locations.of(node)}")

    def _group(self, bound) -> tuple[tuple[str, ...], int]:
        """The axes that a process group is, and its ranks."""
        group = bound.get("group_name")
        axes = self._layout.groups.get(group)
        if axes is None:
            raise Unsupported(f"process group '{group}', of which the layout does not say which axes it is")
        size = math.prod(self._layout.mesh[axis] for axis in axes)
        if bound.get("group_size", size) != size:
            raise Unsupported(f"a group of {bound['group_size']} ranks; its axes have {size}")
        return axes, size

    def _write_coalesced(self, node, operands, form, over):
        """Several tensors at once: each by itself."""
        self._result_types[node] = [tensor_type(value) for value in node.meta["val"]]
        name = self._names.fresh(node.name)
        self._values[node] = name
        for i, (operand, result) in enumerate(zip(operands, self._result_types[node], strict=True)):
            before, value = self._types[operand], self._names.fresh(f"{node.name}_{i}")
            types = before if before == result else f"{before} -> {result}"
            text = form.format(self._values[operand])
            self._body.append(f"{value} = dist.{text} over @mesh [{over}] : {types} {self._locations.of(node)}")
            self._coalesced[node, i] = value

    def _project(self, node: torch.fx.Node):
        if (value := self._coalesced.get(tuple(node.args))) is None:
            return super()._project(node)
        self._values[node], self._types[node] = value, self._result_types[node.args[0]][node.args[1]]

    def _write_permutation(self, node, operand, receivers: list[int], axes):
        """What each rank sends to another one: around a circle, or by a list."""
        if len(axes) != 1:
            raise Unsupported("sends along several axes of the mesh; expected a group that is one axis")
        size = self._layout.mesh[axes[0]]
        places = itertools.product(*(range(n) for n in self._layout.mesh.values()))
        at = list(self._layout.mesh).index(axes[0])
        to: dict[int, set[int]] = {}
        for receiver, place in zip(receivers, places, strict=True):
            to.setdefault(place[at], set()).add(receiver)
        if any(len(ranks) > 1 for ranks in to.values()):
            raise Unsupported("sends that differ between groups; expected the same along the whole axis")
        pairs = {source: min(ranks) for source, ranks in to.items()}
        steps = {(target - source) % size for source, target in pairs.items()}
        listed = ", ".join(f"{source} -> {target}" for source, target in pairs.items())
        text = f"shift({{}}) by {min(steps)} wrap" if len(steps) == 1 else f"permute({{}}) [{listed}]"
        value, type_ = self._names.fresh(node.name), self._types[operand]
        self._values[node], self._types[node] = value, type_
        text = text.format(self._values[operand])
        self._body.append(f"{value} = dist.{text} over @mesh [{string(axes[0])}] : {type_} {self._locations.of(node)}")

    def _write_all_to_all(self, node, operand, bound, size, over):
        """Part i of dimension 0 is for rank i: parts have a dimension of their own."""
        for sizes in (bound.get("output_split_sizes"), bound.get("input_split_sizes")):
            if sizes and (len(sizes) != size or len(set(sizes)) > 1):
                raise Unsupported("an exchange of parts of different sizes")
        rows, *rest = node.meta["val"].shape
        element = self._type(node).rsplit("x", 1)[-1].removesuffix(">")

        def typed(*shape):
            return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"

        parts, received = (size, 1, rows // size, *rest), (1, size, rows // size, *rest)
        value = self._view(node, self._values[operand], self._types[operand], parts, typed(*parts))
        exchanged = self._names.fresh(node.name)
        self._body.append(
            f"{exchanged} = dist.all_to_all({value}) split 0 concat 1 over @mesh [{over}] : "
            f"{typed(*parts)} -> {typed(*received)} {self._locations.of(node)}"
        )
        self._types[node] = self._type(node)
        self._values[node] = self._view(node, exchanged, typed(*received), (rows, *rest), self._types[node])

    def _view(self, node, value, before, size, result):
        name = self._names.fresh(node.name)
        numbers = ", ".join(map(str, size))
        self._body.append(
            f"{name} = aten.view({value}, size = [{numbers}]) : ({before}) -> {result} {self._locations.of(node)}"
        )
        return name

    def _write_by_rank(self, node: torch.fx.Node, numbers: list[int]):
        """An op with a number that depends on the rank: with rank 0's, on the operand less what others have more."""
        operand = node.args[0]
        type_ = self._types[operand]
        if not type_.endswith("i64>") or set(node.kwargs) - {"alpha"} or node.kwargs.get("alpha", 1) != 1:
            raise Unsupported("a number that depends on the rank; expected one that is added to or compared with i64")
        steps, stride = {}, len(numbers)
        for axis, size in self._layout.mesh.items():
            stride //= size
            steps[axis] = numbers[stride] - numbers[0] if size > 1 else 0
        places = itertools.product(*(range(size) for size in self._layout.mesh.values()))
        for number, place in zip(numbers, places, strict=True):
            if number != numbers[0] + sum(i * step for i, step in zip(place, steps.values(), strict=True)):
                raise Unsupported(f"numbers of ranks that are not affine in their places: {numbers}")
        value, location = self._values[operand], self._locations.of(node)
        for axis, step in steps.items():
            if step == 0:
                continue
            place, offset, shifted = (self._names.fresh(node.name) for _ in range(3))
            self._body += [
                f"{place} = dist.axis_index over @mesh [{string(axis)}] : tensor<i64> {location}",
                f"{offset} = aten.mul_scalar({place}, other = {step}) : (tensor<i64>) -> tensor<i64> {location}",
                f"{shifted} = aten.{_SHIFTS[node.target]}({value}, {offset}) : ({type_}, tensor<i64>) -> {type_} "
                + location,
            ]
            value = shifted
        own, self._values[operand] = self._values[operand], value
        super()._write_call(node)
        self._values[operand] = own
