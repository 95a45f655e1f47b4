"""Makes a traced graph mean the same whatever the strides of its values are.

Types say sizes, not strides, and compiled kernels, collectives and files keep no strides. Two kinds
of ops in a trace rely on them: a `view` that the strides of its operand allow, and `as_strided`,
which reads memory instead of elements.
"""

from __future__ import annotations

import torch

from cleave.export.errors import ExportError
from cleave.export.locations import place
from cleave.export.pytorch import detect_fake_mode, memory_order, pytree, suggest_memory_format

aten = torch.ops.aten


def _both(a: torch.Tensor, b: torch.Tensor):
    """Laid out like a pointwise kernel's result, whose first operand goes before the second."""
    return (torch.add(a, b),)


def _contiguous(*_):
    return (torch.contiguous_format,)


def _images(x: torch.Tensor, *_):
    """With channels last where the operand has them so, else contiguous."""
    return (suggest_memory_format(x),)


def _rolled(x: torch.Tensor, *_):
    """As claimed, unless channels are last."""
    return tuple(layout for layout in _images(x) if layout != torch.contiguous_format)


def _indexed(x: torch.Tensor, indices):
    """Laid out like the elements found, which kernels go through in an order that the indices decide, too."""
    indexed = [d for d, index in enumerate(indices) if index is not None]
    found = torch.broadcast_tensors(*(indices[d] for d in indexed))
    first, rank = indexed[0], found[0].dim()
    if indexed[-1] - first + 1 != len(indexed):
        x = x.permute(indexed + [d for d in range(x.dim()) if d not in indexed])
        first = 0
    last = first + len(indexed)
    size = [*x.shape[:first], *found[0].shape, *x.shape[last:]]
    source = x.as_strided(size, [*x.stride()[:first], *[0] * rank, *x.stride()[last:]])
    ones = [1] * len(x.shape[last:])
    found = [f.reshape([1] * first + list(f.shape) + ones).expand(size) for f in found]
    order, _ = memory_order(source, *found)
    return (x.new_empty([size[d] for d in order]).permute(_inverse(order)),)


# The fake kernels of these, with which one traces, are decompositions, and give results other strides than the
# kernels do: those of another operand, mostly. Each with the layouts of its first results, as tensors or formats.
# test/python/test_fake_strides.py finds what belongs here.
LAYOUTS = {
    aten._log_softmax_backward_data.default: _contiguous,
    aten._native_batch_norm_legit.no_stats: _images,
    aten._native_batch_norm_legit_functional.default: _images,
    aten._native_batch_norm_legit_no_training.default: _images,
    aten._weight_norm_interface.default: _contiguous,
    aten.elu_backward.default: lambda g, alpha, scale, input_scale, is_result, x: _both(g, x),
    aten.hardsigmoid_backward.default: _both,
    aten.hardswish_backward.default: _both,
    aten.hardtanh_backward.default: lambda g, x, low, high: _both(g, x),
    aten.huber_loss_backward.default: _contiguous,
    aten.index.Tensor: _indexed,
    aten.log_sigmoid_forward.default: lambda x: _contiguous() * 2,
    aten.logit_backward.default: lambda g, x, *_: _both(g, x),
    aten.mse_loss_backward.default: _contiguous,
    aten.native_batch_norm.default: _images,
    aten.native_batch_norm_backward.default: lambda g, x, *_: _images(x),
    aten.native_dropout_backward.default: lambda g, mask, scale: _both(g, mask),
    aten.native_group_norm_backward.default: lambda g, x, *_: _images(x),
    aten.native_layer_norm_backward.default: _contiguous,
    aten.reflection_pad2d.default: _images,
    aten.reflection_pad2d_backward.default: lambda g, x, padding: _images(x),
    aten.replication_pad2d.default: _images,
    aten.replication_pad2d_backward.default: lambda g, x, padding: _images(x),
    aten.roll.default: _rolled,
    aten.smooth_l1_loss_backward.default: _contiguous,
    aten.softplus_backward.default: lambda g, x, beta, threshold: _both(g, x),
    aten.xlogy.Tensor: _both,
}


