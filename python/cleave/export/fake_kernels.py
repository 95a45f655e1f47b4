"""Fake kernels for operators whose own refuse what programs can hold.

- `_grouped_mm`: its fake kernel takes what a GPU's does, bfloat16 in rows of a multiple of 16 bytes. Programs multiply any
  floating-point numbers, of any width.
- `_ctc_loss`: its table of probabilities is as wide as the longest target, which is data. That nothing is wider than the
  targets is enough for the loss; `traced_functions.py` makes it so where programs are written.
- `equal`: composite kernels in C++ ask it whether what they check holds.
- `bincount`: its result grows with the numbers. In a program it has `minlength` elements, and a number that is not below
  `minlength` is an error when the program runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import torch

from cleave.export.pytorch import FAKE_KERNELS

STATIC_COUNTS = (
    "torch.bincount gives `minlength` counts in the program, since sizes are static: a number that is not below `minlength` "
    "is an error when the program runs"
)


def _grouped_mm(mode, operator, left, right, offs=None, bias=None, out_dtype=None):
    shape = [left.shape[-2], right.shape[-1]]
    if left.dim() == right.dim():
        shape.insert(0, left.shape[0] if left.dim() == 3 else offs.shape[0])
    dtype = out_dtype or left.dtype
    # Rows begin at multiples of 16 bytes.
    aligned = 16 // dtype.itemsize
    strides = [1]
    stride = -(-shape[-1] // aligned) * aligned
    for size in reversed(shape[:-1]):
        strides.insert(0, stride)
        stride *= size
    with mode:
        return torch.empty_strided(shape, strides, dtype=dtype, device=left.device)


def _make_bincount(original):
    def bincount(mode, operator, numbers, weights=None, minlength=0):
        if not minlength:
            return original(mode, operator, numbers, weights, minlength)
        dtype = torch.int64
        if weights is not None:
            dtype = torch.float32 if weights.dtype == torch.float32 else torch.float64
        with mode:
            return torch.empty(minlength, dtype=dtype, device=numbers.device)

    return bincount


def _ctc_loss(mode, operator, log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    steps, examples, _ = log_probs.shape
    longest = targets.shape[-1]
    if not isinstance(target_lengths, torch.Tensor):
        longest = max(target_lengths, default=0)
    with mode:
        return (
            torch.empty(examples, dtype=log_probs.dtype, device=log_probs.device),
            torch.empty(examples, steps, 2 * longest + 1, dtype=log_probs.dtype, device=log_probs.device),
        )


@contextlib.contextmanager
def fake_kernels() -> Iterator[None]:
    """While this is entered, fake tensors of these operators have the shapes of programs."""
    table = FAKE_KERNELS
    grouped, bincount = torch.ops.aten._grouped_mm.default, torch.ops.aten.bincount.default
    losses = [getattr(torch.ops.aten._ctc_loss, name) for name in ("default", "Tensor")]
    before = {operator: table.get(operator) for operator in (grouped, bincount, *losses)}
    table[grouped] = _grouped_mm
    table.update(dict.fromkeys(losses, _ctc_loss))
    table[bincount] = _make_bincount(before[bincount])
    try:
        yield
    finally:
        for operator, kernel in before.items():
            if kernel is None:
                table.pop(operator, None)
            else:
                table[operator] = kernel


@contextlib.contextmanager
def answers_of_equal(answers: Iterable[bool]) -> Iterator[None]:
    """While this is entered, `equal` of fake tensors gives these answers, one after the other."""
    table, equal, remaining = FAKE_KERNELS, torch.ops.aten.equal.default, iter(answers)
    before = table.get(equal)
    table[equal] = lambda mode, operator, left, right: next(remaining)
    try:
        yield
    finally:
        if before is None:
            del table[equal]
        else:
            table[equal] = before
