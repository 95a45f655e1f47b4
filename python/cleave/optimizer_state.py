"""An optimizer's state as the session has it: `optimizer.state` holds the tensors in which steps compute."""

from __future__ import annotations

import collections
import inspect
import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from cleave.errors import Error
from cleave.export.errors import ExportError
from cleave.export.schedulers import changing_number
from cleave.export.traced_step import is_fresh
from cleave.native import native

if TYPE_CHECKING:
    from cleave.bound_program import BoundProgram
    from cleave.ranks import Ranks

# Of values that stay what they are as long as they are the same object.
_PLAIN = {bool, int, float, str, type(None)}


def is_cycled(optimizer: torch.optim.Optimizer) -> bool:
    """Whether OneCycleLR or CyclicLR writes momentum or betas: bounds of theirs are in the groups then."""
    return any("max_momentum" in group for group in optimizer.param_groups)


def learning_rate(group: dict, number: int) -> float:
    """Of a parameter group, which may have it as a tensor."""
    try:
        return float(group["lr"])
    except (TypeError, ValueError, RuntimeError):
        raise Error(f"parameter group {number}: expected a number as lr, found {group['lr']!r}") from None


def without_wrapper(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer that accelerate's `prepare` has wrapped, whose steps are those of the wrapper; any other one itself."""
    if not type(optimizer).__module__.startswith("accelerate."):
        return optimizer
    if optimizer.scaler is not None:
        raise ExportError("found an optimizer that accelerate steps with a scaler of its own: expected compile_step(scaler=...)")
    if (steps := optimizer.gradient_state.num_steps) != 1:
        raise ExportError(
            f"found an optimizer that accelerate steps after each {steps} batches: expected gradient_accumulation_steps=1, and "
            f"compile_step(microbatches={steps}) of batches {steps} times as large"
        )
    return optimizer.optimizer


def fresh_copy(
    optimizer: torch.optim.Optimizer, stand_ins: Mapping[torch.Tensor, torch.Tensor] | None = None
) -> torch.optim.Optimizer:
    """The optimizer as it was before its first step: what is exported.

    stand_ins: for some of its parameters; it shares the others with the optimizer.
    """
    stand_ins = stand_ins or {}
    fresh = object.__new__(type(optimizer))
    # Not copy.copy, which takes what checkpoints hold alone. A scheduler has put its own `step` beside the class's.
    fresh.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name != "step"})
    if stand_ins:
        fresh.param_groups = [
            {**group, "params": [stand_ins.get(p, p) for p in group["params"]]} for group in optimizer.param_groups
        ]
    fresh.state = _initial_state(fresh)
    return fresh


def _initial_state(optimizer: torch.optim.Optimizer) -> dict:
    """The state that the optimizer had when it was made, as Adagrad has its sums, without their memory."""
    if not type(optimizer).__module__.startswith("torch.optim"):
        return optimizer.state if is_fresh(list(optimizer.state.values())) else collections.defaultdict(dict)
    accepted = inspect.signature(type(optimizer)).parameters
    options = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    # It is made for one element of each parameter; states as large as that are large like the parameter.
    ones = {p: p.new_empty((1,) * p.dim()) for group in optimizer.param_groups for p in group["params"]}
    groups = [{**group, "params": [ones[p] for p in group["params"]]} for group in optimizer.param_groups]
    made = type(optimizer)(groups, **options).state
    state = collections.defaultdict(dict)
    for parameter, one in ones.items():
        for slot, value in made.get(one, {}).items():
            is_like = isinstance(value, torch.Tensor) and value.shape == one.shape
            state[parameter][slot] = value.expand(parameter.shape) if is_like else value
    return state


def _plain(value: Any) -> Any:
    """A hyper-parameter as it is now, which a tensor or a list may have changed to in place."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return tuple(map(_plain, value)) if isinstance(value, (tuple, list)) else value


def can_be_adopted(tensor: torch.Tensor) -> bool:
    """Whether a session can compute in its memory: it is contiguous and aligned."""
    return tensor.is_contiguous() and tensor.data_ptr() % 64 == 0


def _counts_steps(optimizer: torch.optim.Optimizer, slots: set[str]) -> bool:
    """Whether each parameter's state has a `step`, which programs have once for all."""
    if type(optimizer).__module__.startswith("torch.optim"):
        return not isinstance(optimizer, (torch.optim.SGD, torch.optim.Muon))
    return "exp_avg" in slots


