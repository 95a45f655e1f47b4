"""Everything of PyTorch that the exporter uses and PyTorch does not promise to keep.

No other module of the package names anything private of `torch` (a test sees to that), so what a new version changes is
changed here. docs/install.md lists the versions that were tried.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
import torch._dynamo.config
import torch.distributions
import torch.fx.traceback
from torch import fx
from torch._dynamo import symbolic_convert
from torch._dynamo.functional_export import dynamo_graph_capture_for_export
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables import SymNodeVariable, TensorVariable, VariableTracker, misc, user_defined
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._functorch._aot_autograd import descriptors
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._functorch.autograd_function import autograd_function_apply
from torch._guards import detect_fake_mode, tracing
from torch._ops import OpOverload
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm as memory_order
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_impls import op_implementations_dict as FAKE_KERNELS
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter, FakeTensorMode, unset_fake_temporarily
from torch.distributions import kl
from torch.fx import node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "BYTECODE_TRANSLATORS", "CUSTOM_FUNCTION", "FAKE_KERNELS", "KEPT_WHERE_UNUSED", "SET_GRAD_ENABLED", "TRACER_LOGS",
    "DispatchKey", "FakeTensor", "FakeTensorMode", "OpOverload", "TorchDispatchMode", "VariableTracker",
    "aot_backend", "asks_for_dynamic_shapes", "count_gradient_hooks", "demanded_symbol", "descriptors", "detect_fake_mode",
    "dtensor_spec", "erase_assertions",
    "erase_unused_numbers", "extract_parts", "grouped_mm", "has_python_kernel", "joint_graph", "joint_results",
    "make_static", "memory_order", "min_cut_partition", "note_optimizer_step", "part_of_step", "partitioner_class",
    "python_draws", "pytree", "python_kernels", "record_call", "registered_sharding", "reset_tracer",
    "run_kernel", "save_all_partition", "scheduler_parts", "schemas", "suggest_memory_format", "trace_forward", "traced_node",
    "traced_input", "tracer_config", "unset_fake_temporarily",
    "value_of_function", "without_forward_draws", "without_onednn", "without_tracing",
]  # fmt: skip

_ASSERTIONS = {getattr(torch.ops.aten._assert_async, name) for name in torch.ops.aten._assert_async.overloads()}
# Calls that passes over graphs never erase.
KEPT_WHERE_UNUSED = node._side_effectful_functions
# A torch.autograd.Function in Dynamo's graph: its first argument is the graph of its forward.
CUSTOM_FUNCTION = autograd_function_apply
DispatchKey = torch._C.DispatchKey
grouped_mm = torch._grouped_mm
SET_GRAD_ENABLED = torch._C._set_grad_enabled
# What the tracer runs bytecode with; the class attribute `dispatch_table` has a handler by opcode.
BYTECODE_TRANSLATORS = (
    symbolic_convert.InstructionTranslator,
    symbolic_convert.InliningInstructionTranslator,
    symbolic_convert.InliningGeneratorInstructionTranslator,
)
# The first logs failures that are raised too, the second that it cannot log tracer_config.
TRACER_LOGS = ("torch._subclasses.fake_tensor", "torch._dynamo.metrics_context")


def scheduler_parts(scheduler: torch.optim.lr_scheduler.LRScheduler) -> tuple[list, list[int]]:
    """The schedulers that SequentialLR or ChainedScheduler is made of, and where one takes over from the last."""
    return getattr(scheduler, "_schedulers", []), getattr(scheduler, "_milestones", [])


def schemas() -> list:
    """Of all operators that are registered."""
    return torch._C._jit_get_all_schemas()


def process_group_size(name: str) -> int:
    """Number of ranks of the process group that collectives of a graph know by this name."""
    return torch.distributed.distributed_c10d._resolve_process_group(name).size()


# Tracing: the forward as Dynamo sees it, then with its backward as calls of the dispatcher.


def reset_tracer(namespace: dict):
    """Forgets what was traced. namespace: of the module that has the traced function.

    Dynamo puts what it compiled there, which nobody calls here, and which holds all parameters.
    """
    torch._dynamo.reset()
    for name in [name for name in namespace if name.startswith("__compiled_fn_")]:
        del namespace[name]


def tracer_config(**settings):
    return torch._dynamo.config.patch(**settings)


def trace_forward(module: torch.nn.Module, inputs: tuple) -> fx.GraphModule:
    _choose_divergences()
    with _numbers_unknown(), _unvalidated_distributions(), _sizes_by_python(), _gradients_in_forward():
        return dynamo_graph_capture_for_export(module)(*inputs)


@contextlib.contextmanager
def _numbers_unknown() -> Iterator[None]:
    """A number taken from an input or a buffer is a number that the trace does not know.

    PyTorch takes the value at hand for those of 0-d tensors of integers and float64, guards it, and drops the guard.
    """
    before = FakeTensorConverter.__init__

    def init(self, **options):
        before(self, **options | {"export": True})

    FakeTensorConverter.__init__ = init
    try:
        yield
    finally:
        FakeTensorConverter.__init__ = before


@contextlib.contextmanager
def _unvalidated_distributions() -> Iterator[None]:
    """What torch.distributions checks of arguments depends on data; torch.compile leaves it out, too."""
    distribution = torch.distributions.Distribution
    before = distribution._validate_args
    distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        distribution.set_default_validate_args(before)


@contextlib.contextmanager
def _sizes_by_python() -> Iterator[None]:
    """Divergences of Gaussians broadcast sizes by a function in C++ that takes no size of Dynamo's."""
    before = torch._C._infer_size
    torch._C._infer_size = lambda first, second: torch.broadcast_shapes(first, second)
    try:
        yield
    finally:
        torch._C._infer_size = before


