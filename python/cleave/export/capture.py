"""Traces a module, its loss and their backward into one FX graph of dispatcher calls."""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import logging
import os
import re
import warnings

import torch
from torch import nn

from cleave.export.autocast import autocast_of_cpu, refuse_autocast
from cleave.export.branches import Branches
from cleave.export.constant_numbers import constant_numbers
from cleave.export.constants import Constants
from cleave.export.custom_functions import connect_results
from cleave.export.errors import ExportError
from cleave.export.fake_kernels import STATIC_COUNTS, fake_kernels
from cleave.export.gradient_cuts import refuse_hooks, show_gradient_cuts
from cleave.export.held_tensors import HeldTensors
from cleave.export.inputs import Signature
from cleave.export.locations import frames, is_exporter, is_library, place
from cleave.export.operators import CHANGES_ARGUMENT, COLLECTIVE, NUMBER_OF_TENSOR
from cleave.export.outside_draws import outside_draws, refusal, refuse_uses
from cleave.export.parameter_hooks import add_parameter_hooks, parameter_hooks
from cleave.export.patches import patched
from cleave.export.paths import short_path
from cleave.export.pytorch import erase_assertions, erase_unused_numbers, pytree
from cleave.export.pytorch_tracing import TRACER_LOGS, joint_graph, reset_tracer, trace_forward, tracer_config
from cleave.export.random_ops import spell_out_normals, unused_draws_kept
from cleave.export.spec import ExportSpec
from cleave.export.strides import settle_strides
from cleave.export.text import STATIC_SIZES
from cleave.export.traced_functions import functions_of_data
from cleave.export.weightless import with_stand_ins
from cleave.export.whole_operators import operators_kept_whole

BRANCH_ON_DATA = (
    "the branch depends on data; expected one that constants decide: omit the input that it asks about (a mask), "
    "or make it in forward (buffers are data, too)"
)


@dataclasses.dataclass
class Capture:
    """graph: FX graph whose placeholders and outputs carry descriptors in `meta["desc"]`.
    signature: the inputs, which `PlainAOTInput(i)` counts.
    returns_loss: whether output 0 is the loss.
    notes: what its user should know of how it was traced.
    """

    graph: torch.fx.GraphModule
    signature: Signature
    returns_loss: bool
    checkpointed: bool
    notes: list[str]


class _Step(nn.Module):
    """What is traced: input tensors to the loss (with `returns_loss`) and the outputs' tensors."""

    def __init__(self, spec: ExportSpec, signature: Signature):
        super().__init__()
        self.module = spec.module
        if isinstance(spec.loss, nn.Module):
            self.loss = spec.loss
        else:
            self.loss_function = spec.loss
        self._has_module_loss = isinstance(spec.loss, nn.Module)
        self._signature = signature
        self._mode = spec.mode
        self._returns_outputs = spec.returns_outputs
        # Module.__init__ starts in training mode; leave the traced module as it stands.
        self.training = spec.module.training

    def forward(self, *tensors):
        args, kwargs = self._signature.arguments(tensors)
        outputs = self.module(*args, **kwargs)
        if self._mode == "forward":
            return tensor_leaves(outputs)
        if self._has_module_loss:
            loss = self.loss(outputs, *self._signature.targets(tensors))
        elif self.loss_function is not None:
            loss = self.loss_function(outputs, *self._signature.targets(tensors))
        else:
            loss = own_loss(outputs)
        if not isinstance(loss, torch.Tensor):
            raise NotATensor
        rest = [output for output in tensor_leaves(outputs) if output is not loss]
        if self._mode == "joint":
            # Backward begins from the loss alone.
            return (loss, *(output.detach() for output in rest)) if self._returns_outputs else (loss,)
        return (loss, *rest)


def tensor_leaves(outputs):
    """The tensors among a forward's results, in order."""
    return tuple(leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor))


class NoLoss(Exception):
    """A module that is exported with a loss of its own returns none."""


class NotATensor(Exception):
    """A loss function has returned something else."""