def settle_strides(graph: torch.fx.Graph):
    """Replaces views that are not possible on real strides, and `as_strided`.

    Where the fake kernels' strides are wrong, autograd has chosen a view where eager mode copies.
    Values get the strides that kernels give them, in `meta["val"]`, and the view becomes a copy.
    """
    changed: set[torch.fx.Node] = set()
    _value_constants(graph)
    _resolve_marks(graph, changed)
    for node in list(graph.nodes):
        if node.target in LAYOUTS or node in changed or not changed.isdisjoint(node.all_input_nodes):
            _settle(graph, node, changed)
    for node in list(graph.nodes):
        if node.target in (aten.as_strided.default, aten.as_strided_scatter.default):
            _Strided(graph, node).rewrite()


# Views that only mark what they show, for kernels to find, and what computes it.
_MARKS = {aten._conj.default: aten.conj_physical.default, aten._neg_view.default: aten.neg.default}


def _resolve_marks(graph: torch.fx.Graph, changed: set[torch.fx.Node]):
    """Programs, whose values are sent, stored and read by compiled kernels, have no marks: conjugates are computed
    where PyTorch notes that they are to be."""
    for node in list(graph.nodes):
        if node.target not in _MARKS:
            continue
        operand = node.args[0]
        if isinstance(operand, (int, float, complex)):  # a number of the source, in the backward
            value = operand.conjugate() if node.target is aten._conj.default else -operand
            node.replace_all_uses_with(value)
            graph.erase_node(node)
            continue
        node.target = _MARKS[node.target]
        changed.add(node)


def _value_constants(graph: torch.fx.Graph):
    """Gives constants the fake values that other nodes have."""
    nodes = [node for node in graph.nodes if node.op != "get_attr"]
    mode = detect_fake_mode([node.meta.get("val") for node in nodes])
    for node in graph.nodes:
        value = getattr(graph.owning_module, node.target, None) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor) and mode is not None:
            node.meta.setdefault("val", mode.from_tensor(value))


def _settle(graph: torch.fx.Graph, node: torch.fx.Node, changed: set[torch.fx.Node]):
    """Computes a node's value again, from operands whose strides are settled."""
    if node.op != "call_function" or _has_dynamic_shape(node.meta["val"]):
        return
    args, kwargs = pytree.tree_map_only(
        torch.fx.Node, lambda operand: operand.meta["val"], (node.args, node.kwargs)
    )
    if node.target is aten.view.default and not _is_viewable(*args):
        steps = _Steps(graph, node)
        steps.replace(steps.reshaped(node.args[0], node.args[1]))
        return
    value = node.target(*args, **kwargs)
    if node.target in LAYOUTS:
        value = with_layouts(node.target, args, value)
    if not _has_strides_of(value, node.meta["val"]):
        node.meta["val"] = value
        changed.add(node)


def with_layouts(target, args, value):
    """What a fake kernel of LAYOUTS gives, with the strides that the kernel gives it."""
    layouts = LAYOUTS[target](*args)
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    for i, layout in enumerate(layouts):
        if values[i] is None:
            continue
        if isinstance(layout, torch.memory_format):
            values[i] = torch.empty_like(values[i], memory_format=layout)
        else:
            values[i] = torch.empty_like(layout, dtype=values[i].dtype)
    return type(value)(values) if isinstance(value, (tuple, list)) else values[0]


def _is_viewable(value: torch.Tensor, size) -> bool:
    try:
        value.view(size)
    except (RuntimeError, ValueError):  # fake tensors raise the second
        return False
    return True


def _has_dynamic_shape(value) -> bool:
    """Whether sizes depend on data: such a node is refused later, by what made it."""
    return any(
        not all(isinstance(size, int) for size in x.shape)
        for x in pytree.tree_leaves(value)
        if isinstance(x, torch.Tensor)
    )


def _has_strides_of(a, b) -> bool:
    return all(
        not isinstance(x, torch.Tensor)
        or (x.stride() == y.stride() and x.is_conj() == y.is_conj() and x.is_neg() == y.is_neg())
        for x, y in zip(pytree.tree_leaves(a), pytree.tree_leaves(b), strict=True)
    )