class OptimizerStates:
    """Of all optimizers of a step; see OptimizerState."""

    def __init__(
        self, optimizers: list[torch.optim.Optimizer], parameters: Mapping[str, torch.nn.Parameter], values: list[dict],
        ranks: Ranks,
    ):  # fmt: skip
        self._states, first_group = [], 0
        for optimizer in optimizers:
            held = {p for group in optimizer.param_groups for p in group["params"]}
            own = [value for value in values if parameters[value["name"]] in held]
            self._states.append(OptimizerState(optimizer, first_group, parameters, own, ranks))
            first_group += len(optimizer.param_groups)
        self._num_groups = first_group
        # Another object once steps take other numbers than before.
        self._numbers = object()

    def memory(self) -> dict[str, torch.Tensor]:
        """The tensors by the program's file names."""
        return {name: tensor for state in self._states for name, tensor in state.memory().items()}

    def tensors(self) -> dict[tuple[str, str], torch.Tensor]:
        """The tensors by parameter's name and slot."""
        return {key: tensor for state in self._states for key, tensor in state.tensors().items()}

    def has_other_numbers(self) -> bool:
        """Whether a momentum or first beta is another than at the first step, one that programs can follow."""
        return any(state.has_other_numbers() for state in self._states)

    def begin_step(self, compiled: BoundProgram, follows_numbers: bool) -> int:
        """Follows or refuses what has changed; the number of the step to run.

        The program's groups of numbers are the parameter groups, of all optimizers in turn, that it trains, and after
        them, if it follows those, the groups of momenta and betas.
        """
        first_number = self._num_groups if follows_numbers else None
        if has_changed := any([state.has_changed() for state in self._states]):
            self._numbers = object()
        if has_changed or compiled.numbers is not self._numbers:
            compiled.numbers = None
            for state in self._states:
                state.begin_step(compiled.session, compiled.groups, first_number)
            compiled.numbers = self._numbers
        # A program has one count of steps. Those that keep no state have none to differ from it.
        steps = {state.steps for state in self._states if state.has_state}
        if len(steps) > 1:
            raise Error(
                f"the optimizers' states: expected the same number of steps of all of them, found {sorted(steps)}"
            )
        return 1 + (steps.pop() if steps else self._states[0].steps)

    def end_step(self, number: int) -> None:
        for state in self._states:
            state.end_step(number)