@contextlib.contextmanager
def _gradients_in_forward() -> Iterator[None]:
    """What forward differentiates by itself (gradient penalties, forces) is traced: torch.autograd.grad, and
    `requires_grad_` of what it computes. PyTorch 2.11 refuses that; 2.15 does where a result is made of it, for fear that its
    gradient is lost, which here is in the same graph.
    """
    before = TensorVariable.method_requires_grad_
    listed = vars(TensorVariable).get("tp_methods")  # where 2.15 finds its methods
    check = "_check_requires_grad_intermediate_outputs"
    checked = vars(OutputGraph).get(check)

    def requires_grad_(self, translator, requires_grad=True):
        wanted = requires_grad if isinstance(requires_grad, bool) else requires_grad.as_python_constant()
        if self.as_proxy().node.meta["example_value"].requires_grad != wanted:
            call = translator.output.create_proxy("call_method", "requires_grad_", (self.as_proxy(), wanted), {})
            self.proxy, self.requires_grad = wrap_fx_proxy(translator, call).proxy, wanted
        return self

    TensorVariable.method_requires_grad_ = requires_grad_
    if listed:
        method = dataclasses.replace(listed["requires_grad_"], handler=requires_grad_)
        TensorVariable.tp_methods = {**listed, "requires_grad_": method}
    if checked:
        setattr(OutputGraph, check, lambda *args: None)
    options = {"trace_autograd_ops": True} if hasattr(torch._dynamo.config, "trace_autograd_ops") else {}
    try:
        with torch._dynamo.config.patch(**options):
            yield
    finally:
        TensorVariable.method_requires_grad_ = before
        if listed:
            TensorVariable.tp_methods = listed
        if checked:
            setattr(OutputGraph, check, checked)


def _choose_divergences():
    """Fills the table in which kl_divergence keeps what it has chosen for two classes: Dynamo traces no choice.

    A function that is registered later empties the table.
    """
    chosen = kl._KL_MEMOIZE
    classes = list(_subclasses(torch.distributions.Distribution))
    with warnings.catch_warnings(action="ignore"):  # of a choice that is ambiguous
        for pair in itertools.product(classes, classes):
            if pair not in chosen and (function := kl._dispatch_kl(*pair)) is not NotImplemented:
                chosen[pair] = function


