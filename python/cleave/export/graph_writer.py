"""Writes the calls of an FX graph as the body of a function of a program."""

from __future__ import annotations

import operator
from collections.abc import Collection

import torch

from cleave.export import random_ops
from cleave.export.errors import ExportError
from cleave.export.locations import Locations, place
from cleave.export.operators import (
    CHANGES_ARGUMENT,
    SAME_AS,
    OperatorWriter,
    argument_types,
    as_scalar_overload,
    bind,
    check_call,
    has_number_for_tensor,
    integers_to_widen,
    is_tensor_type,
    kernel_result_types,
    result_types,
    schema_name,
    with_default_dtype,
)
from cleave.export.pytorch import OpOverload
from cleave.export.roles import Role
from cleave.export.text import Names, Unsupported, string, tensor_type

# Operators of torch that run functions.
_LOOP = "a loop as one operator, of which programs have none; expected a loop in Python over the sizes that there are"
_CONTROL_FLOW = {
    "cond": "a branch that depends on data, of which programs have none; expected both results, of which torch.where takes one",
    "while_loop": "a loop whose end depends on data, of which programs have none; expected one of as many rounds as Python knows",
    "scan": _LOOP, "map_impl": _LOOP, "associative_scan": _LOOP,
}  # fmt: skip


class GraphWriter:
    """A microbatch function under construction: its arguments, the ops of its body, and the SSA value of each node.

    generator: that random ops name. backward: the calls that are backward. holds_gradients: whether the graph makes
        gradients, so that nothing is cut off any more.
    """

    def __init__(
        self, graph: torch.fx.GraphModule, *, generator: str, backward: Collection[torch.fx.Node] = (),
        holds_gradients: bool,
    ):  # fmt: skip
        self._graph = graph
        self._generator = generator
        self._backward = backward
        self._holds_gradients = holds_gradients
        self._names = Names()
        self._locations = Locations()
        self._values: dict[torch.fx.Node, str] = {}
        self._types: dict[torch.fx.Node, str] = {}
        self._result_types: dict[torch.fx.Node, list[str]] = {}
        self._arguments: list[tuple[str, str, Role]] = []  # SSA name, type, role
        self._body: list[str] = []
        self._draws = 0
        self._is_random = False
        self._unnamed_draw: ExportError | None = None
        self._checkpoint_graphs: dict[int, int] = {}
        self._tagged = False
        self._writer = OperatorWriter(self._values.__getitem__, self._types.__getitem__)

    def _function(self, results: list[tuple[str, str, Role]]) -> str:
        """The whole function with these results: SSA name, type, role."""
        attributes = ["train.phase = #train.phase<microbatch>"]
        if self._is_random:
            attributes.insert(0, f"train.draws = {self._draws} : i64")
        return function_text("microbatch", self._arguments, results, attributes, self._body)

    def _add_argument(self, name: str, type_: str, role: Role) -> str:
        value = self._names.fresh(name)
        self._arguments.append((value, type_, role))
        return value

    def _reserve_random_arguments(self):
        self._rng = self._names.fresh("rng_seed"), self._names.fresh("rng_offset")

    def _add_random_arguments(self):
        """The seed and the place of what random ops draw, where there are some; the body is written."""
        if not self._is_random:
            return
        if self._unnamed_draw:
            raise self._unnamed_draw
        for value, kind in zip(self._rng, ("rng_seed", "rng_offset")):
            self._arguments.append((value, "tensor<i64>", Role(kind)))

    def _refusal(self, node: torch.fx.Node, found: str) -> ExportError:
        target = node.args[0] if _name(node.target).startswith("auto_functionalized") else node.target
        op = target if isinstance(target, str) else _name(target)
        return ExportError(f"cannot export '{op}'{place(node)}: found {found}")

    def _type(self, node: torch.fx.Node) -> str:
        return self._type_of(node, node.meta.get("val"))

    def _type_of(self, node: torch.fx.Node, value: object) -> str:
        try:
            if not isinstance(value, torch.Tensor):
                raise Unsupported(f"the dynamic number {value}; export at a fixed microbatch size")
            return tensor_type(value)
        except Unsupported as error:
            raise self._refusal(node, str(error)) from None

    def _write_node(self, node: torch.fx.Node):
        try:
            if node.target is operator.getitem:
                self._project(node)
            elif node.target is torch.ops.prims.convert_element_type.default:
                self._write_conversion(node)
            elif isinstance(node.target, OpOverload):
                self._write_call(node)
            elif _name(node.target).startswith("auto_functionalized"):
                raise Unsupported(CHANGES_ARGUMENT)
            else:
                raise Unsupported(
                    _CONTROL_FLOW.get(_name(node.target), "a call to something other than the dispatcher's operators")
                )
        except Unsupported as error:
            raise self._refusal(node, str(error)) from None

    def _project(self, node: torch.fx.Node):
        """A getitem is one of the results of its op."""
        source, index = node.args
        if not isinstance(source.meta["val"], (list, tuple)):
            raise Unsupported("an index into something other than an op's results")
        self._values[node] = f"{self._values[source]}#{index}"
        self._types[node] = self._result_types[source][index]

    def _write_conversion(self, node: torch.fx.Node):
        """What torch.compile's own passes write for ATen's `_to_copy`."""
        source, dtype = node.args
        text, types = self._writer.write(
            torch.ops.aten._to_copy.default, {"self": source, "dtype": dtype}, node.meta["val"]
        )
        self._emit(node, text, types, [self._type(node)])

    def _write_call(self, node: torch.fx.Node):
        overload = SAME_AS.get(node.target, node.target)
        if overload is torch.ops.aten.detach.default and self._holds_gradients:
            # It cuts gradients off, and here they are made already.
            source = node.args[0]
            self._values[node], self._types[node] = self._values[source], self._types[source]
            return
        if overload._schema.is_mutable:
            raise Unsupported(CHANGES_ARGUMENT)
        bound = bind(overload, node.args, node.kwargs)
        check_call(overload, bound)
        value = node.meta["val"]
        if random_ops.is_random(overload, bound):
            return self._write_random(node, bound, value)
        bound = with_default_dtype(overload, random_ops.with_eager_scale(overload, bound), value)
        bound = self._widen_integers(node, overload, bound, value)
        if has_number_for_tensor(overload, bound):
            scalar = as_scalar_overload(overload, bound)
            if scalar is None:
                bound = self._with_constants(node, overload, bound, value)
            else:
                overload = scalar
        text, operand_types = self._writer.write(overload, bound, value)
        types = kernel_result_types(overload, value, bound, self._types.__getitem__)
        self._emit(node, text, operand_types, types)

    def _widen_integers(self, node: torch.fx.Node, overload: OpOverload, bound, value):
        """The arguments with floats for integers, where the process's default type is not the program's."""
        widened = {}
        for source in dict.fromkeys(integers_to_widen(overload, bound, value)):
            arguments = {"self": source, "dtype": value.dtype}
            widened[source] = self._add_before(
                node, f"{source.name}_float", torch.ops.aten._to_copy.default, arguments, source.meta["val"].to(value.dtype)
            )
        return {name: widened.get(argument, argument) if isinstance(argument, torch.fx.Node) else argument
                for name, argument in bound.items()}  # fmt: skip

    def _with_constants(self, node: torch.fx.Node, overload: OpOverload, bound, value):
        """The arguments with tensors without dimensions for numbers, as `torch.add(0.5, x)` has one. The kernel rounds such a
        number to the result's type."""
        types = argument_types(overload)
        changed = {}
        for name, argument in bound.items():
            if is_tensor_type(types[name]) and isinstance(argument, (bool, int, float, complex)):
                if not isinstance(value, torch.Tensor) or overload.namespace != "aten":
                    raise Unsupported(f"a number where {schema_name(overload)} takes a tensor")
                arguments = {"size": [], "fill_value": argument, "dtype": value.dtype}
                result = value.new_empty(())
                changed[name] = self._add_before(node, f"{node.name}_{name}", torch.ops.aten.full.default, arguments, result)
        return bound | changed

    def _add_before(self, node: torch.fx.Node, name: str, overload: OpOverload, bound, value: torch.Tensor) -> torch.fx.Node:
        """A call that the graph does not have, before that of `node`."""
        made = torch.fx.Graph().placeholder(name)
        made.meta["val"] = value
        text, types = self._writer.write(overload, bound, value)
        self._values[made], self._types[made] = self._names.fresh(name), tensor_type(value)
        self._body.append(
            f"{self._values[made]} = {text}{self._discardable(node)} : ({types}) -> {self._types[made]} "
            + self._locations.of(node)
        )
        return made

    def _write_random(self, node: torch.fx.Node, bound, value):
        if not node.users:
            return self._skip_draw(node, bound, value)
        call = random_ops.replace(node.target, bound, value)
        self._is_random = True
        like = call.like
        if isinstance(like, torch.fx.Node):
            like_value, like_type = self._values[like], self._types[like]
        else:
            like_type = tensor_type(like)
            like_value = self._names.fresh("like")
            text, _ = self._writer.write(
                torch.ops.aten.zeros.default, {"size": list(like.shape), "dtype": like.dtype}
            )
            self._body.append(
                f"{like_value} = {text} : () -> {like_type} {self._locations.of(node)}"
            )
        attributes = [call.attributes] if call.attributes else []
        attributes += [f"position = {self._draws}", f"generator = #aten.generator<{self._generator}>"]
        self._draws += call.draws
        operands = ", ".join([like_value, *self._rng])
        self._emit(
            node,
            f"aten.{call.mnemonic}({operands}, {', '.join(attributes)})",
            f"{like_type}, tensor<i64>, tensor<i64>",
            result_types(value),
        )

    def _skip_draw(self, node: torch.fx.Node, bound, value):
        """Numbers that nothing uses: all that they do is to give later ones other places in the stream."""
        try:
            self._draws += random_ops.replace(node.target, bound, value).draws
        except Unsupported as error:
            self._unnamed_draw = self._refusal(node, str(error))

    def _emit(self, node: torch.fx.Node, text: str, operand_types: str, results: list[str]):
        name = self._names.fresh(node.name)
        self._values[node] = name
        self._result_types[node] = results
        is_list = isinstance(node.meta["val"], (list, tuple))
        if len(results) == 1 and not is_list:
            self._types[node] = results[0]
        binding = name if len(results) == 1 else f"{name}:{len(results)}"
        types = results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
        discardable = self._discardable(node)
        self._body.append(
            f"{binding} = {text}{discardable} : ({operand_types}) -> {types} "
            + self._locations.of(node)
        )

    def _discardable(self, node: torch.fx.Node) -> str:
        attributes = []
        if node in self._backward:
            attributes.append("train.backward")
        policy = node.meta.get("recompute")
        if policy is not None:
            self._tagged = True
            graph = node.meta.get("ac_graph_id", 0)
            number = self._checkpoint_graphs.setdefault(graph, len(self._checkpoint_graphs))
            attributes.append(
                f'train.checkpoint = #train.checkpoint<{policy.name.lower()}, graph {number}>'
            )
        stage = (node.meta.get("custom") or {}).get("stage")
        if stage is not None:
            if not isinstance(stage, int):
                raise Unsupported(f"the stage {stage!r}; expected an integer")
            attributes.append(f"train.stage = {stage} : i64")
        return " {" + ", ".join(attributes) + "}" if attributes else ""


