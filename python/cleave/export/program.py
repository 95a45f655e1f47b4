"""Writes a captured step as an MLIR module in the form of `docs/ir.md`."""

from __future__ import annotations

import torch

from cleave.export.capture import Capture
from cleave.export.errors import ExportError
from cleave.export.graph_writer import GraphWriter, draws_numbers
from cleave.export.locations import place
from cleave.export.optimizer import UpdateWriter, gradient_type
from cleave.export.pytorch import part_of_step
from cleave.export.pytorch import descriptors as aot
from cleave.export.roles import Role, State, argument_role, result_role
from cleave.export.spec import ExportSpec
from cleave.export.targets import find_counted_targets
from cleave.export.text import Unsupported, string, tensor_type
from cleave.export.weightless import has_values, missing_note


class Program(GraphWriter):
    """The text of a program and the tensors that go with it.

    text: the MLIR module.
    tensors: parameters, buffers and constants under the names of their roles; those that have values.
    notes: what its user should know.
    """

    def __init__(self, spec: ExportSpec, capture: Capture):
        backward = _backward_nodes(capture.graph.graph) if spec.mode == "joint" else set()
        super().__init__(
            capture.graph, generator=spec.generator, backward=backward,
            holds_gradients=spec.mode == "joint" and spec.gradients,
        )  # fmt: skip
        self._spec = spec
        self._capture = capture
        self._state = State(spec)
        self._sums: dict[str, str] = {}  # by parameter, the type in which gradients are added up
        self._left_out: set[torch.fx.Node] = set()
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
        self._add_random_arguments()
        for node, roles in made.items():
            for role in roles:
                totals[role] = self._accumulate(node, accumulators[role.name], role)

        for node, _, role in results:
            if role.kind == "loss" and self._spec.mode == "loss":
                totals[role] = self._detach(node)
        returned = [
            (totals.get(role, self._values[node]), self._sums.get(role.name, type_) if role.kind == "gradient" else type_, role)
            for node, type_, role in results
        ]
        functions = self._function(returned)
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
            if node.op == "call_function" and node not in self._backward and draws_numbers(node):
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
