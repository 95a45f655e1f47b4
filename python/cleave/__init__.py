"""Cleave's Python side: exporting PyTorch training steps as MLIR programs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleave.checkpoint import load_checkpoint
    from cleave.export import (
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

__all__ = [
    "FSDP",
    "HSDP",
    "ColwiseParallel",
    "Constant",
    "ContextParallel",
    "DataParallel",
    "ExpertParallel",
    "ExportError",
    "ExportNote",
    "ExportSpec",
    "Op",
    "Partial",
    "Plan",
    "Replicate",
    "RowwiseParallel",
    "SequenceParallel",
    "Shard",
    "StepDecay",
    "WarmupCosine",
    "export",
    "export_spec",
    "initialize",
    "load_checkpoint",
]

_OF_EXPORT = {"Constant", "ExportError", "ExportNote", "ExportSpec", "StepDecay", "WarmupCosine", "export_spec"}


def __getattr__(name: str):
    """Imports what is asked for: exporting needs PyTorch, whose import takes seconds, plans do not."""
    if name == "export":
        return importlib.import_module("cleave.export")  # which can be called
    if name not in __all__:
        raise AttributeError(f"module 'cleave' has no attribute '{name}'")
    homes = dict.fromkeys(_OF_EXPORT, "cleave.export") | {
        "initialize": "cleave.init",
        "load_checkpoint": "cleave.checkpoint",
    }
    home = importlib.import_module(homes.get(name, "cleave.plan"))
    globals()[name] = value = getattr(home, name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
