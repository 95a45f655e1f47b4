"""What the exporter uses of PyTorch's tracers and PyTorch does not promise to keep: see pytorch.py."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import warnings
from collections.abc import Callable, Iterator

import torch
import torch._dynamo.config
import torch.distributions
import torch.fx.traceback
from torch import fx
from torch._dynamo import symbolic_convert
from torch._dynamo.functional_export import dynamo_graph_capture_for_export
from torch._dynamo.output_graph import OutputGraph, SubgraphTracer
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables import SymNodeVariable, TensorVariable, VariableTracker, misc, user_defined
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.ctx_manager import AutocastModeVariable
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensorConverter, unset_fake_temporarily
from torch.distributions import kl

__all__ = [
    "BYTECODE_TRANSLATORS", "TRACER_LOGS", "VariableTracker", "attributes_assigned", "calls_rewritten", "constant", "end_trace",
    "graph_finished", "joint_graph", "numbers_taken", "python_draws", "reset_tracer", "source_name", "storage_key", "trace_forward", "traced_input", "traced_node",
    "tracer_config", "value_of_function", "without_tracing",
]  # fmt: skip

# What the tracer runs bytecode with; the class attribute `dispatch_table` has a handler by opcode.
BYTECODE_TRANSLATORS = (
    symbolic_convert.InstructionTranslator,
    symbolic_convert.InliningInstructionTranslator,
    symbolic_convert.InliningGeneratorInstructionTranslator,
)
# The first logs failures that are raised too, the second that it cannot log tracer_config.
TRACER_LOGS = ("torch._subclasses.fake_tensor", "torch._dynamo.metrics_context")


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
    check = "_check_requires_grad_intermediate_outputs"
    checked = vars(OutputGraph).get(check)

    def requires_grad_(self, translator, requires_grad=True):
        wanted = requires_grad if isinstance(requires_grad, bool) else requires_grad.as_python_constant()
        if self.as_proxy().node.meta["example_value"].requires_grad != wanted:
            call = translator.output.create_proxy("call_method", "requires_grad_", (self.as_proxy(), wanted), {})
            self.proxy, self.requires_grad = wrap_fx_proxy(translator, call).proxy, wanted
        return self

    if checked:
        setattr(OutputGraph, check, lambda *args: None)
    options = {"trace_autograd_ops": True} if hasattr(torch._dynamo.config, "trace_autograd_ops") else {}
    try:
        with torch._dynamo.config.patch(**options), _methods(requires_grad_=requires_grad_):
            yield
    finally:
        if checked:
            setattr(OutputGraph, check, checked)


@contextlib.contextmanager
def _methods(**methods: Callable) -> Iterator[None]:
    """While this is entered, Dynamo traces these methods of tensors so."""
    before = {name: getattr(TensorVariable, f"method_{name}") for name in methods}
    listed = vars(TensorVariable).get("tp_methods")  # where 2.15 finds them
    try:
        for name, method in methods.items():
            setattr(TensorVariable, f"method_{name}", method)
        if listed:
            changed = {name: dataclasses.replace(listed[name], handler=method) for name, method in methods.items()}
            TensorVariable.tp_methods = listed | changed
        yield
    finally:
        for name, method in before.items():
            setattr(TensorVariable, f"method_{name}", method)
        if listed:
            TensorVariable.tp_methods = listed


@contextlib.contextmanager
def numbers_taken(take: Callable[..., VariableTracker | None]) -> Iterator[None]:
    """While this is entered, Dynamo calls this for `item` and `tolist` of a tensor, with the translator, the tensor and the
    method's name; int(), float() and bool() are `item` to it. None: Dynamo knows no number.
    """

    def taken(name: str) -> Callable:
        before = getattr(TensorVariable, f"method_{name}")

        def method(self, translator, *args, **kwargs):
            known = None if args or kwargs else take(translator, self, name)
            return known if known is not None else before(self, translator, *args, **kwargs)

        return method

    with _methods(item=taken("item"), tolist=taken("tolist")):
        yield


@contextlib.contextmanager
def calls_rewritten(rewrite: Callable[..., tuple[tuple, dict]]) -> Iterator[None]:
    """While this is entered, a call in Dynamo's graph has the arguments that this gives for the translator, the function or
    the method's name, and its arguments.
    """
    before = SubgraphTracer.create_proxy

    def create_proxy(self, kind, target, args, kwargs, *others, **options):
        if kind in ("call_function", "call_method"):
            args, kwargs = rewrite(self.output_graph.current_tx, target, args, kwargs)
        return before(self, kind, target, args, kwargs, *others, **options)

    SubgraphTracer.create_proxy = create_proxy
    try:
        yield
    finally:
        SubgraphTracer.create_proxy = before


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


@contextlib.contextmanager
def attributes_assigned(assign: Callable) -> Iterator[None]:
    """While this is entered, Dynamo calls this with the translator, the name of the attribute, the value, and what the attribute was
    before forward began (None: not known), for each that forward assigns to something which it has not made itself."""
    before = SideEffects.store_attr

    def store_attr(self, item, name, value, *others, **options):
        if item.source is not None:
            owner = getattr(item, "value", None)  # the object itself, which tracing leaves as it is
            assign(self.output_graph_weakref().current_tx, f"{item.source.name}.{name}", value, getattr(owner, name, None))
        return before(self, item, name, value, *others, **options)

    SideEffects.store_attr = store_attr
    try:
        yield
    finally:
        SideEffects.store_attr = before


@contextlib.contextmanager
def autocast_entered(change: Callable[[list], list]) -> Iterator[None]:
    """While this is entered, Dynamo calls this with what each torch.autocast is made of: type of device, type of elements,
    whether it is enabled and caches. What it returns is traced instead."""
    before = AutocastModeVariable.create

    def create(function, args, kwargs):
        made = before(function, args, kwargs)
        made.target_values = change(list(made.target_values))
        return made

    AutocastModeVariable.create = staticmethod(create)
    try:
        yield
    finally:
        AutocastModeVariable.create = staticmethod(before)


@contextlib.contextmanager
def graph_finished(look: Callable[[fx.Graph], None]) -> Iterator[None]:
    """While this is entered, Dynamo calls this for its graph, which it may change."""
    before = OutputGraph.call_user_compiler

    def call_user_compiler(self, graph, *others):
        look(graph.graph)
        graph.recompile()
        return before(self, graph, *others)

    OutputGraph.call_user_compiler = call_user_compiler
    try:
        yield
    finally:
        OutputGraph.call_user_compiler = before


def joint_graph(stack: contextlib.ExitStack, traced: fx.GraphModule, inputs: tuple) -> fx.GraphModule:
    """Forward and backward in one graph. `stack` must be closed before real tensors are touched."""
    stack.enter_context(tracing(traced.meta["tracing_context"]))
    stack.enter_context(torch.fx.traceback.preserve_node_meta())
    return aot_export_joint_with_descriptors(stack, traced, inputs)._aot_graph_capture.graph_module


def constant(translator, value: object) -> VariableTracker:
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


def source_name(placeholder: fx.Node) -> str:
    """Where forward finds the tensor that a placeholder of Dynamo's graph stands for, as L['self'].module.weight."""
    return placeholder.meta["grapharg"].source.name


def storage_key(tensor: torch.Tensor) -> int:
    """The same for tensors that share memory, fake ones too, and those in a transform of torch.func."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.untyped_storage()._cdata


@contextlib.contextmanager
def without_tracing() -> Iterator[None]:
    """Computes on real tensors inside of a trace."""
    with unset_fake_temporarily(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield
