"""Cleave's Python side: PyTorch training steps as MLIR programs, exported, or traced and run in place."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cleave import entry_points

if TYPE_CHECKING:
    from cleave.checkpoint import CheckpointError, load_checkpoint
    from cleave.errors import Error
    from cleave.step_values import Pipeline
    from cleave.training_step import compile_step
    from cleave.export import (
        EMA,
        Constant,
        ExportError,
        ExportNote,
        ExportSpec,
        StepDecay,
        WarmupCosine,
        export,
        export_spec,
    )
    from cleave.init import initialize
    from cleave.plan import (
        FSDP,
        HSDP,
        ColwiseParallel,
        ContextParallel,
        DataParallel,
        ExpertParallel,
        Op,
        Partial,
        Plan,
        Replicate,
        RowwiseParallel,
        SequenceParallel,
        Shard,
    )
    from cleave.planner import FoundPlan, find_plan
    from cleave.programs import Program, load, trace
    from cleave.sessions import Session

__all__ = [
    "EMA",
    "FSDP",
    "HSDP",
    "CheckpointError",
    "ColwiseParallel",
    "Constant",
    "ContextParallel",
    "DataParallel",
    "Error",
    "ExpertParallel",
    "ExportError",
    "ExportNote",
    "ExportSpec",
    "FoundPlan",
    "Op",
    "Partial",
    "Pipeline",
    "Plan",
    "Program",
    "Replicate",
    "RowwiseParallel",
    "SequenceParallel",
    "Session",
    "Shard",
    "StepDecay",
    "WarmupCosine",
    "compile_step",
    "export",
    "export_spec",
    "find_plan",
    "initialize",
    "load",
    "load_checkpoint",
    "trace",
]

_OF_EXPORT = {"EMA", "Constant", "ExportError", "ExportNote", "ExportSpec", "StepDecay", "WarmupCosine", "export_spec"}


def __getattr__(name: str):
    """Imports what is asked for: exporting needs PyTorch, whose import takes seconds, plans do not."""
    if name == "export":
        return importlib.import_module("cleave.export")  # which can be called
    if name not in __all__:
        raise AttributeError(f"module 'cleave' has no attribute '{name}'")
    homes = dict.fromkeys(_OF_EXPORT, "cleave.export") | {
        "Error": "cleave.errors",
        "initialize": "cleave.init",
        "CheckpointError": "cleave.checkpoint",
        "load_checkpoint": "cleave.checkpoint",
        "Pipeline": "cleave.step_values",
        "compile_step": "cleave.training_step",
        "FoundPlan": "cleave.planner",
        "find_plan": "cleave.planner",
        "Program": "cleave.programs",
        "load": "cleave.programs",
        "trace": "cleave.programs",
        "Session": "cleave.sessions",
    }
    home = importlib.import_module(homes.get(name, "cleave.plan"))
    globals()[name] = value = getattr(home, name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})


entry_points.announce()
