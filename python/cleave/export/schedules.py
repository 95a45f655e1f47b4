"""Learning-rate schedules: a factor for the optimizer's rates, by step."""

from __future__ import annotations

import dataclasses
import math

from cleave.export.errors import ExportError
from cleave.export.text import float_attribute


class Schedule:
    """A learning-rate schedule."""

    def factor(self, step: int) -> float:
        """The factor for step `step`, counted from 1."""
        raise NotImplementedError

    def attribute(self) -> str:
        """The `#train.schedule` attribute."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Constant(Schedule):
    def factor(self, step: int) -> float:
        return 1.0

    def attribute(self) -> str:
        return "#train.schedule<constant>"


@dataclasses.dataclass(frozen=True)
class WarmupCosine(Schedule):
    """Linear over the first `warmup` steps, then half a cosine from 1 to `floor` at `total`."""

    warmup: int
    total: int
    floor: float = 0.0

    def __post_init__(self):
        if not 0 <= self.warmup < self.total:
            raise ExportError(
                f"WarmupCosine expects 0 <= warmup < total, found {self.warmup} and {self.total}"
            )
        if not 0 <= self.floor <= 1:
            raise ExportError(
                f"WarmupCosine expects a floor from 0 to 1, a factor on the rate, found {self.floor}"
            )

    def factor(self, step: int) -> float:
        t = step - 1
        if t < self.warmup:
            return (t + 1) / self.warmup
        if t >= self.total:
            return self.floor
        progress = (t - self.warmup) / (self.total - self.warmup)
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * progress)) / 2

    def attribute(self) -> str:
        return (
            f"#train.schedule<warmup_cosine, warmup = {self.warmup}, total = {self.total}, "
            f"floor = {float_attribute(self.floor)}>"
        )


@dataclasses.dataclass(frozen=True)
class StepDecay(Schedule):
    """`decay` times the rate after every `every` steps."""

    every: int
    decay: float

    def __post_init__(self):
        if self.every <= 0:
            raise ExportError(f"StepDecay expects a positive number of steps, found {self.every}")
        if not 0 < self.decay < math.inf:
            raise ExportError(f"StepDecay expects a positive, finite decay, found {self.decay}")

    def factor(self, step: int) -> float:
        return self.decay ** ((step - 1) // self.every)

    def attribute(self) -> str:
        return (
            f"#train.schedule<step, every = {self.every}, factor = {float_attribute(self.decay)}>"
        )
