"""Functions of torch.nn.functional that look at data, and the same without that: no trace can hold what they do.

- `gaussian_nll_loss` asks whether a variance is negative, which is an error.
- `ctc_loss` of lengths that are data keeps a table for its gradient that is as wide as the longest target. Here one more example, of which nothing is
  taken, has a target of all the width that there is.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def functions_of_data() -> Iterator[None]:
    """While this is entered, `torch.nn.functional` has the others. They are found by that name alone."""
    functions = torch.nn.functional
    before = functions.gaussian_nll_loss, functions.ctc_loss
    functions.gaussian_nll_loss, functions.ctc_loss = _gaussian_nll_loss, _ctc_loss_of_lengths
    try:
        yield
    finally:
        functions.gaussian_nll_loss, functions.ctc_loss = before


def _gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = torch.unsqueeze(var, -1)
        elif input.ndim != var.ndim or sum(y for x, y in zip(input.size(), var.size()) if x != y) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _ctc_loss_of_lengths(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False
):
    """As torch.nn.functional's, of tensors where lengths are numbers: the tracer makes none of them."""
    input_lengths, target_lengths = (
        lengths if isinstance(lengths, torch.Tensor) else torch.tensor(lengths) for lengths in (input_lengths, target_lengths)
    )
    kind = {"none": 0, "mean": 1, "sum": 2}[reduction]
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, kind, zero_infinity)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """What `aten::ctc_loss` computes on a processor, for lengths that are tensors."""
    is_batch = log_probs.dim() == 3
    every = log_probs if is_batch else log_probs.unsqueeze(1)
    steps, examples, _ = every.shape
    input_lengths, target_lengths = input_lengths.reshape(-1), target_lengths.reshape(-1)
    longest = targets.shape[-1]
    if targets.dim() == 1:  # one after another: what stands behind an example's own is not read
        starts = target_lengths.cumsum(0) - target_lengths
        targets = targets[(starts[:, None] + torch.arange(longest)).clamp(max=longest - 1)]
    loss, _ = torch.ops.aten._ctc_loss.Tensor(
        torch.cat([every, every.detach()[:, :1]], 1),
        torch.cat([targets, targets.new_zeros(1, longest)]).long(),
        torch.cat([input_lengths, input_lengths.new_full((1,), steps)]),
        torch.cat([target_lengths, target_lengths.new_full((1,), longest)]),
        blank, zero_infinity,
    )  # fmt: skip
    loss = loss[:examples]
    if zero_infinity:
        loss = torch.where(loss == math.inf, torch.zeros((), dtype=loss.dtype), loss)
    if reduction == 1:
        return (loss / target_lengths.clamp_min(1)).mean()
    if reduction == 2:
        return loss.sum()
    return loss if is_batch else loss.squeeze(0)
