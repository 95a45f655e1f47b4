"""An optimizer's state as the session has it: `optimizer.state` holds the tensors in which steps compute."""

from __future__ import annotations

import collections
import inspect
from collections.abc import Callable, Mapping

import torch

from cleave.export.traced_step import is_fresh
from cleave.native import native


def fresh_copy(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer as it was before its first step: what is exported. Shares parameters and groups."""
    fresh = object.__new__(type(optimizer))
    # Not copy.copy, which takes what checkpoints hold alone. A scheduler has put its own `step` beside the class's.
    fresh.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name != "step"})
    fresh.state = _initial_state(optimizer)
    return fresh


def _initial_state(optimizer: torch.optim.Optimizer) -> dict:
    """The state that the optimizer had when it was made, as Adagrad has its sums."""
    if not type(optimizer).__module__.startswith("torch.optim"):
        return optimizer.state if is_fresh(list(optimizer.state.values())) else collections.defaultdict(dict)
    accepted = inspect.signature(type(optimizer)).parameters
    options = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    return type(optimizer)([dict(group) for group in optimizer.param_groups], **options).state


def _counts_steps(optimizer: torch.optim.Optimizer, slots: set[str]) -> bool:
    """Whether each parameter's state has a `step`, which programs have once for all."""
    if type(optimizer).__module__.startswith("torch.optim"):
        return not isinstance(optimizer, (torch.optim.SGD, torch.optim.Muon))
    return "exp_avg" in slots


class OptimizerState:
    """Reads hyper-parameters before each step, and keeps `optimizer.state` what `optimizer.step()` would leave.

    parameters: by name. values: the program's optimizer states, descriptions with name, slot, shape and dtype. show:
        what others see of a tensor that is this rank's part of a whole one.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter], values: list[dict],
        show: Callable[[torch.Tensor, dict, torch.Tensor], torch.Tensor],
    ):  # fmt: skip
        self._optimizer = optimizer
        self._steps = 0
        self._has_count = _counts_steps(optimizer, {value["slot"] for value in values})
        # By parameter and slot: the tensor that the session computes in.
        self._tensors: dict[tuple[torch.nn.Parameter, str], torch.Tensor] = {}
        self._shown: dict[tuple[torch.nn.Parameter, str], torch.Tensor] = {}
        self._file_names: dict[str, torch.Tensor] = {}
        self._names = {}
        for value in values:
            parameter = parameters[value["name"]]
            tensor = torch.zeros(value["shape"], dtype=value["dtype"])
            self._tensors[parameter, value["slot"]] = self._file_names[value["file_name"]] = tensor
            self._shown[parameter, value["slot"]] = show(tensor, value, parameter)
            self._names[parameter, value["slot"]] = f"{value['slot']} of '{value['name']}'"
        self._counts = {p: torch.zeros(()) for p, _ in self._tensors} if self._has_count else {}
        self._options = [self._fixed_options(group) for group in optimizer.param_groups]
        self._groups = [list(group["params"]) for group in optimizer.param_groups]
        self._take_over()

    def memory(self) -> dict[str, torch.Tensor]:
        """The tensors by the program's file names."""
        return self._file_names

    def begin_step(self, session, rate_groups: set[int]) -> int:
        """Follows or refuses what has changed; the number of the step to run.

        rate_groups: the parameter groups that the session's program trains.
        """
        groups = self._optimizer.param_groups
        if len(groups) != len(self._groups) or any(
            len(group["params"]) != len(known) or any(a is not b for a, b in zip(group["params"], known))
            for group, known in zip(groups, self._groups)
        ):
            raise native().Error(
                "the optimizer's parameter groups have changed since the step was compiled; close() the step and "
                "compile another one"
            )
        for number, group in enumerate(groups):
            for option, value in self._fixed_options(group).items():
                if value != (expected := self._options[number].get(option)):
                    raise native().Error(
                        f"parameter group {number}: expected {option} = {expected}, as when the step was compiled, found "
                        f"{value}: only lr may change; close() the step and compile another one"
                    )
            if number in rate_groups:
                session.set_learning_rate(number, float(group["lr"]))
        if self._is_replaced():
            self._take_over()
        return self._steps + 1

    def end_step(self, number: int) -> None:
        self._steps = number
        for count in self._counts.values():
            count.fill_(number)
        if number == 1:
            self._show()

    @staticmethod
    def _fixed_options(group: dict) -> dict:
        left_out = ("params", "lr", "initial_lr")
        return {k: v for k, v in group.items() if k not in left_out and isinstance(v, (bool, int, float, tuple))}

    def _is_replaced(self) -> bool:
        """Whether load_state_dict, or someone else, has put other tensors into the optimizer's state."""
        state = self._optimizer.state
        if self._steps == 0:
            return bool(state)
        return any(state.get(p, {}).get(slot) is not shown for (p, slot), shown in self._shown.items()) or any(
            state.get(p, {}).get("step") is not count for p, count in self._counts.items()
        )

    def _take_over(self) -> None:
        """Copies the optimizer's state into the session's memory, and shows that in its place."""
        state = self._optimizer.state
        if not any(state.get(p) for p, _ in self._tensors):
            for tensor in self._tensors.values():
                tensor.zero_()
            self._steps = 0
            return
        counts = set()
        for (parameter, slot), tensor in self._tensors.items():
            found = state.get(parameter, {}).get(slot)
            shown = self._shown[parameter, slot]
            if not isinstance(found, torch.Tensor) or found.shape != shown.shape:
                raise native().Error(
                    f"the optimizer's state: expected {self._names[parameter, slot]} of shape {tuple(shown.shape)}, found "
                    + (f"shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else "none")
                )
            with torch.no_grad():
                shown.copy_(found)
        for parameter in self._counts:
            counts.add(int(state[parameter]["step"]))
        if len(counts) > 1:
            raise native().Error(
                f"the optimizer's state: expected the same step for all parameters, found {sorted(counts)}"
            )
        # Momentum of a loaded state is not that of a first step.
        self._steps = counts.pop() if counts else max(self._steps, 1)
        for count in self._counts.values():
            count.fill_(self._steps)
        self._show()

    def _show(self) -> None:
        for (parameter, slot), shown in self._shown.items():
            self._optimizer.state[parameter][slot] = shown
        for parameter, count in self._counts.items():
            self._optimizer.state[parameter]["step"] = count
