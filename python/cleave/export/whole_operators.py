"""Operators that stay those that eager mode calls.

PyTorch's tracer has formulas for them in Python: several operators in place of one, with other last bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from cleave.export.fake_kernels import answers_of_equal
from cleave.export.pytorch import DispatchKey, OpOverload, python_kernels, record_call, run_kernel, without_onednn
from cleave.export.traced_functions import ctc_loss

aten = torch.ops.aten

_WHOLE = [
    aten.hardshrink, aten.softshrink, aten.multi_margin_loss,
    aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d,
    aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d,
    aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d, aten.upsample_bicubic2d,
    # Composite kernels in C++, whose steps are eager mode's.
    aten.gru, aten.rnn_tanh, aten.rnn_relu,
]  # fmt: skip
# Where the formulas are registered, in place of autograd's and the composite kernels in C++.
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


_NOTE = (
    "LSTMs are exported step by step, as PyTorch computes them without oneDNN: results differ from those of oneDNN's kernel "
    "for a whole layer by rounding"
)


@contextlib.contextmanager
def operators_kept_whole(notes: list[str]) -> Iterator[None]:
    """Takes the formulas out of the tracer, and puts them back.

    notes: what the user should know of what was traced is added to them.
    """
    overloads = [getattr(packet, name) for packet in _WHOLE for name in packet.overloads()]
    recurrent = [getattr(aten.lstm, name) for name in aten.lstm.overloads()]
    backward = aten.cumprod_backward.default
    kernels: dict[OpOverload, dict] = {overload: {key: None for key in _KEYS} for overload in (*overloads, *recurrent)}
    for overload in recurrent:
        kernels[overload][DispatchKey.CompositeImplicitAutograd] = _step_by_step(overload, notes)
    kernels[aten.ctc_loss.Tensor] = {DispatchKey.CompositeImplicitAutograd: ctc_loss}
    for overload in (getattr(packet, name) for packet in (aten.quantile, aten.nanquantile) for name in packet.overloads()):
        kernels[overload] = {DispatchKey.CompositeImplicitAutograd: _checked(overload, _quantile_checks, notes)}
    kernels[aten.cov.default] = {DispatchKey.CompositeImplicitAutograd: _checked(aten.cov.default, _cov_checks, notes)}
    for overload in (aten.rrelu.default, aten.rrelu_.default):
        kernels[overload] = {DispatchKey.CompositeImplicitAutograd: _rrelu(overload)}
    kernels[backward] = _as_one(backward, _cumprod_gradient)
    with python_kernels(kernels):
        yield


def _step_by_step(overload: OpOverload, notes: list[str]) -> Callable:
    """PyTorch's own LSTM, as where oneDNN is switched off.

    oneDNN's kernel for a whole layer keeps a workspace for its backward whose size depends on the processor.
    """

    def steps(*args, **kwargs):
        if torch.backends.mkldnn.enabled and args[0].dtype != torch.float64 and _NOTE not in notes:
            notes.append(_NOTE)
        with without_onednn():
            return run_kernel(overload, DispatchKey.CompositeImplicitAutograd, *args, **kwargs)

    return steps


def _rrelu(overload: OpOverload) -> Callable:
    """Draws outside of training too, to the tracer; the kernel is leaky_relu's there."""
    leaky = aten.leaky_relu_ if overload is aten.rrelu_.default else aten.leaky_relu

    def run(x, lower=1 / 8, upper=1 / 3, training=False, generator=None):
        if training:
            return run_kernel(overload, DispatchKey.CompositeImplicitAutograd, x, lower, upper, training, generator)
        return leaky(x, (lower + upper) / 2)

    return run


def _checked(overload: OpOverload, checks: Callable, notes: list[str]) -> Callable:
    """A composite kernel that asks tensors of its own whether its arguments are right, which no trace can answer.

    checks: of the arguments, the answers that it gets, and what is not checked of tensors, if anything.
    """

    def run(*args, **kwargs):
        answers, unchecked = checks(*args, **kwargs)
        note = f"the program does not check that {unchecked}"
        if unchecked and note not in notes:
            notes.append(note)
        with answers_of_equal(answers):
            return run_kernel(overload, DispatchKey.CompositeImplicitAutograd, *args, **kwargs)

    return run


def _quantile_checks(values, q, *args, **kwargs) -> tuple[list[bool], str]:
    if isinstance(q, torch.Tensor):
        return [True], "the numbers q of torch.quantile are in [0, 1]"
    return [0 <= q <= 1], ""


def _cov_checks(values, *, correction=1, fweights=None, aweights=None) -> tuple[list[bool], str]:
    """The answers to whether weights are not negative, and to whether what the sum of squares is divided by is not positive."""
    observations = values.shape[-1] if values.dim() else 1
    if fweights is None and aweights is None:
        return [observations - correction <= 0], ""
    weights = [each for each in (fweights, aweights) if each is not None]
    # After those of each weight, whether their sum is not zero.
    return [True] * len(weights) + [True, False], "the weights of torch.cov are not negative, and weigh more than its correction"


def _as_one(overload: OpOverload, fake: Callable) -> dict[DispatchKey, Callable]:
    """Kernels by which the tracer records a composite operator without a derivative as one call."""

    return {
        DispatchKey.AutogradCPU: lambda *args, **kwargs: record_call(overload, *args, **kwargs),
        DispatchKey.Meta: fake,
        # The tracer asks for its parts; it has none.
        DispatchKey.CompositeImplicitAutograd: lambda *args, **kwargs: NotImplemented,
    }


def _cumprod_gradient(grad, input, dim, output):
    """Shape and strides of what the kernel makes, which looks at the data before it chooses a formula."""
    return output.mul(grad).div(input)
