"""What `cleave.compile_step` replaces, for loops that are run both ways."""

import cleave_path  # noqa: F401
import cleave
import torch
from cleave.step_values import StepResult
from torch import nn


class EagerStep:
    """What `cleave.compile_step` replaces."""

    def __init__(self, model, loss_fn, optimizer, clip_norm=None, outputs=False, batch_dims=None):
        self._model, self._loss_fn, self._optimizer = model, loss_fn, optimizer
        self._clip_norm, self._outputs = clip_norm, outputs

    def __call__(self, inputs, *targets):
        self._optimizer.zero_grad()
        if isinstance(inputs, dict):
            outputs = self._model(**inputs)
        else:
            outputs = self._model(*inputs) if isinstance(inputs, tuple) else self._model(inputs)
        loss = outputs if self._loss_fn is None else self._loss_fn(outputs, *targets)
        loss.backward()
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        norm = None if self._clip_norm is None else nn.utils.clip_grad_norm_(parameters, self._clip_norm)
        self._optimizer.step()
        self._model.zero_grad()
        return StepResult(loss.detach(), norm, outputs if self._outputs else None)

    def close(self):
        pass


def check_is_eager_modes(loop):
    """loop: takes one of the two, and yields tensors that must be the same bits."""
    found = []
    for compile_step in (EagerStep, cleave.compile_step):
        torch.manual_seed(0)
        found.append([value.clone() for value in loop(compile_step)])
    expected, compiled = found
    assert len(compiled) == len(expected)
    for place, (value, other) in enumerate(zip(compiled, expected)):
        assert value.dtype == other.dtype and torch.equal(value, other), place
