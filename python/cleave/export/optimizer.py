"""The update function: the steps of the optimizers for all parameters that they hold."""

from __future__ import annotations

import dataclasses
import math
import string

import torch

from cleave.export.averages import add_slots, write_averages
from cleave.export.errors import ExportError
from cleave.export.roles import Role, State
from cleave.export.schedulers import GroupRates, changing_number, group_rates, table_attribute
from cleave.export.spec import ExportSpec
from cleave.export.text import Names, element_type, float_attribute, tensor_type
from cleave.export.traced_update import TracedUpdate
from cleave.export.update_text import UpdateText, state_role

# They take a closure, or gradients that programs do not have.
_REFUSED = {
    torch.optim.LBFGS: "calls a closure several times a step",
    torch.optim.SparseAdam: "takes sparse gradients",
}


class UpdateWriter:
    """Checks the optimizers against a module's parameters and writes `@update` for them."""

    def __init__(self, spec: ExportSpec, state: State):
        self._state = state
        self._average = spec.ema
        self._accumulate_in = spec.accumulate_in
        self._optimizers = list(spec.optimizers)
        self._rates: list[list[GroupRates]] = []
        self._names = {id(parameter): name for name, parameter in state.parameters.items()}
        holders: dict[str, torch.optim.Optimizer] = {}
        for optimizer, schedule in zip(self._optimizers, spec.lr_schedules):
            _check_optimizer(optimizer)
            for group in optimizer.param_groups:
                _check_group(optimizer, group)
                for parameter in group["params"]:
                    if id(parameter) not in self._names:
                        raise ExportError(
                            f"the optimizer holds a parameter of shape {tuple(parameter.shape)} that "
                            "the module does not have"
                        )
                    name = self._names[id(parameter)]
                    if holders.setdefault(name, optimizer) is not optimizer:
                        raise ExportError(f"two optimizers hold parameter '{name}'; expected one")
            self._rates.append(group_rates(optimizer, schedule, spec.schedule_steps))
        self._follows_groups = spec.group_rates
        if spec.group_rates:
            self._number_groups(spec.group_numbers)
        self._held = set(holders)

    def _number_groups(self, has_numbers: bool):
        """Has the rates name their parameter groups, in the order of the optimizers; and so what a scheduler may change
        besides, which is counted after them."""
        first, total = 0, sum(map(len, self._rates))
        for index, rates in enumerate(self._rates):
            self._rates[index] = [
                dataclasses.replace(
                    its, rate=f"{its.rate}, group = {number} : i64",
                    scheduled={**its.scheduled, **_numbered(its.options, total + number)} if has_numbers else its.scheduled,
                )
                for number, its in enumerate(rates, first)
            ]  # fmt: skip
            first += len(rates)

    def write(self, gradients: list[str]) -> str:
        """`func.func @update`; `gradients` names the parameters that have one."""
        from cleave.export.graph_writer import function_text

        updated = [n for n in self._state.parameters if n in self._held and n in gradients]
        if not updated:
            raise ExportError("the optimizer holds no parameter that takes a gradient")
        updates = [self._update(*pair, set(updated)) for pair in zip(self._optimizers, self._rates)]
        slots = {name: types for update in updates for name, types in update.slots.items()}

        names = Names()
        arguments, values = [], {}

        def add(key, wanted: str, type_: str, role: Role):
            values[key] = names.fresh(wanted)
            arguments.append((values[key], type_, role))

        types = {n: tensor_type(self._state.parameters[n]) for n in updated}
        if self._average is not None:
            slots = add_slots(slots, types)
        for n in updated:
            add(("parameter", n), n, types[n], self._state.parameter_role(n))
        sums = {n: gradient_type(self._state.parameters[n], self._accumulate_in) for n in updated}
        for n in updated:
            add(("gradient", n), f"grad.{n}", sums[n], Role("gradient", n))
        for n in updated:
            for slot, type_ in slots[n].items():
                add((slot, n), f"{slot}.{n}", type_, state_role(n, slot))
        add("step", "step", "tensor<f32>", Role("step"))

        text = UpdateText(names, values)
        for n in updated:
            if sums[n] != types[n]:
                element = element_type(self._state.parameters[n].dtype)
                narrow = names.fresh(f"narrow.{n}")
                # By a rule that is not linear: terms of a sum over ranks are not rounded before they are added.
                dims = string.ascii_letters[: self._state.parameters[n].dim()]
                text.body.append(
                    f'{narrow} = aten.call "aten::_to_copy" sharded "{dims} -> {dims}"'
                    f"(self = {values['gradient', n]}, dtype = {element}) : ({sums[n]}) -> {types[n]}"
                )
                values["gradient", n] = narrow
        for update in updates:
            update.write(text)
        if self._average is not None:
            # After all steps: passes move these past each other.
            write_averages(self._average, text, {n: self._state.parameters[n] for n in updated})
        results = []
        for n in updated:
            results.append((text.results["parameter", n], types[n], self._state.parameter_role(n)))
            results += [(text.results[slot, n], type_, state_role(n, slot)) for slot, type_ in slots[n].items()]
        return function_text("update", arguments, results, ["train.phase = #train.phase<update>"], text.body)

    def _update(
        self, optimizer: torch.optim.Optimizer, rates: list[GroupRates], updated: set[str]
    ) -> FusedUpdate | TracedUpdate:
        kind = fused_kind(optimizer)
        if kind is None:
            update = TracedUpdate(optimizer, rates, self._names, updated)
            if update.counted and self._follows_groups:
                raise ExportError(
                    f"{type(optimizer).__name__} counts steps in '{min(update.counted)}' of its parameter groups, which a compiled "
                    "step leaves as they are; expected it in the state of parameters"
                )
            return update
        if optimizer.state:
            raise ExportError("the optimizer has taken steps already; export with a fresh one")
        return FusedUpdate(kind, optimizer, rates, self._names, updated, self._state)


