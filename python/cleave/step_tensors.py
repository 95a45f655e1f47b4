"""The tensors of a model in which a compiled step computes, and what stands in their places."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch

from cleave.optimizer_state import can_be_adopted
from cleave.ranks import is_sharded

# By their paths.
Modules = Mapping[str, torch.nn.Module]


def settle(modules: Modules) -> None:
    """Gives parameters and buffers memory in which a session can compute, before they are traced."""
    for module in modules.values():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if is_sharded(tensor):
                continue
            if (own := settled(tensor.detach())).data_ptr() != tensor.data_ptr():
                tensor.data = own


def settled(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy where the session could not compute in its memory: contiguous, and aligned."""
    if can_be_adopted(tensor):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


@contextlib.contextmanager
def whole_stand_ins(modules: Modules) -> Iterator[dict[torch.Tensor, torch.Tensor]]:
    """The model as it is traced, on the processor and whole: of tensors on a device, and of those that ranks hold parts of,
    others stand in.

    Yields those by what they stand in for. Nobody touches the memory of parameters, so that the system gives them none.
    """
    stand_ins: dict[torch.Tensor, torch.Tensor] = {}
    places = []
    for module in modules.values():
        for table in (module._parameters, module._buffers, vars(module)):
            for key, tensor in table.items():
                if not isinstance(tensor, torch.Tensor) or not (is_sharded(tensor) or tensor.device.type == "cuda"):
                    continue
                if tensor not in stand_ins:
                    stand_ins[tensor] = _stand_in(tensor)
                    give_hooks(tensor, stand_ins[tensor])
                places.append((table, key, tensor))
    try:
        for table, key, tensor in places:
            table[key] = stand_ins[tensor]
        yield stand_ins
    finally:
        for table, key, tensor in places:
            table[key] = tensor


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(torch.empty(tensor.shape, dtype=tensor.dtype), tensor.requires_grad)
    # Of buffers and other tensors a trace may ask for values, where all of them are here.
    return torch.empty(tensor.shape, dtype=tensor.dtype) if is_sharded(tensor) else tensor.detach().cpu()


def replace(modules: Modules, optimizers: Sequence[torch.optim.Optimizer], old: torch.Tensor, new: torch.Tensor) -> None:
    """Puts a tensor in another one's place, wherever the model and the optimizer have it."""
    give_hooks(old, new)
    for module in modules.values():
        for table in (module._parameters, module._buffers):
            for key, tensor in table.items():
                if tensor is old:
                    table[key] = new
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["params"] = [new if p is old else p for p in group["params"]]
        if old in optimizer.state:
            optimizer.state[new] = optimizer.state.pop(old)


def give_hooks(old: torch.Tensor, new: torch.Tensor) -> None:
    """Those on a gradient, to what stands in a tensor's place; removing one there removes it here, too."""
    if old._backward_hooks:
        new._backward_hooks = old._backward_hooks
