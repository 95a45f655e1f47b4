"""What `torch.compile`'s back ends use of PyTorch and PyTorch does not promise to keep: see pytorch.py."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Sequence

import torch
import torch._dynamo.config
from torch import fx

from cleave.export.pytorch import detect_fake_mode, part_of_step

__all__ = [
    "aot_backend", "asks_for_dynamic_shapes", "demanded_symbol", "extract_parts", "joint_results", "make_static",
    "mend_masked_constants", "min_cut_partition", "partitioner_class", "save_all_partition", "without_forward_draws",
]  # fmt: skip


def aot_backend(graph: fx.GraphModule, inputs: Sequence, *, forward, backward, inference, partition) -> Callable:
    """What runs in the place of a graph of Dynamo's: AOT Autograd with these compilers of its graphs."""
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(
        fw_compiler=forward, bw_compiler=backward, inference_compiler=inference, partition_fn=partition
    )
    return compiler(graph, inputs)


def save_all_partition(joint: fx.GraphModule, inputs: Sequence, **options) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Forward and backward as eager mode has them.

    What is drawn in a checkpointed region is saved: recomputing would set the generator back, which no program does, and
    draw the same.
    """
    from torch._functorch.partitioners import default_partition
    from torch.utils.checkpoint import CheckpointPolicy

    for node in joint.graph.nodes:
        if "recompute" in node.meta and _may_draw(node):
            for each in (node, *(user for user in node.users if user.target is operator.getitem)):
                each.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return default_partition(joint, inputs, **options)


def without_forward_draws(
    partition: Callable[..., tuple[fx.GraphModule, fx.GraphModule]],
) -> Callable[..., tuple[fx.GraphModule, fx.GraphModule]]:
    """The partition, where numbers that nothing uses are drawn: those of a forward not in the backward once more."""

    def is_kept(node: fx.Node) -> bool:
        return node.is_impure() and not (_may_draw(node) and part_of_step(node) == "forward")

    def parts(*args, **options) -> tuple[fx.GraphModule, fx.GraphModule]:
        forward, backward = partition(*args, **options)
        backward.graph.eliminate_dead_code(is_kept)
        backward.recompile()
        return forward, backward

    return parts


def _may_draw(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def asks_for_dynamic_shapes() -> bool:
    """Whether the call of torch.compile being compiled has `dynamic=True`."""
    return not torch._dynamo.config.assume_static_by_default


def demanded_symbol(inputs: Sequence) -> str | None:
    """A dimension that mark_dynamic or mark_unbacked forbids to make static; None: there is none."""
    mode = detect_fake_mode(inputs)
    for tracked in getattr(mode and mode.shape_env, "tracked_fakes", None) or ():
        context = tracked.symbolic_context
        kinds = getattr(context, "dynamic_sizes", ())
        for dimension, (kind, bound) in enumerate(zip(kinds, getattr(context, "constraint_sizes", ()))):
            # Sizes that Dynamo has seen change have a bound that only warns.
            if (bound is not None and not bound.warn_only) or kind.name == "UNBACKED":
                return f"dimension {dimension} of {tracked.source.name}"
    return None


def make_static(graph: fx.GraphModule, inputs: Sequence) -> tuple[fx.GraphModule, list, list[int] | None]:
    """The graph for the sizes that its inputs have now: asking for them makes Dynamo guard them, and compile again for
    others. Returns the graph, the inputs that it then takes, and which of the old ones these are (None: all).
    """
    if not any(_is_symbolic(value) for value in inputs):
        return graph, list(inputs), None
    graph = fx.GraphModule(graph, copy.deepcopy(graph.graph))  # Dynamo calls what it gets by its own
    static, kept = [], []
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for place, (node, value) in enumerate(zip(placeholders, inputs, strict=True)):
        if number := _NUMBERS.get(type(value)):
            constant = functools.partial(lambda old, new, each: new if each is old else each, node, number(value))
            for user in list(node.users):
                user.args, user.kwargs = fx.map_arg((user.args, user.kwargs), constant)
            graph.graph.erase_node(node)
            continue
        static.append(_with_static_sizes(value) if _is_symbolic(value) else value)
        kept.append(place)
    graph.recompile()
    return graph, static, kept


def _is_symbolic(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        numbers = (*value.shape, *value.stride(), value.storage_offset())
        return any(isinstance(number, torch.SymInt) for number in numbers)
    return type(value) in _NUMBERS


_NUMBERS = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def _with_static_sizes(value: torch.Tensor) -> torch.Tensor:
    """A fake tensor over the same memory, so that what shares it is still seen."""
    mode = detect_fake_mode(value)
    with mode, torch.no_grad():
        sizes, strides = [int(size) for size in value.shape], [int(stride) for stride in value.stride()]
        static = torch.empty((0,), dtype=value.dtype, device=value.device)
        static.set_(value.untyped_storage(), int(value.storage_offset()), sizes, strides)
    return static.requires_grad_(value.requires_grad)


# Partitioners: what of a joint graph is forward, what backward.


def joint_results(joint: fx.GraphModule, num_forward: int) -> tuple[list, list]:
    """The results of the forward, and the gradients of the arguments in their order."""
    from torch._functorch.partitioners import _extract_fwd_bwd_outputs

    forward, backward, *_ = _extract_fwd_bwd_outputs(joint, num_fwd_outputs=num_forward)
    return forward, backward


def min_cut_partition(joint: fx.GraphModule, inputs: Sequence, **options) -> tuple[fx.GraphModule, fx.GraphModule]:
    """PyTorch's own."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return min_cut_rematerialization_partition(joint, inputs, **options)


def extract_parts(
    joint: fx.GraphModule, saved: list[fx.Node], num_forward: int, static_inputs: Sequence[int]
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Forward and backward with these saved values; the backward in the order of an autograd engine."""
    from torch._functorch import partitioners

    primals = [node for node in joint.graph.nodes if partitioners._is_primal(node)]
    forward, backward = partitioners._extract_fwd_bwd_modules(
        joint, list(saved), saved_sym_nodes=[], num_fwd_outputs=num_forward,
        static_lifetime_input_nodes=partitioners.OrderedSet(primals[place] for place in static_inputs),
    )  # fmt: skip
    backward = partitioners.reordering_to_mimic_autograd_engine(backward)
    return partitioners.raise_getitems(forward), partitioners.raise_getitems(backward)


def partitioner_class() -> type:
    """Of which Inductor's setting `custom_partitioner_fn` takes instances."""
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    return CustomPartitionerFn


@functools.cache
def mend_masked_constants() -> None:
    """Has Inductor's C++ back end remember which values are scalars.

    PyTorch 2.11 marks what the body of a mask gives as a vector. A constant that was there before stays the scalar that it is,
    and code that takes it for a vector afterwards (`decltype(0.0f)::blendv`) is rejected by the C++ compiler.
    """
    from torch._inductor.codegen.cpp import CppVecOverrides

    generate = CppVecOverrides.masked

    def masked(mask, body, other):
        given = []

        def note():
            result = body()
            given.append((result, result.is_vec))
            return result

        made = generate(mask, note, other)
        for result, is_vec in given:
            result.is_vec = is_vec
        return made

    CppVecOverrides.masked = staticmethod(masked)
