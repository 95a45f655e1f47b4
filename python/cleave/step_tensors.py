"""The tensors of a model in which a compiled step computes, and what stands in their places."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch

from cleave.bound_program import check_tensor
from cleave.optimizer_state import can_be_adopted
from cleave.ranks import is_sharded

# By their paths.
Modules = Mapping[str, torch.nn.Module]


def settle(modules: Modules) -> None:
    """Gives parameters and buffers memory in which a session can compute, before they are traced."""
    for path, module in modules.items():
        for key, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            check_tensor(f"{path}.{key}" if path else key, tensor)
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
    """The model as it is traced: of tensors that ranks hold parts of, others stand in that have the whole shape.

    Yields those by what they stand in for. Nobody touches their memory, so that the system gives them none.
    """
    stand_ins: dict[torch.Tensor, torch.Tensor] = {}
    places = []
    for module in modules.values():
        for table in (module._parameters, module._buffers):
            for key, tensor in table.items():
                if tensor is None or not is_sharded(tensor):
                    continue
                if tensor not in stand_ins:
                    whole = torch.empty(tensor.shape, dtype=tensor.dtype)
                    is_parameter = isinstance(tensor, torch.nn.Parameter)
                    stand_ins[tensor] = torch.nn.Parameter(whole, tensor.requires_grad) if is_parameter else whole
                    give_hooks(tensor, stand_ins[tensor])
                places.append((table, key, tensor))
    try:
        for table, key, tensor in places:
            table[key] = stand_ins[tensor]
        yield stand_ins
    finally:
        for table, key, tensor in places:
            table[key] = tensor


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
