"""Regions of `torch.autocast` in forward, which hold for one type of device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from cleave.export.errors import ExportError
from cleave.export.locations import place
from cleave.export.pytorch_tracing import autocast_entered


@contextlib.contextmanager
def autocast_of_cpu(device_type: str, notes: list[str]) -> Iterator[None]:
    """While this is entered, what forward computes under the autocast of `device_type` is traced under the CPU's, in the same
    type: where a model on a device is traced by stand-ins on the CPU."""

    def change(values: list) -> list:
        found, dtype, enabled, *rest = values
        if found != device_type or device_type == "cpu":
            return values
        note = f"torch.autocast('{device_type}') is traced as the CPU's, which may have other operators in float32"
        if enabled and note not in notes:
            notes.append(note)
        return ["cpu", dtype or torch.get_autocast_dtype(device_type), enabled, *rest]

    with autocast_entered(change):
        yield


def refuse_autocast(graph: torch.fx.Graph) -> None:
    """Refuses one that the trace, on tensors of the CPU, would leave without effect: the program would compute in other types."""
    nodes = list(graph.nodes)
    for number, node in enumerate(nodes):
        if getattr(node.target, "__name__", "") != "_enter_autocast":
            continue
        device_type, _, enabled, *_ = node.args
        if enabled and device_type != "cpu":
            where = next(filter(None, map(place, nodes[number:])), "")  # of what it is around: it has none itself
            raise ExportError(
                f"found torch.autocast('{device_type}'){where}, which has no effect on what is traced, the CPU's graph; "
                "expected torch.autocast(x.device.type), which on the CPU is bfloat16's unless dtype says otherwise"
            )