def _numbered(group: dict, number: int) -> dict[str, str]:
    """The schedule of a group's momentum or first beta, as one that the caller sets."""
    found = changing_number(group)
    return {} if found is None else {found[0]: f"{table_attribute([found[1]], settles=True)}, group = {number} : i64"}


def gradient_type(parameter: torch.Tensor, accumulate_in: torch.dtype | None) -> str:
    """The type in which a parameter's gradient is added up over a step."""
    is_narrow = parameter.dtype in (torch.bfloat16, torch.float16)
    wide = accumulate_in if is_narrow and accumulate_in else parameter.dtype
    return tensor_type(torch.empty_like(parameter, dtype=wide, device="meta"))


class FusedUpdate:
    """Steps that are one op for each parameter, executed by PyTorch's fused kernels.

    slots: of each parameter, the types of its states.
    """

    def __init__(
        self, kind: str, optimizer, rates: list[GroupRates], names: dict[int, str], updated: set[str], state: State
    ):
        self._kind = kind
        self._groups = {
            names[id(parameter)]: its
            for group, its in zip(optimizer.param_groups, rates)
            for parameter in group["params"]
            if names[id(parameter)] in updated
        }
        # In the order of the module, as everywhere.
        self._groups = {name: self._groups[name] for name in state.parameters if name in self._groups}
        self._types = {name: tensor_type(state.parameters[name]) for name in self._groups}
        self.slots = {
            name: dict.fromkeys(self._slots(group), self._types[name]) for name, group in self._groups.items()
        }

    def write(self, text: UpdateText):
        for n, group in self._groups.items():
            rate = text.learning_rate(group.rate)
            scheduled = "".join(f" {name} {text.hyperparameter(name, its)}" for name, its in group.scheduled.items())
            slots = list(self.slots[n])
            outputs = [text.names.fresh(f"new.{n}")] + [text.names.fresh(f"new.{s}.{n}") for s in slots]
            operands = [text.values["parameter", n], text.values["gradient", n]]
            operands += [text.values[slot, n] for slot in slots] + [text.values["step"], rate]
            text.body.append(
                f"{', '.join(outputs)} = train.{self._kind}({', '.join(operands)}){scheduled} "
                f"{{{self._attributes(group)}}} : {self._types[n]}"
            )
            text.results["parameter", n] = outputs[0]
            text.results.update({(slot, n): output for slot, output in zip(slots, outputs[1:])})

    def _slots(self, group: GroupRates) -> list[str]:
        if self._kind == "adamw":
            return ["exp_avg", "exp_avg_sq"]
        return ["momentum_buffer"] if group.options["momentum"] or "momentum" in group.scheduled else []

    def _attributes(self, rates: GroupRates) -> str:
        group = rates.options
        if self._kind == "adamw":
            beta1, beta2 = group["betas"]
            numbers = {"beta1": beta1, "beta2": beta2, "eps": group["eps"]}
        else:
            numbers = {"momentum": group["momentum"], "dampening": group["dampening"]}
        numbers["weight_decay"] = group["weight_decay"]
        for scheduled in rates.scheduled:
            del numbers[scheduled]
        parts = [f"{name} = {float_attribute(float(value))}" for name, value in numbers.items()]
        if self._kind == "sgd":
            parts.append(f"nesterov = {'true' if group['nesterov'] else 'false'}")
        return ", ".join(parts)


def fused_kind(optimizer: torch.optim.Optimizer) -> str | None:
    """The op of `train` that is a step of the optimizer; None if there is none with its options."""
    groups = optimizer.param_groups
    if any(group.get(option) for group in groups for option in ("amsgrad", "maximize")):
        return None
    # Asked for by name, the ordinary implementation is followed: its bits are not the fused kernels'.
    if any(group.get("foreach") is False and not group.get("fused") for group in groups):
        return None
    if type(optimizer) is torch.optim.SGD:
        return "sgd"
    if type(optimizer) is torch.optim.AdamW:
        return "adamw"
    # Without weight decay AdamW and Adam are the same computation.
    if type(optimizer) is torch.optim.Adam and all(
        group.get("decoupled_weight_decay") or not group["weight_decay"] for group in groups
    ):
        return "adamw"
    return None


def _check_optimizer(optimizer: torch.optim.Optimizer):
    for kind, reason in _REFUSED.items():
        if isinstance(optimizer, kind):
            raise ExportError(
                f"{kind.__name__} {reason}, which programs cannot do; expected an optimizer with step() over dense gradients"
            )


def _check_group(optimizer: torch.optim.Optimizer, group: dict):
    name = type(optimizer).__name__
    for option, value in group.items():
        if option == "params":
            continue
        for number in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(number, (float, torch.Tensor)) and not math.isfinite(number):
                raise ExportError(f"{name} has {option} = {value}; expected finite numbers")
