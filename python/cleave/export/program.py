"""Writes a captured step as an MLIR module in the form of `docs/ir.md`."""

from __future__ import annotations

import operator

import torch

from cleave.export import random_ops
from cleave.export.capture import Capture
from cleave.export.errors import ExportError
from cleave.export.locations import Locations, place
from cleave.export.operators import (
    SAME_AS,
    OperatorWriter,
    as_scalar_overload,
    bind,
    check_call,
    has_number_for_tensor,
    kernel_result_types,
    result_types,
    schema_name,
    with_default_dtype,
)
from cleave.export.optimizer import UpdateWriter, gradient_type
from cleave.export.pytorch import OpOverload, part_of_step
from cleave.export.pytorch import descriptors as aot
from cleave.export.roles import Role, State, argument_role, result_role
from cleave.export.spec import ExportSpec
from cleave.export.targets import find_counted_targets
from cleave.export.text import Names, Unsupported, string, tensor_type
from cleave.export.weightless import has_values, missing_note


class Program:
    """The text of a program and the tensors that go with it.

    text: the MLIR module.
    tensors: parameters, buffers and constants under the names of their roles; those that have values.
    notes: what its user should know.
    """

    def __init__(self, spec: ExportSpec, capture: Capture):
        self._spec = spec
        self._capture = capture
        self._graph = capture.graph
        self._state = State(spec)
        self._names = Names()
        self._locations = Locations()
        self._values: dict[torch.fx.Node, str] = {}
        self._types: dict[torch.fx.Node, str] = {}
        self._result_types: dict[torch.fx.Node, list[str]] = {}
        self._arguments: list[tuple[str, str, Role]] = []  # SSA name, type, role
        self._body: list[str] = []
        self._sums: dict[str, str] = {}  # by parameter, the type in which gradients are added up
        self._draws = 0
        self._is_random = False
        self._unnamed_draw: ExportError | None = None
        self._checkpoint_graphs: dict[int, int] = {}
        self._tagged = False
        self._holds_gradients = spec.mode == "joint" and spec.gradients
        self._left_out: set[torch.fx.Node] = set()
        self._backward = _backward_nodes(self._graph.graph) if spec.mode == "joint" else set()
        self._writer = OperatorWriter(self._values.__getitem__, self._types.__getitem__)
        self.tensors: dict[str, torch.Tensor] = {}
        self._missing: list[str] = []
        self.notes = list(capture.notes)
        self.text = self._write()
        if self._missing:
            self.notes.append(missing_note(self._missing, self._state.buffers))

    # Functions ------------------------------------------------------------------------------

    def _write(self) -> str:
        trains = self._spec.mode == "joint" and self._spec.optimizer is not None
        update = UpdateWriter(self._spec, self._state) if trains else None
        results = self._results()
        gradients = [role.name for _, _, role in results if role.kind == "gradient"]
        if not self._spec.gradients:
            results = [result for result in results if result[2].kind != "gradient"]
            self._keep_forward([node for node, _, _ in results])
        self._add_state()
        accumulators = {}
        if update and self._spec.gradients:
            for name in gradients:
                if name in self._state.parameters:
                    self._sums[name] = gradient_type(self._state.parameters[name], self._spec.accumulate_in)
                    accumulators[name] = self._add_argument(f"acc.{name}", self._sums[name], Role("accumulator", name))
        self._add_inputs()
        self._reserve_random_arguments()
        made: dict[torch.fx.Node, list[Role]] = {}
        for node, _, role in results:
            if role.kind == "gradient" and role.name in accumulators:
                made.setdefault(node, []).append(role)
        totals: dict[Role, str] = {}
        for node in self._graph.graph.nodes:
            if node in self._left_out:
                continue
            if node.op == "call_function":
                self._write_node(node)
            elif node.op not in ("placeholder", "get_attr", "output"):
                raise self._refusal(node, f"a {node.op} node")
            # As soon as it is there: so it can be freed, and its reduction can begin.
            if node in self._backward:
                for role in made.pop(node, ()):
                    totals[role] = self._accumulate(node, accumulators[role.name], role)
        if self._capture.checkpointed and not self._tagged and self._spec.mode == "joint":
            raise ExportError("the trace lost the tags of activation checkpointing")
        if self._is_random:
            if self._unnamed_draw:
                raise self._unnamed_draw
            self._add_random_arguments()
        for node, roles in made.items():
            for role in roles:
                totals[role] = self._accumulate(node, accumulators[role.name], role)

        for node, _, role in results:
            if role.kind == "loss" and self._spec.mode == "loss":
                totals[role] = self._detach(node)
        returned = [
            (totals.get(role, self._values[node]), self._sums[role.name] if role in totals else type_, role)
            for node, type_, role in results
        ]
        attributes = ["train.phase = #train.phase<microbatch>"]
        if self._is_random:
            attributes.insert(0, f"train.draws = {self._draws} : i64")
        functions = function_text("microbatch", self._arguments, returned, attributes, self._body)
        if update:
            functions += "\n" + update.write(gradients)
        name = self._spec.name
        symbol = name if name.isidentifier() and name.isascii() else string(name)
        transient = [name for name in self._state.buffers if name in self._state.transient]
        lists = {"train.transient": transient, "train.loss_state": self._state.of_loss}
        attributes = [f"{key} = [{', '.join(map(string, names))}]" for key, names in lists.items() if names]
        if self._spec.mean_over == "targets":
            attributes.append(f"train.mean_over = {find_counted_targets(self._capture)}")
        extra = f" attributes {{{', '.join(attributes)}}}" if attributes else ""
        # An update whose gradients are still to be made (--autodiff) is part of a program only.
        mark = "" if update and not self._spec.gradients else "  train.program\n\n"
        return f"module @{symbol}{extra} {{\n{mark}{functions}}}\n" + self._locations.definitions()

    def _accumulate(self, gradient: torch.fx.Node, accumulator: str, role: Role) -> str:
        total, type_ = self._names.fresh(f"sum.{role.name}"), self._types[gradient]
        types = type_ if self._sums[role.name] == type_ else f"{type_} into {self._sums[role.name]}"
        self._body.append(
            f"{total} = train.accumulate {self._values[gradient]} into {accumulator} : {types} {self._locations.of(gradient)}"
        )
        return total

    def _detach(self, node: torch.fx.Node) -> str:
        """The loss of a trace without gradients, which does not show where the model cuts them off:
        nobody may make them of it."""
        value, type_ = self._names.fresh("loss"), self._types[node]
        self._body.append(
            f"{value} = aten.detach({self._values[node]}) : ({type_}) -> {type_} "
            + self._locations.of(node)
        )
        return value

    def _keep_forward(self, results: list[torch.fx.Node]):
        """Leaves out the backward, and what the forward makes for it alone.

        Random ops stay, needed or not: the next ones' positions in the stream count on them.
        """
        needed, stack = set(), list(results)
        for node in self._graph.graph.nodes:
            if node.op == "call_function" and node not in self._backward and _draws(node):
                stack.append(node)
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                stack.extend(node.all_input_nodes)
        self._left_out = {
            node
            for node in self._graph.graph.nodes
            if node.op in ("call_function", "get_attr") and node not in needed
        }

    def _add_argument(self, name: str, type_: str, role: Role) -> str:
        value = self._names.fresh(name)
        self._arguments.append((value, type_, role))
        return value

    def _placeholders(self, *kinds):
        for node in self._graph.graph.nodes:
            if node.op == "placeholder" and isinstance(node.meta["desc"], kinds):
                yield node

    def _add_state(self):
        """Parameters, buffers and constants; tied weights are one argument."""
        known: dict[Role, str] = {}
        for node in self._placeholders(aot.ParamAOTInput, aot.BufferAOTInput):
            role = argument_role(node.meta["desc"], self._capture, self._state)
            type_ = self._type(node)
            if role not in known:
                known[role] = self._add_argument(role.name, type_, role)
                table = self._state.parameters if role.kind == "parameter" else self._state.buffers
                if has_values(table[role.name]):
                    self.tensors[role.name] = table[role.name].detach()
                else:
                    self._missing.append(role.name)
            self._values[node], self._types[node] = known[role], type_
        constants: dict[str, str] = {}
        for node in self._graph.graph.nodes:
            if node.op != "get_attr" or node in self._left_out:
                continue
            value = getattr(self._graph, node.target, None)
            if not isinstance(value, torch.Tensor):
                continue  # the body of a higher-order operator, which is refused at its call
            if node.target not in constants:
                name = f"constant.{len(constants)}"
                while name in self._state.canonical:
                    name += "_"
                type_ = tensor_type(value)
                if not has_values(value):
                    raise ExportError(
                        f"forward uses a tensor of shape {tuple(value.shape)}{place(node)} that has no values; "
                        "expected what is neither a parameter nor a buffer to have some"
                    )
                constants[node.target] = self._add_argument(name, type_, Role("constant", name))
                self.tensors[name] = value.detach()
            self._values[node], self._types[node] = constants[node.target], tensor_type(value)

    def _add_inputs(self):
        """All inputs in the order of the call, also those that the graph does not read."""
        placeholders = {n.meta["desc"]: n for n in self._graph.graph.nodes if n.op == "placeholder"}
        for i, source in enumerate(self._capture.signature.inputs):
            desc = aot.PlainAOTInput(i)
            role = argument_role(desc, self._capture, self._state)
            try:
                type_ = tensor_type(source.value)
            except Unsupported as error:
                raise ExportError(f"input '{source.name}' is {error}") from None
            value = self._add_argument(source.name, type_, role)
            if desc in placeholders:
                node = placeholders.pop(desc)
                if node.users:  # the trace makes up sizes for what it does not read
                    self._check_static(node, source.name)
                self._values[node], self._types[node] = value, type_
        for desc, node in placeholders.items():
            if node in self._values:
                continue
            role = argument_role(desc, self._capture, self._state)
            if role.kind == "seed" and not self._spec.gradients:
                continue
            type_ = self._type(node)
            self._values[node], self._types[node] = (
                self._add_argument(role.kind, type_, role),
                type_,
            )

    def _check_static(self, node: torch.fx.Node, name: str):
        shape = node.meta["val"].shape
        if any(not isinstance(size, int) for size in shape):
            raise ExportError(
                f"input '{name}' has the dynamic shape ({', '.join(map(str, shape))}); expected "
                "fixed sizes, those of one microbatch"
            )

    def _reserve_random_arguments(self):
        self._rng = self._names.fresh("rng_seed"), self._names.fresh("rng_offset")

    def _add_random_arguments(self):
        for value, kind in zip(self._rng, ("rng_seed", "rng_offset")):
            self._arguments.append((value, "tensor<i64>", Role(kind)))

    def _results(self) -> list[tuple[torch.fx.Node, str, Role]]:
        """The graph's results with their types and roles, in its order."""
        output = next(n for n in self._graph.graph.nodes if n.op == "output")
        results = []
        for node, desc in zip(output.args[0], output.meta["desc"]):
            if node is None:
                continue  # an unused parameter has no gradient
            type_, value = self._type(node), node.meta["val"]
            role = result_role(desc, value, self._capture, self._state, self._spec)
            if role.kind == "loss" and (value.dim() or not value.dtype.is_floating_point):
                raise ExportError(
                    f"the loss has shape {tuple(value.shape)} and type {value.dtype}; expected a "
                    "0-d tensor of a floating-point type, the mean over the microbatch"
                )
            if any(role == other for _, _, other in results):
                raise ExportError(f"the trace has two results with {role}")
            results.append((node, type_, role))
        if self._spec.mode == "joint" and not any(r.kind == "gradient" for _, _, r in results):
            raise ExportError("the loss depends on no parameter that requires a gradient")
        return results

    # Ops ------------------------------------------------------------------------------------

    def _refusal(self, node: torch.fx.Node, found: str) -> ExportError:
        op = node.target if isinstance(node.target, str) else _name(node.target)
        return ExportError(f"cannot export '{op}'{place(node)}: found {found}")

    def _type(self, node: torch.fx.Node) -> str:
        value = node.meta.get("val")
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
            elif isinstance(node.target, OpOverload):
                self._write_call(node)
            else:
                raise Unsupported("a call to something other than the dispatcher's operators")
        except Unsupported as error:
            raise self._refusal(node, str(error)) from None

    def _project(self, node: torch.fx.Node):
        """A getitem is one of the results of its op."""
        source, index = node.args
        if not isinstance(source.meta["val"], (list, tuple)):
            raise Unsupported("an index into something other than an op's results")
        self._values[node] = f"{self._values[source]}#{index}"
        self._types[node] = self._result_types[source][index]

    def _write_call(self, node: torch.fx.Node):
        overload = SAME_AS.get(node.target, node.target)
        if overload is torch.ops.aten.detach.default and self._holds_gradients:
            # It cuts gradients off, and here they are made already.
            source = node.args[0]
            self._values[node], self._types[node] = self._values[source], self._types[source]
            return
        if overload._schema.is_mutable:
            raise Unsupported("an operator that changes its argument; programs are pure")
        bound = bind(overload, node.args, node.kwargs)
        check_call(overload, bound)
        value = node.meta["val"]
        if random_ops.is_random(overload, bound):
            return self._write_random(node, bound, value)
        bound = with_default_dtype(overload, random_ops.with_eager_scale(overload, bound), value)
        if has_number_for_tensor(overload, bound):
            scalar = as_scalar_overload(overload, bound)
            if scalar is None:
                raise Unsupported(f"a number where {schema_name(overload)} takes a tensor")
            overload = scalar
        text, operand_types = self._writer.write(overload, bound, value)
        types = kernel_result_types(overload, value, bound, self._types.__getitem__)
        self._emit(node, text, operand_types, types)

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
        attributes += [f"position = {self._draws}", f"generator = #aten.generator<{self._spec.generator}>"]
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


def _backward_nodes(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes of the backward, which is traced after the forward.

    What a torch.autograd.Function does in its backward has no tag.
    """
    calls = [node for node in graph.nodes if node.op == "call_function"]
    tags = [part_of_step(node) for node in calls]
    forward = max((i for i, tag in enumerate(tags) if tag == "forward"), default=-1)
    return {
        node
        for i, (node, tag) in enumerate(zip(calls, tags))
        if tag == "backward" or (tag is None and i > forward)
    }


def _draws(node: torch.fx.Node) -> bool:
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