def _subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


@contextlib.contextmanager
def python_draws(draw: Callable[..., VariableTracker]) -> Iterator[None]:
    """While this is entered, Dynamo calls this for a number of Python's `random`, with the translator, the function and its
    arguments. Without, it draws one, a constant of the program.
    """
    modules = (user_defined, misc)
    before = user_defined.call_random_fn
    try:
        for module in modules:
            module.call_random_fn = lambda translator, function, args, kwargs, *_: draw(translator, function, args, kwargs)
        yield
    finally:
        for module in modules:
            module.call_random_fn = before


def value_of_function(translator, function: Callable) -> VariableTracker:
    """What the function returns, traced."""
    return VariableTracker.build(translator, function).call_function(translator, [], {})


# Ends the trace with a message at the statement being traced: called by what traces and by what is traced.
end_trace = torch._dynamo.graph_break


def joint_graph(stack: contextlib.ExitStack, traced: fx.GraphModule, inputs: tuple) -> fx.GraphModule:
    """Forward and backward in one graph. `stack` must be closed before real tensors are touched."""
    stack.enter_context(tracing(traced.meta["tracing_context"]))
    stack.enter_context(torch.fx.traceback.preserve_node_meta())
    return aot_export_joint_with_descriptors(stack, traced, inputs)._aot_graph_capture.graph_module


def constant(translator, value: bool) -> VariableTracker:
    """A value that Dynamo knows."""
    return VariableTracker.build(translator, value)


def traced_node(value: VariableTracker) -> fx.Node | None:
    """The call that computes a tensor, or a number taken from one; None for all other values."""
    if not value.is_tensor() and not isinstance(value, SymNodeVariable):
        return None
    return value.as_proxy().node


def traced_input(placeholder: fx.Node) -> torch.Tensor | None:
    """The tensor that a placeholder of Dynamo's graph stands for: of the caller, the module or anything it reaches."""
    argument = placeholder.meta.get("grapharg")
    value = argument.example if argument is not None else None
    return value if isinstance(value, torch.Tensor) else None


