"""Cleave's Python side: exporting PyTorch training steps as MLIR programs."""

from cleave.export import (
    Constant,
    ExportError,
    ExportSpec,
    StepDecay,
    WarmupCosine,
    export,
    export_spec,
)

__all__ = [
    "Constant",
    "ExportError",
    "ExportSpec",
    "StepDecay",
    "WarmupCosine",
    "export",
    "export_spec",
]