class _Steps:
    """Makes nodes in a node's place."""

    def __init__(self, graph: torch.fx.Graph, node: torch.fx.Node):
        self._graph, self._node = graph, node

    def call(self, target, *args, **kwargs) -> torch.fx.Node:
        with self._graph.inserting_before(self._node):
            made = self._graph.call_function(target, args, kwargs)
        made.meta = dict(self._node.meta)
        values = pytree.tree_map_only(torch.fx.Node, lambda n: n.meta["val"], (args, kwargs))
        made.meta["val"] = target(*values[0], **values[1])
        return made

    def reshaped(self, source: torch.fx.Node, size) -> torch.fx.Node:
        """As `reshape` does it: a view where that is possible, else a copy."""
        if list(source.meta["val"].shape) == list(size):
            return source
        if _is_viewable(source.meta["val"], size):
            return self.call(aten.view.default, source, list(size))
        copy = self.call(aten.clone.default, source, memory_format=torch.contiguous_format)
        return self.call(aten._unsafe_view.default, copy, list(size))

    def permuted(self, source: torch.fx.Node, order: list[int]) -> torch.fx.Node:
        if order == list(range(len(order))):
            return source
        return self.call(aten.permute.default, source, order)

    def replace(self, result: torch.fx.Node):
        self._node.replace_all_uses_with(result)
        self._graph.erase_node(self._node)


class _Strided:
    """An `as_strided`, or the scatter that is its backward.

    Where it shows all elements in another shape or order, it is views. Else its operand gets its
    dimensions in the order of memory, since in programs `as_strided` counts elements in row-major
    order.
    """

    def __init__(self, graph: torch.fx.Graph, node: torch.fx.Node):
        self._steps, self._node = _Steps(graph, node), node
        arguments = list(node.args) + [None] * 5
        self._is_scatter = node.target is aten.as_strided_scatter.default
        self._self = arguments.pop(0)
        self._src = arguments.pop(0) if self._is_scatter else None
        given = dict(zip(("size", "stride", "storage_offset"), arguments)) | dict(node.kwargs)
        self._size, self._stride = list(given["size"]), list(given["stride"])
        value = self._self.meta["val"]
        offset = given["storage_offset"]
        self._offset = 0 if offset is None else offset - value.storage_offset()
        self._order = _memory_order(value.shape, value.stride())

    def rewrite(self):
        steps, order = self._steps, self._order
        value = self._self.meta["val"]
        shown = _memory_order(self._size, self._stride)
        last = self._offset + sum((n - 1) * s for n, s in zip(self._size, self._stride))
        if order is None or self._offset < 0 or last >= value.numel():
            raise ExportError(
                f"cannot export 'aten::as_strided'{place(self._node)}: found an operand of "
                f"shape {tuple(value.shape)} and strides {value.stride()}; expected all that is read "
                "to be elements of a tensor without gaps: call contiguous() on it first"
            )
        sizes = [value.shape[d] for d in order]
        if shown is None or self._offset or last != value.numel() - 1:
            operands = [steps.permuted(self._self, order)] + [self._src] * self._is_scatter
            operands += [self._size, self._stride, self._offset]
            result = steps.call(self._node.target, *operands)
            steps.replace(steps.permuted(result, _inverse(order)) if self._is_scatter else result)
        elif self._is_scatter:
            flat = steps.permuted(self._src, shown)
            if not flat.meta["val"].is_contiguous():
                flat = steps.call(aten.clone.default, flat, memory_format=torch.contiguous_format)
            steps.replace(steps.permuted(steps.reshaped(flat, sizes), _inverse(order)))
        else:
            flat = steps.permuted(self._self, order)
            flat = steps.reshaped(flat, [self._size[d] for d in shown])
            steps.replace(steps.permuted(flat, _inverse(shown)))


def _memory_order(size, stride) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost; None if elements leave gaps or
    share memory."""
    order = sorted(range(len(size)), key=lambda d: (-stride[d], d))
    expected = 1
    for d in reversed(order):
        if size[d] != 1:
            if stride[d] != expected:
                return None
            expected *= size[d]
    return order


def _inverse(order: list[int]) -> list[int]:
    return [order.index(d) for d in range(len(order))]
