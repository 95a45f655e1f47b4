"""Optimizer state of a checkpoint as PyTorch's optimizers have it: `state[p]`, from which eager mode goes on."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from cleave.export.averages import SLOT as AVERAGE
from cleave.parts import CheckpointError

Tensors = dict[str, torch.Tensor]


class Slot(NamedTuple):
    """What a step keeps: a value of that kind, and whether it has the parameter's shape."""

    value: Any
    is_whole: bool


def read_states(
    optimizers: Iterable[torch.optim.Optimizer], names: Mapping[torch.nn.Parameter, list[str]], tensors: Tensors,
    steps: int, path: os.PathLike,
) -> list[dict[torch.nn.Parameter, dict[str, Any]]]:  # fmt: skip
    """By optimizer: what its `state` holds after `steps` steps. Nothing is set.

    names: what the checkpoint may call a parameter. tensors: of the checkpoint's optimizer, as NAME.SLOT; moving averages
    that no optimizer keeps are left out.
    """
    unused = {name for name in tensors if not name.startswith("buffer.")}
    result, problems = [], []
    for optimizer in optimizers:
        states = {}
        for group, parameter, like in _list_states(optimizer):
            if parameter not in names:
                raise CheckpointError(f"{path}: the optimizer has a parameter that is not the model's")
            # A parameter on which the loss does not depend has no state.
            name = next((n for n in names[parameter] if any(f"{n}.{slot}" in tensors for slot in like)), None)
            if name is None and any(slot != "step" for slot in like):
                if parameter.requires_grad and _is_known(names[parameter], tensors):
                    problems.append(f"'{names[parameter][0]}': expected {_list_slots(like)}, found other state")
                continue
            states[parameter] = {}
            for slot, made in like.items():
                key = f"{name}.{slot}"
                unused.discard(key)
                if key in tensors:
                    states[parameter][slot] = _convert(key, tensors[key], made, parameter, problems)
                elif slot == "step":
                    states[parameter][slot] = _make_step(made.value, steps, parameter, group)
                else:
                    problems.append(f"missing: '{key}'")
        result.append(states)
    problems += [f"extra: '{name}'" for name in sorted(unused) if not name.endswith(f".{AVERAGE}")]
    if problems:
        shown = problems[:20] + ([f"... and {len(problems) - 20} more"] if len(problems) > 20 else [])
        raise CheckpointError("\n  ".join([f"{path}: the state does not match the optimizer:", *shown]))
    return result


def count_steps(optimizers: Iterable[torch.optim.Optimizer], steps: int) -> list[list[dict[str, Any]]]:
    """By optimizer and parameter group: the options that count steps, as they are after `steps` of them. Classes of the
    user's own may have such."""
    result = []
    for optimizer in optimizers:
        if type(optimizer).__module__.startswith("torch.optim"):
            result.append([{} for _ in optimizer.param_groups])
            continue
        after = _run_copy(optimizer)[1].param_groups
        changed = [
            {option: steps for option, value in new.items() if option != "params" and _is_one_more(old.get(option), value)}
            for old, new in zip(optimizer.param_groups, after)
        ]
        result.append(changed)
    return result


def _is_one_more(old: Any, new: Any) -> bool:
    def is_number(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    return is_number(new) and new == (old if is_number(old) else 0) + 1


def _list_slots(like: Mapping[str, Slot]) -> str:
    return " and ".join(slot for slot in like if slot != "step")


def _is_known(names: list[str], tensors: Tensors) -> bool:
    return any(key.rsplit(".", 1)[0] == name for key in tensors for name in names)


def _convert(key: str, found: torch.Tensor, slot: Slot, parameter: torch.nn.Parameter, problems: list[str]) -> Any:
    like = slot.value
    if isinstance(like, (int, float)):
        return type(like)(found.item())
    if found.dtype != like.dtype or found.dim() != like.dim() or (slot.is_whole and found.shape != parameter.shape):
        problems.append(
            f"'{key}': the optimizer has {str(like.dtype).removeprefix('torch.')} of "
            + (f"shape {list(parameter.shape)}" if slot.is_whole else f"{like.dim()} dimensions")
            + f", the file {str(found.dtype).removeprefix('torch.')} {list(found.shape)}"
        )
    # Counts and the like stay where PyTorch keeps them.
    return found.clone() if like.dim() == 0 else found.to(parameter.device, copy=True)


def _make_step(like: Any, steps: int, parameter: torch.nn.Parameter, group: Mapping[str, Any]) -> Any:
    if isinstance(like, (int, float)):
        return type(like)(steps)
    on_device = group.get("capturable") or group.get("fused")
    return torch.full_like(like, steps, device=parameter.device if on_device else "cpu")


# What a step makes ------------------------------------------------------------------------------


def _list_states(optimizer: torch.optim.Optimizer) -> Iterable[tuple[dict, torch.nn.Parameter, dict[str, Slot]]]:
    """The options and parameters of the optimizer's groups, and for each what state a step makes."""
    is_own = not type(optimizer).__module__.startswith("torch.optim")
    of_copy = _step_of_copy(optimizer) if is_own else {}
    known: dict[tuple, dict[str, Slot]] = {}
    for number, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if is_own:
                yield group, parameter, of_copy[parameter]
                continue
            kind = (number, parameter.dim(), parameter.dtype)
            if kind not in known:
                known[kind] = _step_of_small(optimizer, group, parameter)
            yield group, parameter, known[kind]


def _step_of_small(optimizer: torch.optim.Optimizer, group: dict, parameter: torch.nn.Parameter) -> dict[str, Slot]:
    """PyTorch's classes treat each parameter by itself: a small one shows what state they make."""
    small = torch.nn.Parameter(torch.zeros([2] * parameter.dim(), dtype=parameter.dtype))
    small.grad = torch.zeros_like(small)
    accepted = inspect.signature(type(optimizer)).parameters
    options = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    options |= {name: value for name, value in group.items() if name in accepted and name != "params"}
    # Each makes the same state; on the processor capturable is refused.
    options |= {name: False for name in ("capturable", "foreach") if name in options}
    probe = type(optimizer)([small], **options)
    probe.step()
    return _describe(probe.state[small], small)


def _step_of_copy(optimizer: torch.optim.Optimizer) -> dict[torch.nn.Parameter, dict[str, Slot]]:
    """A class of the user's own may look at all parameters at once."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    copied, clone = _run_copy(optimizer)
    return {parameter: _describe(clone.state[twin], twin) for parameter, twin in zip(parameters, copied)}


def _run_copy(optimizer: torch.optim.Optimizer) -> tuple[list[torch.nn.Parameter], torch.optim.Optimizer]:
    """A copy of the parameters and the optimizer, after a step from no state."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    copied, clone = copy.deepcopy((parameters, optimizer))
    clone.state.clear()
    for parameter in copied:
        parameter.grad = torch.zeros_like(parameter)
    clone.step()
    return copied, clone


def _describe(state: Mapping[str, Any], parameter: torch.nn.Parameter) -> dict[str, Slot]:
    return {
        slot: Slot(value, isinstance(value, torch.Tensor) and value.shape == parameter.shape)
        for slot, value in state.items()
    }
