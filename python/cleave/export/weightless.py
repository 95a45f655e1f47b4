"""Modules without weights: on the meta device, or made under FakeTensorMode.

What is traced is the CPU's graph, on fake tensors of the CPU: on the meta device models choose other kernels, and
some of their code (`torch.autocast(x.device.type)`) fails.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from cleave.export.pytorch import FakeTensor, FakeTensorMode


def has_values(tensor: torch.Tensor) -> bool:
    return not tensor.is_meta and not isinstance(tensor, FakeTensor)


def with_stand_ins(module: nn.Module, inputs: Iterable[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """`inputs` as the trace takes them: if a tensor has no values, all of one fake mode.

    The module's parameters and buffers without values are then replaced by fake ones. A tensor of several
    names stays one. Those with values stay, as parts of the program.
    """
    inputs = tuple(inputs)
    tables = [t for m in module.modules() for t in (m._parameters, m._buffers)]
    held = [tensor for table in tables for tensor in table.values() if tensor is not None]
    if all(map(has_values, [*held, *inputs])):
        return inputs
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    made: dict[int, torch.Tensor] = {}

    def stand_in(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            with mode:
                fake = torch.empty_strided(
                    tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu"
                )
            if isinstance(tensor, nn.Parameter):
                fake = nn.Parameter(fake, requires_grad=tensor.requires_grad)
            else:
                fake.requires_grad_(tensor.requires_grad)
            made[id(tensor)] = fake
        return made[id(tensor)]

    for table in tables:
        for name, tensor in table.items():
            if tensor is not None and not has_values(tensor):
                table[name] = stand_in(tensor)
    return tuple(mode.from_tensor(i) if has_values(i) else stand_in(i) for i in inputs)


def missing_note(missing: list[str], buffers: Iterable[str]) -> str:
    """What a run needs that the file of weights does not have; `missing` is not empty."""
    buffers = set(buffers)
    named = [f"'{name}'" for name in missing if name in buffers]
    listed = f", among them the buffer{'s' * (len(named) != 1)} {', '.join(named)}" if named else ""
    return (
        f"{len(missing)} tensor{'s' * (len(missing) != 1)} had no values, and are not in the file of weights{listed}; "
        "cleave-run needs a file with all of them (--weights)"
    )
