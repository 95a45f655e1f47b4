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
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables import SymNodeVariable, TensorVariable, VariableTracker, misc, user_defined
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensorConverter, unset_fake_temporarily
from torch.distributions import kl

__all__ = [
    "BYTECODE_TRANSLATORS", "TRACER_LOGS", "VariableTracker", "constant", "end_trace", "joint_graph", "python_draws",
    "reset_tracer", "trace_forward", "traced_input", "traced_node", "tracer_config", "value_of_function", "without_tracing",
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