def draws_numbers(node: torch.fx.Node) -> bool:
    """Whether a call draws random numbers."""
    return isinstance(node.target, OpOverload) and random_ops.is_random(
        node.target, bind(node.target, node.args, node.kwargs)
    )


def _name(target) -> str:
    if isinstance(target, OpOverload):
        return schema_name(target)
    return getattr(target, "__name__", str(target))


def function_text(
    name: str,
    arguments: list[tuple[str, str, Role]],
    results: list[tuple[str, str, Role]],
    attributes: list[str],
    body: list[str],
) -> str:
    """A `func.func` whose arguments and results are (SSA name, type, role)."""
    lines = [f"  func.func @{name}("]
    lines += [
        f"      {value}: {type_} {{train.role = {role}}}" + ("," if i + 1 < len(arguments) else ")")
        for i, (value, type_, role) in enumerate(arguments)
    ]
    if not arguments:
        lines[-1] += ")"
    lines.append("      -> (")
    lines += [
        f"      {type_} {{train.role = {role}}}" + ("," if i + 1 < len(results) else ")")
        for i, (_, type_, role) in enumerate(results)
    ]
    lines.append(f"      attributes {{{', '.join(attributes)}}} {{")
    lines += [f"    {line}" for line in body]
    if results:
        values = ", ".join(value for value, _, _ in results)
        types = ", ".join(type_ for _, type_, _ in results)
        lines.append(f"    return {values} : {types}")
    lines.append("  }")
    return "\n".join(lines) + "\n"
