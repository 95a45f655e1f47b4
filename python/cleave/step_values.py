"""What `cleave.compile_step` takes and a step returns: values that hold nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from cleave.export.errors import ExportError


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A pipeline schedule: its name as `--build-schedule` has it, stages, and microbatches in a step."""

    schedule: str = "1f1b"
    stages: int = 2
    microbatches: int = 2
    balance: str = "cost"


@dataclasses.dataclass
class StepResult:
    """loss: the mean over the batch of all ranks, a 0-d tensor. grad_norm: before clipping; None without clip_norm,
    and on a rank of a pipeline that trains no parameter; NaN in a step that a scaler skips.
    outputs: see `compile_step`.
    """

    loss: torch.Tensor
    grad_norm: torch.Tensor | None = None
    outputs: Any = None


def check_pipeline(pipeline: Any) -> None:
    """Refuses what is no pipeline, or has no stages or microbatches."""
    if not isinstance(pipeline, Pipeline):
        raise ExportError(f"expected a cleave.Pipeline, found {pipeline!r}")
    for name in ("stages", "microbatches"):
        if not isinstance(size := getattr(pipeline, name), int) or isinstance(size, bool) or size < 1:
            raise ExportError(f"expected a positive number of {name} in a Pipeline, found {size!r}")