def own_loss(outputs):
    """The loss that a module returns by itself: a 0-d tensor, or "loss" of a mapping or object."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    loss = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if loss is None:
        raise NoLoss
    return loss


def capture(spec: ExportSpec) -> Capture:
    """Traces `spec`; raises ExportError for what cannot be traced."""
    signature = Signature(spec)
    step = _Step(spec, signature)
    tensors = tuple(i.value for i in signature.inputs)
    grad_mode = torch.enable_grad() if spec.mode == "joint" else torch.no_grad()
    constants, notes = Constants([*tensors, *step.parameters(), *step.buffers()]), []
    branches = Branches(constants)
    trained = {name.removeprefix("module."): p for name, p in step.named_parameters() if p.requires_grad}
    held = HeldTensors(constants, trained if spec.mode == "joint" else {}, notes)
    if spec.mode == "joint":
        refuse_hooks(step, spec.gradients)
    hooks = parameter_hooks(step) if spec.mode == "joint" else {}
    reset_tracer(globals())
    try:
        with _left_as_found(step), grad_mode, _tracer_options(notes), _quiet() as caught, unused_draws_kept():
            tensors = with_stand_ins(step, tensors)
            decided = held.traced(), branches.decided(), constant_numbers(constants, notes), patched(step, notes)
            with contextlib.ExitStack() as rules:
                for each in (*decided, outside_draws(), autocast_of_cpu(spec.device_type, notes)):
                    rules.enter_context(each)
                traced = trace_forward(step, tensors)
            refuse_uses(traced.graph)
            refuse_autocast(traced.graph)
            connect_results(traced)
            checkpointed = any("checkpoint" in str(n.target) for n in traced.graph.nodes)
            if not spec.gradients:
                show_gradient_cuts(traced)
            # The stack must be closed before real tensors are touched, also on failure.
            with contextlib.ExitStack() as stack:
                graph = joint_graph(stack, traced, tensors)
            _refuse_missing_gradients(graph.graph, caught)
            if hooks:
                add_parameter_hooks(graph, hooks)
            spell_out_normals(graph.graph)
            for text in dict.fromkeys(erase_assertions(graph.graph)):
                notes.append("the program does not check what forward asserts of values" + (f": '{text}'" if text else ""))
            erase_unused_numbers(graph.graph)
            settle_strides(graph.graph)
            if any(n.target is torch.ops.aten.bincount.default for n in graph.graph.nodes):
                notes.append(STATIC_COUNTS)
    except ExportError:
        raise
    except Exception as error:  # whatever tracing runs into, in PyTorch or in the model
        if "NoLoss" in str(error):
            raise ExportError(
                f"mode '{spec.mode}' needs a loss: give a loss function, or let "
                f"{type(spec.module).__name__}.forward return a 0-d tensor or a mapping with 'loss'"
            ) from None
        if "NotATensor" in str(error):
            raise ExportError(
                "expected the loss to be a 0-d tensor of a floating-point type, the mean over the microbatch, found no tensor"
            ) from None
        raise ExportError(_describe(error, branches)) from error
    finally:
        reset_tracer(globals())
    return Capture(graph, signature, spec.mode != "forward", checkpointed, notes + branches.notes)


@contextlib.contextmanager
def _left_as_found(step: nn.Module):
    """Puts every parameter and buffer back in its place.

    AOT Autograd puts tensors of its own into the modules while it traces. A tensor that stands under
    three names or more it puts back under one of them only.
    """
    kept = [(m, dict(m._parameters), dict(m._buffers)) for m in step.modules()]
    try:
        yield
    finally:
        for module, parameters, buffers in kept:
            for table, tensors in ((module._parameters, parameters), (module._buffers, buffers)):
                table.clear()
                table.update(tensors)


@contextlib.contextmanager
def _tracer_options(notes: list[str]):
    """Fixed sizes; and what forward prints or logs is not part of the program."""
    names = ("debug", "info", "warning", "error", "exception", "critical", "log")
    # transformers adds the last three to the class.
    names += ("warning_advice", "warning_once", "info_once")
    methods = {getattr(logging.Logger, name, None) for name in names} - {None}
    options = tracer_config(
        allow_rnn=True,
        assume_static_by_default=True,
        automatic_dynamic_shapes=False,
        capture_scalar_outputs=False,
        ignore_logging_functions={print, warnings.warn, *methods},
    )
    with options, operators_kept_whole(notes), functions_of_data(), fake_kernels():
        yield


@contextlib.contextmanager
def _quiet():
    """Keeps PyTorch's logs of what becomes an ExportError to itself, and judges its warnings.

    Dynamo drops what forward does to Python objects. Counters and caches may go (transformers has
    always some), an assigned buffer may not: the program would train without it.
    """
    logs = [logging.getLogger(name) for name in TRACER_LOGS]
    before = [log.disabled for log in logs]
    try:
        for log in logs:
            log.disabled = True
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    finally:
        for log, disabled in zip(logs, before, strict=True):
            log.disabled = disabled
    for warning in caught:
        text = str(warning.message)
        if "found certain side effects" not in text:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
            continue
        for kind, noun in (("_buffers", "buffer"), ("_parameters", "parameter")):
            if match := re.search(rf"L\['self'\]([^\"]*)\.{kind}", text):
                owner = ".".join(re.findall(r"\['([^']+)'\]", match.group(1))[1:])
                where = f"'{owner}'" if owner else "the module"
                raise ExportError(
                    f"forward assigns a new tensor to a {noun} of {where}; "
                    "change buffers in place, with copy_ or add_"
                )


def _refuse_missing_gradients(graph: torch.fx.Graph, caught: list[warnings.WarningMessage]):
    """Eager mode differentiates what the kernel of an operator without a gradient calls, and a trace cannot see that."""
    for warning in caught:
        match = re.match(r"([\w:.]+): an autograd kernel was not registered", str(warning.message))
        if match:
            calls = (node for node in graph.nodes if str(node.target).replace(".", "::").startswith(match.group(1)))
            raise ExportError(
                f"cannot export '{match.group(1)}'{next(map(place, calls), '')}: found an operator of a library without a gradient; "
                "expected one with a kernel for Autograd or torch.library.register_autograd, or a call under torch.no_grad()"
            )


def _describe(error: Exception, branches: Branches) -> str:
    """One line for what tracing raised, with the model's source line."""
    text = str(error)
    head = text.partition("from user code:")[0]
    where = ""
    stack = [(frame.filename, frame.lineno) for frame in getattr(error, "real_stack", None) or ()]
    everything = stack or frames(text)
    stack = [f for f in everything if not is_library(f[0]) and not is_exporter(f[0])]
    if stack:
        file, line = stack[-1]
        code = linecache.getline(file, line).strip()
        where = f" at {short_path(file)}:{line}" + (f" ('{code}')" if code else "")
    lines = [line for line in head.strip().splitlines() if line.strip()]
    message = lines[0].rstrip(".") if lines else ""
    explanation = re.search(r"Explanation: (.*?)(?:\n\s*Hint:|\n\s*\n|$)", head, re.DOTALL)
    context = re.search(r"Developer debug context: (raised exception .*)", head)
    raised = re.search(r"got (\w+\(.*\))", head)
    called = re.search(r"Developer debug context: (\w+Error) <.*?>: (.*)", head)
    if raised:
        message = raised.group(1)
    elif context:
        message += f": {context.group(1).strip()}"
    elif called:
        message = ": ".join(called.groups())
    elif explanation:
        message += ": " + explanation.group(1).strip()
    elif not message or type(error).__module__ == "builtins":
        message = f"{type(error).__name__}: {message}"
    if branches.refusal and (branches.depends_on_data or "Data-dependent branching" in message):
        message = branches.refusal
    elif "Data-dependent branching" in message:
        message = f"Data-dependent branching: {BRANCH_ON_DATA}"
    elif match := re.search(r"User-inserted graph break. Message: (found .*)", message):
        message = match.group(1)
    elif match := re.search(r"(?:Random(State)?\.|cyfunction )(choice|sample|shuffle|default_rng|\w+(?= of RandomState))", message):
        message = refusal(f"{'random' if match.group(1) is None and 'numpy' not in message else 'numpy.random'}.{match.group(2)}")
    elif "got SymInt" in message:
        message = f"found {NUMBER_OF_TENSOR}"
    elif match := re.search(r"operator whose output has alias annotations: ([\w:]+)[\w.]*\([^)]*!", message):
        message = f"found {match.group(1)}, {CHANGES_ARGUMENT}"
    elif "functional.one_hot" in message:
        message = "found torch.nn.functional.one_hot of as many classes as data say; expected num_classes"
    elif "aten.linalg_lstsq" in message:
        message = (
            "found torch.linalg.lstsq, whose residuals have a size that depends on the rank of the matrix; expected the solution as "
            "torch.linalg.pinv(A) @ B"
        )
    elif match := re.search(r"Operator `(aten\.\w+)[.\w]*` has a non-Tensor output whose value is dependent", message):
        message = f"found {match.group(1)}, which asks for the values of a tensor; expected a choice between tensors, by torch.where"
    elif match := re.search(r"Operator `(aten\.\w+)[.\w]*`'s output shape depends on input Tensor data", message):
        message = f"found {match.group(1)}, whose result has a size that depends on data; {STATIC_SIZES}"
    elif branches.depends_on_data or re.search(r"expression (Ne\(u\d+, 0\)|Eq\(u\d+, 1\)) .*Size-like symbols: none", message):
        message = BRANCH_ON_DATA
    elif "different devices cpu, meta" in message:
        message = (
            "found a tensor on the meta device that is neither a parameter, a buffer nor an input; expected it to "
            "have values"
        )
    elif re.search("pack_padded_sequence|pad_packed_sequence|pack_sequence", message):
        message = (
            "found a packed sequence, whose sizes depend on data; expected padded sequences, and a mask of what counts "
            "in the loss"
        )
    elif any(f"{os.sep}torch{os.sep}distributed{os.sep}" in file for file, _ in everything):
        message = f"found {COLLECTIVE}"
    elif "unbacked symbol" in message:
        message = f"found a size that depends on a tensor's values; {STATIC_SIZES}"
    elif "manual_seed" in message:
        message = "found a call that seeds PyTorch's generator; expected one seed, that of the run (cleave-run --seed)"
    elif re.search(r"data-dependent expression .*?u\d+", message):
        message = f"found a size that depends on data; {STATIC_SIZES}"
    return f"cannot trace the module{where}: {message}"
