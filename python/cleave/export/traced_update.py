"""Steps of optimizers without a fused kernel: the tensor ops and the arithmetic of their `step`."""

from __future__ import annotations

import string as letters
from typing import Any

import torch

from cleave.export.errors import ExportError
from cleave.export.operators import (
    OperatorWriter,
    RunTimeNumber,
    as_scalar_overload,
    bind,
    check_call,
    has_number_for_tensor,
    kernel_result_types,
    with_default_dtype,
)
from cleave.export.pytorch import OpOverload
from cleave.export.schedulers import GroupRates
from cleave.export.step_values import (
    CONSTANT,
    GRADIENT,
    HYPERPARAMETER,
    ITEM,
    PARAMETER,
    RATE,
    RESULT,
    STATE,
    STEP,
    STEP_TENSOR,
    Value,
    Values,
    operands,
)
from cleave.export.text import Unsupported, float_attribute, tensor_type
from cleave.export.traced_step import TracedStep, has_counted, initial_states, trace_step
from cleave.export.update_text import UpdateText

aten = torch.ops.aten


class TracedUpdate:
    """The steps of one optimizer.

    slots: of each parameter, the types of its states.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, rates: list[GroupRates], names: dict[int, str], updated: set[str]
    ):
        self._optimizer = optimizer
        self._rates = rates
        self._values = Values()
        parameters = [
            parameter
            for group in optimizer.param_groups
            for parameter in group["params"]
            if names[id(parameter)] in updated
        ]
        kind = type(optimizer).__name__
        if any(parameter.is_complex() for parameter in parameters):
            raise ExportError(f"{kind} holds a complex parameter; expected AdamW, Adam or SGD for it, without foreach=False")
        if has_counted([optimizer.state[p] for p in parameters if p in optimizer.state]):
            raise ExportError("the optimizer has taken steps already; export with a fresh one")
        for name, value in vars(optimizer).items():
            for part in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(part, torch.optim.Optimizer):
                    raise ExportError(
                        f"{kind} holds another optimizer ({type(part).__name__}, its '{name}'); expected one that keeps all state "
                        "itself, or a list of optimizers for different parameters"
                    )
        # PyTorch's own treat each parameter by itself: one trace for all that are alike. Others may not.
        separate = type(optimizer).__module__.split(".")[0] == "torch"
        self._units: list[tuple[list[str], TracedStep]] = []
        known: dict[Any, TracedStep] = {}
        for unit in [[parameter] for parameter in parameters] if separate else [parameters]:
            key = self._describe(unit) if separate else None
            if key not in known:
                known[key] = self._trace(unit)
            self._units.append(([names[id(parameter)] for parameter in unit], known[key]))
        self.slots: dict[str, dict[str, str]] = {}
        for unit, traced in self._units:
            for name, states in zip(unit, traced.states):
                self.slots[name] = {slot: tensor_type(value.fake) for slot, value in states.items()}

    @property
    def counted(self) -> set[str]:
        """The options of parameter groups that count steps."""
        return {name for _, traced in self._units for name in traced.counted}

    def _describe(self, unit: list[torch.Tensor]) -> Any:
        """What the step of a parameter depends on."""
        (parameter,) = unit
        group = next(
            i for i, g in enumerate(self._optimizer.param_groups) if any(p is parameter for p in g["params"])
        )
        return group, tuple(parameter.shape), parameter.stride(), parameter.dtype

    def _trace(self, unit: list[torch.Tensor]) -> TracedStep:
        states = [dict(self._optimizer.state[p]) if p in self._optimizer.state else {} for p in unit]
        kind = type(self._optimizer).__name__
        try:
            return trace_step(self._optimizer, unit, self._rates, self._values, initial_states(states, self._values))
        except ExportError as error:
            raise ExportError(f"cannot trace the step of {kind}: {error}") from None
        except Exception as error:
            text = (str(error).splitlines() or [""])[0]
            raise ExportError(f"cannot trace the step of {kind}: {type(error).__name__}: {text}") from error

    def write(self, text: UpdateText):
        # Numbers that depend on no parameter are computed once.
        shared: dict[Value, Any] = {}
        for unit, traced in self._units:
            writer = StepWriter(text, unit, self._rates, shared)
            for name, value, states in zip(unit, traced.parameters, traced.states):
                text.results["parameter", name] = writer.result(value, f"new.{name}")
                for slot, state in states.items():
                    text.results[slot, name] = writer.result(state, f"new.{slot}.{name}")


class StepWriter:
    """Writes the Values of one traced step; `shared` has the SSA names of those that all steps share."""

    def __init__(self, text: UpdateText, unit: list[str], rates: list[GroupRates], shared: dict[Value, str]):
        self._text = text
        self._unit = unit
        self._rates = rates
        self._shared = shared
        self._own: dict[Value, str] = {}
        self._graph = torch.fx.Graph()  # whose nodes stand for tensors where operators are written
        self._nodes: dict[torch.fx.Node, Value] = {}
        self._writer = OperatorWriter(
            lambda node: self._name(self._nodes[node]), lambda node: tensor_type(node.meta["val"])
        )

    def result(self, value: Value, name: str) -> str:
        """The SSA name of a result of the function, which is no other value of its signature."""
        stack = [value]
        while stack:
            top = stack[-1]
            missing = [each for each in operands(top) if not self._is_written(each)]
            stack += reversed(missing)
            if not missing and not self._is_written(stack.pop()):
                table = self._own if top.parameters else self._shared
                table[top] = self._write(top)
        found = self._name(value)
        if found in self._text.values.values() or found in self._text.results.values():
            copy, type_ = self._text.names.fresh(name), tensor_type(value.fake)
            self._text.body.append(f"{copy} = aten.clone({found}) : ({type_}) -> {type_}")
            return copy
        return found

    def _is_written(self, value: Value) -> bool:
        return value in self._own or value in self._shared

    def _name(self, value: Value) -> str:
        return self._own[value] if value in self._own else self._shared[value]

    def _write(self, value: Value) -> str:
        """Appends the op; returns its SSA name."""
        values = self._text.values
        if value.op in (PARAMETER, GRADIENT):
            return values[value.op, self._unit[value.args[0]]]
        if value.op == STATE:
            return values[value.args[1], self._unit[value.args[0]]]
        if value.op == STEP_TENSOR and value.fake.dtype == torch.float32:
            return values["step"]
        if value.op == STEP_TENSOR:
            return self._emit("step", f"aten._to_copy({values['step']}, dtype = f64) : (tensor<f32>) -> tensor<f64>")
        if value.op == RATE:
            return self._emit("rate", _item(self._text.learning_rate(self._rates[value.args[0]].rate), "tensor<f64>"))
        if value.op == HYPERPARAMETER:
            group, name = value.args
            return self._emit(name, _item(self._text.hyperparameter(name, self._rates[group].scheduled[name]), "tensor<f64>"))
        if value.op == STEP:
            return self._emit("count", _item(values["step"], "tensor<f32>"))
        if value.op == CONSTANT:
            return self._emit("number", f"arith.constant {float_attribute(value.args[0])}")
        if value.op == ITEM:
            return self._emit("item", _item(self._name(value.args[0]), tensor_type(value.args[0].fake)))
        if value.op == RESULT:
            return f"{self._name(value.args[0])}#{value.args[1]}"
        if isinstance(value.op, str):
            arguments = ", ".join(map(self._name, value.args))
            type_ = "i1" if value.op == "arith.select" and value.is_boolean else "f64"
            return self._emit(value.op.split(" ")[0].partition(".")[2], f"{value.op}{_joint(value.op)}{arguments} : {type_}")
        return self._write_call(value)

    def _emit(self, wanted: str, text: str, results: int = 1) -> str:
        name = self._text.names.fresh(wanted)
        self._text.body.append(f"{name if results == 1 else f'{name}:{results}'} = {text}")
        return name

    def _write_call(self, value: Value) -> str:
        overload = value.op
        try:
            arguments = [self._argument(argument) for argument in value.args]
            bound = bind(overload, arguments, {name: self._argument(v) for name, v in value.kwargs})
            check_call(overload, bound)
            bound = with_default_dtype(overload, bound, value.fake)
            if has_number_for_tensor(overload, bound):
                overload = as_scalar_overload(overload, bound)
                if overload is None:
                    raise Unsupported(f"a number where {value.op} takes a tensor")
            rule = _pointwise_rule(overload, bound, value.fake)
            text, operand_types = self._writer.write(overload, bound, value.fake, rule)
            types = kernel_result_types(overload, value.fake, bound, lambda node: tensor_type(node.meta["val"]))
        except Unsupported as error:
            raise ExportError(f"cannot export '{value.op}' of the optimizer's step: found {error}") from None
        result = types[0] if len(types) == 1 else f"({', '.join(types)})"
        return self._emit(overload.overloadpacket.__name__, f"{text} : ({operand_types}) -> {result}", len(types))

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, tuple):
            return [self._argument(item) for item in argument]
        if not isinstance(argument, Value):
            return argument
        if argument.is_number:
            return RunTimeNumber(self._name(argument), "i1" if argument.is_boolean else "f64")
        node = self._graph.placeholder("tensor")
        node.meta["val"] = argument.fake
        self._nodes[node] = argument
        return node


def _item(tensor: str, type_: str) -> str:
    return f"aten.item({tensor}) : ({type_}) -> f64"


def _joint(op: str) -> str:
    """What stands between the name of an op on numbers and its operands: a predicate ends in a comma."""
    return ", " if " " in op else " "


def _pointwise_rule(overload: OpOverload, bound: dict[str, Any], result: Any) -> str | None:
    """The sharding rule of an operator that treats each element by itself, of which programs know only the schema."""
    is_pointwise = torch.Tag.pointwise in overload.tags or overload is aten.full_like.default
    shapes = [tuple(v.meta["val"].shape) for v in bound.values() if isinstance(v, torch.fx.Node)]
    if not is_pointwise or not shapes or not isinstance(result, torch.Tensor) or result.dim() > len(letters.ascii_letters):
        return None
    names = letters.ascii_letters[: result.dim()]

    def dims(shape: tuple[int, ...]) -> str:
        aligned = zip(names[len(names) - len(shape) :], shape, result.shape[len(names) - len(shape) :])
        return "".join(name if size == whole else "1" for name, size, whole in aligned)

    return f"{', '.join(map(dims, shapes))} -> {names}"
