"""The update function: one optimizer op for each parameter that the optimizer holds."""

from __future__ import annotations

import math

import torch

from cleave.export.errors import ExportError
from cleave.export.roles import Role, State
from cleave.export.spec import ExportSpec
from cleave.export.text import Names, float_attribute, tensor_type


class UpdateWriter:
    """Checks an optimizer against a module's parameters and writes `@update` for it."""

    def __init__(self, spec: ExportSpec, state: State):
        self._schedule = spec.lr_schedule
        self._state = state
        self._kind = _kind(spec.optimizer)
        if spec.optimizer.state:
            raise ExportError("the optimizer has taken steps already; export with a fresh one")
        names = {id(parameter): name for name, parameter in state.parameters.items()}
        self._groups: dict[str, dict] = {}
        for group in spec.optimizer.param_groups:
            _check_group(spec.optimizer, group)
            for parameter in group["params"]:
                if id(parameter) not in names:
                    raise ExportError(
                        f"the optimizer holds a parameter of shape {tuple(parameter.shape)} that "
                        "the module does not have"
                    )
                self._groups[names[id(parameter)]] = group

    def write(self, gradients: list[str]) -> str:
        """`func.func @update`; `gradients` names the parameters that have one."""
        from cleave.export.program import function_text

        names = Names()
        updated = [n for n in self._state.parameters if n in self._groups and n in gradients]
        if not updated:
            raise ExportError("the optimizer holds no parameter that takes a gradient")
        types = {n: tensor_type(self._state.parameters[n]) for n in updated}
        slots = {n: self._slots(self._groups[n]) for n in updated}
        arguments, values = [], {}

        def add(key, wanted: str, type_: str, role: Role):
            values[key] = names.fresh(wanted)
            arguments.append((values[key], type_, role))

        for n in updated:
            add(("parameter", n), n, types[n], self._state.parameter_role(n))
        for n in updated:
            add(("gradient", n), f"grad.{n}", types[n], Role("gradient", n))
        for n in updated:
            for slot in slots[n]:
                add((slot, n), f"{slot}.{n}", types[n], state_role(n, slot))
        add("step", "step", "tensor<f32>", Role("step"))

        body, rates, results = [], {}, []
        for n in updated:
            lr = float(self._groups[n]["lr"])
            if lr not in rates:
                rates[lr] = names.fresh("lr")
                body.append(
                    f"{rates[lr]} = train.learning_rate({values['step']}) {{base = "
                    f"{float_attribute(lr)}, schedule = {self._schedule.attribute()}}} : "
                    "(tensor<f32>) -> tensor<f64>"
                )
            outputs = [names.fresh(f"new.{n}")] + [names.fresh(f"new.{s}.{n}") for s in slots[n]]
            operands = [values["parameter", n], values["gradient", n]]
            operands += [values[slot, n] for slot in slots[n]] + [values["step"], rates[lr]]
            body.append(
                f"{', '.join(outputs)} = train.{self._kind}({', '.join(operands)}) "
                f"{{{self._attributes(self._groups[n])}}} : {types[n]}"
            )
            results.append((outputs[0], types[n], self._state.parameter_role(n)))
            results += [
                (value, types[n], state_role(n, slot)) for value, slot in zip(outputs[1:], slots[n])
            ]
        return function_text(
            "update", arguments, results, ["train.phase = #train.phase<update>"], body
        )

    def _slots(self, group: dict) -> list[str]:
        if self._kind == "adamw":
            return ["exp_avg", "exp_avg_sq"]
        return ["momentum_buffer"] if group["momentum"] else []

    def _attributes(self, group: dict) -> str:
        if self._kind == "adamw":
            beta1, beta2 = group["betas"]
            numbers = {"beta1": beta1, "beta2": beta2, "eps": group["eps"]}
        else:
            numbers = {"momentum": group["momentum"], "dampening": group["dampening"]}
        numbers["weight_decay"] = group["weight_decay"]
        parts = [f"{name} = {float_attribute(float(value))}" for name, value in numbers.items()]
        if self._kind == "sgd":
            parts.append(f"nesterov = {'true' if group['nesterov'] else 'false'}")
        return ", ".join(parts)


def state_role(parameter: str, slot: str) -> Role:
    return Role("optimizer_state", parameter, f' slot "{slot}"')


def _kind(optimizer: torch.optim.Optimizer) -> str:
    # Without weight decay AdamW and Adam are the same computation.
    if type(optimizer) in (torch.optim.AdamW, torch.optim.Adam):
        return "adamw"
    if type(optimizer) is torch.optim.SGD:
        return "sgd"
    raise ExportError(
        f"expected torch.optim.AdamW, Adam without weight decay, or SGD as optimizer, found "
        f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    )


def _check_group(optimizer: torch.optim.Optimizer, group: dict):
    name = type(optimizer).__name__
    for option, value in group.items():
        for number in value if option == "betas" else [value]:
            if isinstance(number, (float, torch.Tensor)) and not math.isfinite(number):
                raise ExportError(f"{name} has {option} = {value}; expected finite numbers")
    for option in ("amsgrad", "maximize"):
        if group.get(option):
            raise ExportError(f"{name}({option}=True) is not supported")
    if type(optimizer) is torch.optim.Adam and group["weight_decay"]:
        if not group.get("decoupled_weight_decay"):
            raise ExportError(
                "Adam with weight decay is not supported; use AdamW, which decouples it"
            )
