"""The scale of a `torch.amp.GradScaler`, by which a compiled step scales its loss, and which it changes as the scaler would."""

from __future__ import annotations

from typing import Any

import torch

from cleave.errors import Error
from cleave.export.errors import ExportError


class LossScale:
    """Scale and growth stay the scaler's, so that its `state_dict` and `load_state_dict` work."""

    @staticmethod
    def of(scaler: Any) -> LossScale | None:
        """None without a scaler, or of one that is not enabled."""
        if scaler is None:
            return None
        if not isinstance(scaler, torch.amp.GradScaler):
            raise ExportError(f"expected a torch.amp.GradScaler, found a value of type {type(scaler).__qualname__}")
        return LossScale(scaler) if scaler.is_enabled() else None

    def __init__(self, scaler: torch.amp.GradScaler):
        self._scaler = scaler
        self._rule = self._find_rule()

    def _find_rule(self) -> dict[str, float]:
        scaler = self._scaler
        return {
            "growth-factor": scaler.get_growth_factor(), "backoff-factor": scaler.get_backoff_factor(),
            "growth-interval": scaler.get_growth_interval(),
        }  # fmt: skip

    @property
    def scale(self) -> float:
        return self._scaler.get_scale()

    @property
    def scaling_pass(self) -> str:
        """What scales the loss of a program."""
        options = {"init-scale": self.scale, **self._rule}
        return f"scale-loss{{{' '.join(f'{name}={value!r}' for name, value in options.items())}}}"

    def begin_step(self, session) -> None:
        """Gives the session the scale of its next step."""
        if (rule := self._find_rule()) != self._rule:
            raise Error(
                f"the GradScaler's rule: expected {self._rule}, as when the step was made, found {rule}; close() the step and "
                "compile another one"
            )
        state = self._scaler.state_dict()
        session.set_loss_scale(state["scale"], state["_growth_tracker"])

    def end_step(self, session) -> bool:
        """Gives the scaler that of the step after it; whether the step has updated anything."""
        scale, steps, skipped = session.loss_scale()
        self._scaler.load_state_dict({**self._scaler.state_dict(), "scale": scale, "_growth_tracker": steps})
        return skipped == 0
