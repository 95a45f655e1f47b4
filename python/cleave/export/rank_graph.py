"""The graph of a rank as functions of tensors: communication in place, and other changes in place, become values.

Trainers call `dist.all_reduce(x)`, `dist.all_gather_into_tensor(out, x)` or `dist.batch_isend_irecv`; a trace under the
fake process group has these as ops of `c10d` that change their arguments. What reads a changed tensor afterwards takes
the functional op's result.
"""

from __future__ import annotations

import operator

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from cleave.export.errors import ExportError
from cleave.export.operators import bind, schema_name
from cleave.export.pytorch import OpOverload, process_group_size

_aten = torch.ops.aten
_functional = torch.ops._c10d_functional
# Of torch.distributed's enumeration.
_REDUCTIONS = {"SUM": "sum", "AVG": "avg", "MAX": "max", "MIN": "min", "PRODUCT": "product"}
_VIEWS = (
    "view", "t", "transpose", "permute", "slice", "select", "expand", "unsqueeze", "squeeze", "split", "alias", "detach",
)  # fmt: skip


def functional_graph(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same without changes in place; the graph itself if it has none. Raises `ExportError` where others see them."""
    if any(_changes(node) for node in graph.graph.nodes):
        graph = torch.fx.GraphModule(graph, _copied(graph.graph))
        _Rewriter(graph).run()
        graph = torch.fx.GraphModule(graph, graph.graph)  # without the groups, which it no longer names
        if any(_changes(node) for node in graph.graph.nodes):
            graph = _without_changes(graph)
    if any(node.target is _aten.index_put.default for node in graph.graph.nodes):
        graph = torch.fx.GraphModule(graph, _copied(graph.graph))
        _fill_where_marked(graph)
    return graph


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def _changes(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and (node.target._schema.is_mutable or node.target.namespace == "c10d")


def _without_changes(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    inputs = [torch.zeros(value.shape, dtype=value.dtype) for value in inputs]
    changed = make_fx(torch.func.functionalize(graph, remove="mutations"), tracing_mode="fake")(*inputs)
    written = [node for node in changed.graph.nodes if node.target is _aten.copy_.default]
    if written:
        argument = written[0].args[0]
        raise ExportError(f"argument '{argument}' is changed in place; expected what a rank makes to be returned")
    changed.graph.eliminate_dead_code()
    return changed


class _Rewriter:
    """Ops of `c10d` as functional ones."""

    def __init__(self, graph: torch.fx.GraphModule):
        self._module = graph
        self._graph = graph.graph
        self._sent: list[tuple[torch.fx.Node, int, str]] = []

    def run(self):
        for node in list(self._graph.nodes):
            if node.op == "call_function" and getattr(node.target, "namespace", None) == "c10d":
                self._rewrite(node)
        if self._sent:
            raise ExportError("a rank sends what it does not receive in turn; expected as many receives as sends")
        self._graph.eliminate_dead_code()
        self._graph.lint()

    def _rewrite(self, node: torch.fx.Node):
        name = schema_name(node.target).split("::")[1].split(".")[0]
        bound = bind(node.target, node.args, node.kwargs)
        group = self._group(bound)
        size = _size(group)
        if name == "send":
            (value,) = bound["tensors"]
            self._sent.append((value, bound["dst"], group))
            self._graph.erase_node(node)
        elif name == "recv_":
            (buffer,) = bound["tensors"]
            self._receive(node, buffer, bound["src"], group)
        elif name == "allreduce_":
            for tensor in bound["tensors"]:
                self._put(node, tensor, _functional.all_reduce.default, (tensor, self._reduction(bound), group))
        elif name == "broadcast_":
            root = bound["root_rank"]
            for tensor in bound["tensors"]:
                self._put(node, tensor, _functional.broadcast.default, (tensor, root, group))
        elif name == "_allgather_base_":
            given = bound["input_tensor"]
            self._put(node, bound["output_tensor"], _functional.all_gather_into_tensor.default, (given, size, group))
        elif name == "_reduce_scatter_base_":
            args = (bound["input_tensor"], self._reduction(bound), size, group)
            self._put(node, bound["output_tensor"], _functional.reduce_scatter_tensor.default, args)
        elif name == "alltoall_base_":
            given, output = bound["input"], bound["output"]
            sizes = [list(bound.get(key) or ()) for key in ("output_split_sizes", "input_split_sizes")]
            for split, value in zip(sizes, (output, given), strict=True):
                split += [value.meta["val"].shape[0] // size] * (0 if split else size)
            self._put(node, output, _functional.all_to_all_single.default, (given, *sizes, group))
        else:
            raise ExportError(f"cannot read 'c10d::{name}'; expected a reduction, a gather, a scatter of sums, an exchange, "
                              "a broadcast, or sends and receives")  # fmt: skip

    def _group(self, bound) -> str:
        (held,) = (value for name, value in bound.items() if name == "process_group")
        group = torch.distributed.ProcessGroup.unbox(getattr(self._module, held.target))
        return group.group_name

    def _reduction(self, bound) -> str:
        held = bound["reduce_op"]
        code = getattr(self._module, held.target).op()
        for name, text in _REDUCTIONS.items():
            if code == int(getattr(torch.distributed.ReduceOp.RedOpType, name)):
                return text
        raise ExportError(f"cannot read a reduction; expected one of {', '.join(_REDUCTIONS)}")

    def _receive(self, node, buffer, source: int, group: str):
        """What the rank gets is what another one sent in its place: an exchange in which each has one part."""
        at = next((i for i, sent in enumerate(self._sent) if sent[2] == group), None)
        if at is None:
            raise ExportError("a rank receives before it sends; expected a send of the same group before each receive")
        value, target, _ = self._sent.pop(at)
        rows, size = value.meta["val"].shape[0], _size(group)
        if value.meta["val"].shape != buffer.meta["val"].shape:
            raise ExportError("a rank receives what has another shape than what it sends")
        received, sent = ([rows * (i == rank) for i in range(size)] for rank in (source, target))
        self._put(node, buffer, _functional.all_to_all_single.default, (value, received, sent, group))

    def _put(self, node: torch.fx.Node, changed: torch.fx.Node, target: OpOverload, args: tuple):
        """Later uses of `changed` take what `target` makes."""
        views = [user for user in changed.users if _is_view(user) and user.users]
        if changed.op == "placeholder" or _is_view(changed) or changed.target is operator.getitem or views:
            raise ExportError(
                f"'{node.name}' changes '{changed.name}' in place, which is an argument, a view, or seen by one; "
                "expected communication into a tensor of its own"
            )
        with self._graph.inserting_before(node):
            made = self._graph.call_function(target, args)
            made.meta["val"] = changed.meta["val"]
            value = self._graph.call_function(_functional.wait_tensor.default, (made,))
            value.meta["val"] = changed.meta["val"]
        after = False
        for user in list(self._graph.nodes):
            after = after or user is node
            if after and user is not node and changed in user.all_input_nodes:
                user.replace_input_with(changed, value)
        self._forward(node, value)
        self._graph.erase_node(node)

    def _forward(self, node: torch.fx.Node, value: torch.fx.Node):
        """The op's own results: the tensor, or a list of it, and a handle."""
        for user in list(node.users):
            for inner in list(user.users):
                if inner.target is operator.getitem:
                    inner.replace_all_uses_with(value)
                    self._graph.erase_node(inner)
            user.replace_all_uses_with(value)
            self._graph.erase_node(user)


def _is_view(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", str(node.target)).split(".")[0] in _VIEWS


def _size(group: str) -> int:
    return process_group_size(group)


def _fill_where_marked(graph: torch.fx.GraphModule):
    """An assignment of a number where a mask holds, as one op."""
    for node in list(graph.graph.nodes):
        if node.target is not _aten.index_put.default or len(node.args) != 3 or len(node.args[1]) != 1:
            continue
        (mask,), value = node.args[1], _number(graph, node.args[2])
        if mask.meta["val"].dtype != torch.bool or value is None:
            continue
        given = node.args[0]
        with graph.graph.inserting_before(node):
            for _ in range(given.meta["val"].dim() - mask.meta["val"].dim()):
                made = mask.meta["val"].unsqueeze(-1)
                mask = graph.graph.call_function(_aten.unsqueeze.default, (mask, -1))
                mask.meta["val"] = made
            filled = graph.graph.call_function(_aten.masked_fill.Scalar, (given, mask, value))
            filled.meta.update(node.meta)
        node.replace_all_uses_with(filled)
        graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()


def _number(graph: torch.fx.GraphModule, node: torch.fx.Node) -> int | float | bool | None:
    while node.target in (_aten.lift_fresh_copy.default, _aten.detach.default):
        node = node.args[0]
    if node.target is _aten.scalar_tensor.default:
        return node.args[0]
    value = getattr(graph, node.target, None) if node.op == "get_attr" else None
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else None
