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
]