@contextlib.contextmanager
def without_tracing() -> Iterator[None]:
    """Computes on real tensors inside of a trace."""
    with unset_fake_temporarily(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def part_of_step(call: fx.Node) -> str | None:
    """`forward` or `backward`; None where the tracer did not say."""
    return (call.meta.get("partitioner_tag") or "").removeprefix("is_") or None


def erase_assertions(graph: fx.Graph) -> list[str]:
    """Takes out the checks of values, with what only they use; returns what they say, or their statement.

    PyTorch 2.15 traces those of its own functions too (torch.nn.functional.one_hot's); 2.11 does not.
    """
    said = []
    for call in list(graph.nodes):
        if call.target in _ASSERTIONS:
            said.append(call.args[1] if len(call.args) > 1 else "")
            _erase_with_operands(graph, call)
        elif call.target is torch.ops.aten._assert_scalar.default and not _checks_flag(call):
            said.append(_statement(call))
            _erase_with_operands(graph, call)
    return said


def erase_unused_numbers(graph: fx.Graph):
    """Takes out numbers taken from tensors that nothing uses, as those of branches that were decided.

    PyTorch 2.11 does so itself, 2.15 does not, and checks of a flag that it is 0 or 1.
    """
    for call in list(graph.nodes):
        if call.target is torch.ops.aten._assert_scalar.default and _checks_flag(call):
            _erase_with_operands(graph, call)
    for call in list(graph.nodes):
        if call.target is torch.ops.aten._local_scalar_dense.default and not call.users:
            _erase_with_operands(graph, call)


def _checks_flag(assertion: fx.Node) -> bool:
    """Whether an assertion of a number is PyTorch's own, that a flag is 0 or 1."""
    condition = assertion.args[0]
    return isinstance(condition, fx.Node) and getattr(condition.args[0], "target", None) is torch.sym_ite


def _statement(assertion: fx.Node) -> str:
    """The Python statement that asserts; that of a number which it compares where it has none itself."""
    calls = [assertion]
    while calls:
        call = calls.pop(0)
        lines = [line.strip() for line in (call.meta.get("stack_trace") or "").splitlines()]
        if lines := [line for line in lines if line.strip("~^")]:  # some versions underline what is computed
            return lines[-1]
        calls += call.all_input_nodes
    return ""


def _erase_with_operands(graph: fx.Graph, call: fx.Node):
    """Erases a call, and what only it used."""
    unused = [call]
    while unused:
        erased = unused.pop()
        operands = erased.all_input_nodes
        graph.erase_node(erased)
        unused += [n for n in operands if not n.users and n.op == "call_function" and not n.is_impure()]


# Kernels of operators.


def has_python_kernel(overload: OpOverload, keys: tuple[str, ...]) -> bool:
    """Whether a library's operator has a kernel that torch.library registered, under one of these keys."""
    name = overload._name.replace("::", "/")
    return not torch.library._impls.isdisjoint(f"{name}/{key}" for key in keys)


@contextlib.contextmanager
def python_kernels(kernels: dict[OpOverload, dict]) -> Iterator[None]:
    """While this is entered, the operators have these kernels in Python by dispatch key; None: none under that key."""
    kept = [(overload, dict(overload.py_kernels)) for overload in kernels]
    try:
        for overload, changes in kernels.items():
            overload.py_kernels.update(changes)
            for key in [key for key, kernel in changes.items() if kernel is None]:
                del overload.py_kernels[key]
            overload._dispatch_cache.clear()
        yield
    finally:
        for overload, before in kept:
            overload.py_kernels.clear()
            overload.py_kernels.update(before)
            overload._dispatch_cache.clear()


def run_kernel(overload: OpOverload, key, *args, **kwargs):
    """The operator's kernel in C++ under this key."""
    return overload._op_dk(key, *args, **kwargs)


@contextlib.contextmanager
def without_onednn() -> Iterator[None]:
    """torch.backends.mkldnn.flags sets TF32 too, and warns that it does."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def record_call(overload: OpOverload, *args, **kwargs):
    """Has the tracer record a call of the operator, below autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return run_kernel(overload, DispatchKey.Python, *args, **kwargs)


# Shardings of operators, for torch.distributed.tensor, which is imported only where it is in use.


def registered_sharding(overload: OpOverload) -> Callable | None:
    """The function given to register_sharding, which keeps it in a partial of one of its own."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None:
        return None
    strategy = module.DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs.get(overload)
    if isinstance(strategy, functools.partial) and "register_sharding" in strategy.func.__qualname__:
        return strategy.args[0]
    return None


def dtensor_spec(tensor: torch.Tensor) -> object:
    """What that function is called with in place of a tensor."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    return DTensorSpec(None, (Replicate(),), TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))


def note_optimizer_step(optimizer: torch.optim.Optimizer) -> None:
    """Tells learning-rate schedulers that the optimizer has taken its step, which they would miss otherwise."""
    optimizer._opt_called = True


def step_hooks(optimizer: torch.optim.Optimizer) -> tuple[list[Callable], list[Callable]]:
    """What runs before and after each of the optimizer's steps."""
    return list(optimizer._optimizer_step_pre_hooks.values()), list(optimizer._optimizer_step_post_hooks.values())


def hook_tables(module: torch.nn.Module) -> list[Mapping]:
    """Where a module's hooks stand."""
    return [module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks]


def count_gradient_hooks(parameter: torch.Tensor) -> int:
    return len(parameter._backward_hooks or ()) + len(parameter._post_accumulate_grad_hooks or ())


# Back ends of torch.compile.


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
