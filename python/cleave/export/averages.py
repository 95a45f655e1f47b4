"""Averages of the parameters over the steps of a run, as torch.optim.swa_utils.AveragedModel keeps them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cleave.export.errors import ExportError

if TYPE_CHECKING:
    import torch

    from cleave.export.update_text import UpdateText

# The optimizer state that is a parameter's average.
SLOT = "ema"


@dataclasses.dataclass(frozen=True)
class EMA:
    """An exponential moving average of each parameter, updated after each step of the optimizer.

    That of AveragedModel with get_ema_multi_avg_fn(decay): in the first step it is the parameter, each later one moves
    it by 1 - decay of the way to the parameter.
    """

    decay: float = 0.999

    def __post_init__(self):
        if isinstance(self.decay, bool) or not isinstance(self.decay, (int, float)) or not 0 <= self.decay <= 1:
            raise ExportError(f"expected a decay from 0 to 1 of the moving average, found {self.decay!r}")


def add_slots(slots: Mapping[str, dict[str, str]], types: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The states of each parameter, with its average as the last one; `types` are those of the parameters."""
    for name, states in slots.items():
        if SLOT in states:
            raise ExportError(f"the optimizer has a state '{SLOT}' of '{name}', which is the moving average's name")
    return {name: {**states, SLOT: types[name]} for name, states in slots.items()}


def write_averages(average: EMA, text: UpdateText, parameters: Mapping[str, torch.Tensor]):
    """Appends the averages of `parameters`, by name, to an update that has their new values."""
    import torch

    from cleave.export.step_values import PARAMETER, STATE, STEP, Values
    from cleave.export.traced_update import StepWriter
    from cleave.export.update_text import UpdateText

    aten = torch.ops.aten
    values = Values()
    is_first = values.compute("arith.cmpf oeq", values.make(STEP), 1.0, is_boolean=True)
    # What a parameter is from here on is its new value.
    renewed = {("parameter", name): text.results["parameter", name] for name in parameters}
    after = UpdateText(text.names, {**text.values, **renewed})
    after.body = text.body
    shared: dict = {}
    for name, parameter in parameters.items():
        fake = torch.empty_like(parameter, device="meta")
        new = values.make(PARAMETER, (0,), fake=fake)
        moved = values.make(aten.lerp.Scalar, (values.make(STATE, (0, SLOT), fake=fake), new, 1 - average.decay), fake=fake)
        result = values.merge(is_first, new, moved, {}, is_first=True)
        text.results[SLOT, name] = StepWriter(after, [name], [], shared).result(result, f"new.{SLOT}.{name}")