class OptimizerState:
    """Reads hyper-parameters before each step, and keeps `optimizer.state` what `optimizer.step()` would leave.

    first_group: the number of its first parameter group among those of all optimizers.
    parameters: by name. values: the program's states of it, descriptions with name, slot, shape and dtype. ranks:
        what lies where: others see a tensor that is this rank's part of a whole one as a DTensor.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, first_group: int, parameters: Mapping[str, torch.nn.Parameter],
        values: list[dict], ranks: Ranks,
    ):  # fmt: skip
        self._optimizer, self._first_group, self._ranks = optimizer, first_group, ranks
        # Since the state was fresh.
        self.steps = 0
        self.has_state = bool(values)
        self._has_count = _counts_steps(optimizer, {value["slot"] for value in values})
        # By parameter and slot: the tensor that the session computes in.
        self._tensors: dict[tuple[torch.nn.Parameter, str], torch.Tensor] = {}
        self._shown: dict[tuple[torch.nn.Parameter, str], torch.Tensor] = {}
        self._file_names: dict[str, torch.Tensor] = {}
        self._names, self._keys, self._values = {}, {}, {}
        for value in values:
            parameter = parameters[value["name"]]
            tensor = self._own(parameter, value)
            self._tensors[parameter, value["slot"]] = self._file_names[value["file_name"]] = tensor
            self._shown[parameter, value["slot"]] = ranks.show(tensor, value, parameter)
            self._keys[value["name"], value["slot"]] = tensor
            self._values[parameter, value["slot"]] = value
            self._names[parameter, value["slot"]] = f"{value['slot']} of '{value['name']}'"
        self._counts = {p: torch.zeros((), device=device) for p, device in self._devices_of_counts()} if self._has_count else {}
        self._version = 0
        # Of each group: what may change once programs follow it, and what may not, before and after.
        self._numbers = [changing_number(group) for group in optimizer.param_groups]
        self._options = [
            [self._fixed_options(group, follows) for group in optimizer.param_groups] for follows in (False, True)
        ]
        self._groups = [list(group["params"]) for group in optimizer.param_groups]
        # Of the groups as a step has followed them, and of what `optimizer.state` shows.
        self._watch_of_groups, self._watch = None, self._watch_state({})
        self._take_over()

    def _own(self, parameter: torch.nn.Parameter, value: dict) -> torch.Tensor:
        """A tensor for the session to compute in: that of the optimizer's state, where it can."""
        found = self._optimizer.state.get(parameter, {}).get(value["slot"])
        if type(found) is torch.Tensor and (found.dtype, list(found.shape)) == (value["dtype"], list(value["shape"])):
            if found.device == parameter.device and not value["shards"] and can_be_adopted(found):
                return found
        return torch.zeros(value["shape"], dtype=value["dtype"], device=parameter.device)

    def _devices_of_counts(self) -> Iterator[tuple[torch.nn.Parameter, torch.device]]:
        """Where PyTorch's own step would have each parameter's count."""
        trained = {parameter for parameter, _ in self._tensors}
        for group in self._optimizer.param_groups:
            on_device = group.get("fused") or group.get("capturable")
            for parameter in group["params"]:
                if parameter in trained:
                    yield parameter, parameter.device if on_device else torch.device("cpu")

    def memory(self) -> dict[str, torch.Tensor]:
        """The tensors by the program's file names."""
        return self._file_names

    def tensors(self) -> dict[tuple[str, str], torch.Tensor]:
        """The tensors by parameter's name and slot."""
        return self._keys

    def has_other_numbers(self) -> bool:
        """See OptimizerStates."""
        return self._has_other_groups() and any(
            known is not None and found is not None and found[1] != known[1]
            for known, found in zip(self._numbers, map(changing_number, self._optimizer.param_groups))
        )

    def _has_other_groups(self) -> bool:
        return self._watch_of_groups is None or self._watch_of_groups.has_changed()

    def has_changed(self) -> bool:
        """Whether groups or state may be others than at the last step."""
        return self._has_other_groups() or self._watch.has_changed()

    def begin_step(self, session, places: set[int], first_number: int | None) -> None:
        """Follows or refuses what has changed.

        first_number: how many groups all optimizers have, where programs follow momenta and betas.
        """
        groups = self._optimizer.param_groups
        if len(groups) != len(self._groups) or any(
            len(group["params"]) != len(known) or not all(map(operator.is_, group["params"], known))
            for group, known in zip(groups, self._groups)
        ):
            raise Error(
                "the optimizer's parameter groups have changed since the step was compiled; close() the step and "
                "compile another one"
            )
        for number, group in enumerate(groups):
            follows = first_number is not None and self._numbers[number] is not None
            known, found = self._options[follows][number], self._fixed_options(group, follows)
            if known.keys() != found.keys():
                found = {**dict.fromkeys(known), **found}
            for option, value in found.items():
                if value != (expected := known.get(option)):
                    raise Error(
                        f"parameter group {number}: expected {option} = {expected}, as when the step was compiled, found "
                        f"{value}: only lr, momentum and the first beta may change; close() the step and compile another one"
                    )
            place = self._first_group + number
            if place in places:
                session.set_learning_rate(place, learning_rate(group, number))
            if follows and first_number + place in places:
                session.set_learning_rate(first_number + place, self._number(number, group))
        if self._is_replaced():
            self._take_over()
        if self._has_other_groups():
            self._watch_of_groups = self._watch_groups()

    def _watch_groups(self) -> Any:
        """None of groups with values that may change in place, as a tensor does."""
        groups = self._optimizer.param_groups
        values = [value for group in groups for name, value in group.items() if name != "params"]
        kinds = {type(each) for value in values for each in (value if type(value) is tuple else (value,))}
        if not kinds <= _PLAIN or {list} != {type(groups), *(type(group["params"]) for group in groups)}:
            return None
        entries = [(group, name, value) for group in groups for name, value in group.items()]
        return native().Watch(
            entries=[(vars(self._optimizer), "param_groups", groups), *entries], tables=groups,
            lists=[groups, *(group["params"] for group in groups)],
        )  # fmt: skip

    def end_step(self, number: int) -> None:
        self.steps = number
        if number == 1:
            self._show()
        self._count(number)

    def _number(self, number: int, group: dict) -> float:
        name, _ = self._numbers[number]
        found = changing_number(group)
        if found is None or found[0] != name:
            option = "betas" if name == "beta1" else name
            raise Error(
                f"parameter group {number}: expected {name} above 0{' and below 1' * (name == 'beta1')}, found {option} = "
                f"{group.get(option)}"
            )
        return found[1]

    @staticmethod
    def _fixed_options(group: dict, follows: bool) -> dict:
        """What may not change. follows: its momentum or first beta may."""
        left_out = ("params", "lr", "initial_lr")
        fixed = {k: _plain(v) for k, v in group.items() if k not in left_out}
        fixed = {k: v for k, v in fixed.items() if isinstance(v, (bool, int, float, tuple))}
        if follows and isinstance(fixed.get("betas"), tuple):
            fixed["betas"] = fixed["betas"][1:]
        elif follows:
            fixed.pop("momentum", None)
        return fixed

    def _is_replaced(self) -> bool:
        """Whether load_state_dict, or someone else, has put other tensors into the optimizer's state."""
        state = self._optimizer.state
        if self.steps == 0:
            return bool(state)
        if not self._watch.has_changed():
            return False
        return any(state.get(p, {}).get(slot) is not shown for (p, slot), shown in self._shown.items()) or any(
            state.get(p, {}).get("step") is not count or count._version != self._version
            for p, count in self._counts.items()
        )

    def _take_over(self) -> None:
        """Copies the optimizer's state into the session's memory, and shows that in its place."""
        state = self._optimizer.state
        if not any(state.get(p) for p, _ in self._tensors):
            for tensor in self._tensors.values():
                tensor.zero_()
            self.steps = 0
            self._watch = self._watch_state({})
            return
        counts = set()
        for (parameter, slot), tensor in self._tensors.items():
            found = state.get(parameter, {}).get(slot)
            shown = self._shown[parameter, slot]
            if found is None and self._begins_at_zero(parameter, slot):
                tensor.zero_()
                continue
            if not isinstance(found, torch.Tensor) or found.shape != shown.shape:
                raise Error(
                    f"the optimizer's state: expected {self._names[parameter, slot]} of shape {tuple(shown.shape)}, found "
                    + (f"shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else "none")
                    + self._about_new_parameters(parameter)
                )
            if found.device != shown.device:
                raise Error(
                    f"the optimizer's state: expected {self._names[parameter, slot]} on {shown.device}, where steps compute, "
                    f"found it on {found.device}"
                )
            if found is not shown:
                with torch.no_grad():
                    if type(found) is torch.Tensor and shown is not tensor:
                        tensor.copy_(self._ranks.part(found, self._values[parameter, slot]))  # a whole one, of a checkpoint
                    else:
                        shown.copy_(found)
        for parameter in self._counts:
            counts.add(int(state[parameter]["step"]))
        if len(counts) > 1:
            raise Error(
                f"the optimizer's state: expected the same step for all parameters, found {sorted(counts)}"
            )
        # Momentum of a loaded state is not that of a first step.
        self.steps = counts.pop() if counts else max(self.steps, 1)
        self._show()
        self._count(self.steps)

    def _begins_at_zero(self, parameter: torch.nn.Parameter, slot: str) -> bool:
        """Whether a later step, from zeros, makes the state that a parameter's first step would."""
        if slot != "momentum_buffer" or self._has_count:
            return False
        return any(p is parameter and not group.get("dampening") for group in self._optimizer.param_groups for p in group["params"])

    def _about_new_parameters(self, parameter: torch.nn.Parameter) -> str:
        if self._optimizer.state.get(parameter):
            return ""
        return (
            "; parameters that begin to train later, beside others that have a state, would count other steps than those: have "
            "them in the optimizer from the first step on, with lr=0 until they train, or begin with a new state for all "
            "(optimizer.state.clear())"
        )

    def _count(self, steps: int) -> None:
        """Writes the number of steps where others read it; all counts are written as often."""
        self._watch.count(steps)
        self._version = next((count._version for count in self._counts.values()), 0)

    def _show(self) -> None:
        """Puts the session's tensors into the optimizer's state."""
        shown = {**self._shown, **{(parameter, "step"): count for parameter, count in self._counts.items()}}
        for (parameter, slot), tensor in shown.items():
            self._optimizer.state[parameter][slot] = tensor
        self._watch = self._watch_state(shown)

    def _watch_state(self, shown: Mapping[tuple[torch.nn.Parameter, str], torch.Tensor]) -> Any:
        """shown: what the optimizer's state shows, by parameter and slot."""
        state = self._optimizer.state
        entries = [(state[parameter], slot, tensor) for (parameter, slot), tensor in shown.items()]
        return native().Watch(
            entries=[(vars(self._optimizer), "state", state), *entries], items=[state], counts=list(self._counts.values())
        )
