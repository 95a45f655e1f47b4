"""One run of an optimizer's step over tensors without data: what it computes, as Values."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import inspect
from typing import Any

import torch

from cleave.export.errors import ExportError
from cleave.export.operators import argument_types
from cleave.export.pytorch import FakeTensor, FakeTensorMode, OpOverload, TorchDispatchMode, unset_fake_temporarily
from cleave.export.schedulers import GroupRates
from cleave.export.step_numbers import Number, Recording, recorded_math
from cleave.export.step_values import (
    BEFORE,
    GRADIENT,
    HYPERPARAMETER,
    ITEM,
    PARAMETER,
    RATE,
    RESULT,
    Value,
    Values,
)

aten = torch.ops.aten

# They give their operand, whose memory is nobody's business in a program.
_SAME_VALUE = {aten.detach.default, aten.alias.default, aten.lift_fresh.default}
_COPIES = {aten.clone.default, aten.lift_fresh_copy.default}
# Options that choose among implementations of one computation: programs have the ordinary one.
_IMPLEMENTATION = {"foreach": False, "fused": False, "capturable": False}


@dataclasses.dataclass
class StepResults:
    """What a step computes for each parameter. A state is a Value, or what Python keeps there.

    counts: by number of parameter group, the numbers among its options that the step changed.
    """

    parameters: list[Value]
    states: list[dict[str, Any]]
    counts: dict[int, dict[str, Value]]


@dataclasses.dataclass
class _Cell:
    """What a tensor holds at this point of the step. Aliases of it share the cell; a view has one of its own."""

    value: Value
    version: int = 0
    base: _Cell | None = None
    base_version: int = 0
    is_lost: bool = False  # changed through a view


class _Recorder(TorchDispatchMode):
    """own: the optimizer's parameters, in whose place the step sees others."""

    def __init__(self, recording: Recording, own: list[torch.Tensor]):
        super().__init__()
        self._recording = recording
        self._own = {id(parameter) for parameter in own}
        self._values = recording.values
        self._cells: dict[int, tuple[torch.Tensor, _Cell]] = {}  # the tensors live as long, so that ids are theirs

    def define(self, tensor: torch.Tensor, value: Value):
        self._cells[id(tensor)] = tensor, _Cell(value)

    def read(self, tensor: torch.Tensor) -> Value:
        cell = self._cell(tensor)
        if cell.is_lost or (cell.base and cell.base.version != cell.base_version):
            raise ExportError("it changes a tensor or a view of it, and then uses the other one")
        return cell.value

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace in ("prim", "profiler"):
            return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:
            return self._item(args[0])
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise ExportError(f"it draws random numbers ({func})")
        if func is aten.lift_fresh.default and not isinstance(args[0], FakeTensor):
            constant = func(*args, **kwargs)
            self.define(constant, self._constant(args[0]))
            return constant
        if func._schema.is_mutable:
            return self._change(func, args, kwargs)
        result = _run(func, args, kwargs)
        if func in _SAME_VALUE:
            self._cells[id(result)] = result, self._cell(args[0])
        else:
            self._define_results(func, args, kwargs, result)
        return result

    def _item(self, tensor: torch.Tensor) -> Number:
        if not tensor.is_floating_point():
            raise ExportError(
                "it takes a branch on the values of a tensor, or reads integers from one; expected torch.where for the former"
            )
        return self._recording.number(self._values.make(ITEM, (self.read(tensor),)))

    def _constant(self, tensor: torch.Tensor) -> Value:
        with unset_fake_temporarily():
            elements = set(tensor.flatten().tolist())
        if len(elements) != 1 or tensor.is_complex():
            raise ExportError(f"it uses a constant tensor of shape {tuple(tensor.shape)}; expected equal elements")
        return self._values.filled(elements.pop(), tensor)

    def _cell(self, tensor: torch.Tensor) -> _Cell:
        if id(tensor) not in self._cells:
            if id(tensor) in self._own:
                raise ExportError(
                    "it uses parameters that it does not have from self.param_groups, as the step of an optimizer inside of it does"
                )
            if isinstance(tensor, FakeTensor):
                raise ExportError(
                    f"it uses a tensor of shape {tuple(tensor.shape)} that is neither a parameter, a gradient nor their state"
                )
            self.define(tensor, self._constant(tensor))
        return self._cells[id(tensor)][1]

    def _values_of(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return self.read(argument)
        if isinstance(argument, torch.SymFloat):
            return argument.node.value
        if isinstance(argument, (list, tuple)):
            return tuple(map(self._values_of, argument))
        return argument

    def _apply(self, func: OpOverload, args, kwargs, result: Any) -> Value:
        values = self._values_of(args)
        if func in _COPIES:
            return values[0]
        if func is aten.index_put.default and not kwargs and len(args) == 3:
            # `x[mask] = number`
            mask = args[1][0]
            is_mask = len(args[1]) == 1 and mask.dtype == torch.bool and mask.shape == args[0].shape
            if is_mask and args[2].numel() == 1 and args[2].dim() == 0:
                return self._values.make(aten.masked_fill.Tensor, (values[0], values[1][0], values[2]), fake=result)
        return self._values.make(func, values, {n: self._values_of(v) for n, v in kwargs.items()}, result)

    def _define_results(self, func: OpOverload, args, kwargs, result: Any):
        value = self._apply(func, args, kwargs, result)
        is_view = any(returned.alias_info is not None for returned in func._schema.returns)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        for index, tensor in enumerate(results):
            if not isinstance(tensor, torch.Tensor):
                raise ExportError(f"it calls {func}, which gives more than tensors")
            each = value
            if isinstance(result, (list, tuple)):
                each = self._values.make(RESULT, (value, index), fake=tensor)
            cell = _Cell(each)
            if is_view:
                cell.base = self._cell(args[0])
                cell.base_version = cell.base.version
            self._cells[id(tensor)] = tensor, cell

    def _change(self, func: OpOverload, args, kwargs):
        """An operator that changes a tensor computes its next value."""
        functional, arguments, named, target = _functional(func, args, kwargs)
        cell = self._cell(target)
        if cell.base:
            # From here on the view stands alone.
            self.read(target)
            cell.base.is_lost = True
            cell.base.version += 1
            cell.base = None
        if functional is aten.copy.default and _is_like(target, args[1]):
            value = self.read(args[1])
        else:
            made = _run(functional, arguments, named)
            value = self._apply(functional, arguments, named, made)
            if not isinstance(made, torch.Tensor) or made.shape != target.shape:
                raise ExportError(f"it calls {func}, which changes more than one tensor, or its shape")
            if made.dtype != target.dtype:
                value = self._values.make(aten._to_copy.default, (value,), {"dtype": target.dtype}, target)
        result = _run(func, args, kwargs)
        cell.value = value
        cell.version += 1
        return result


def _run(func: OpOverload, args, kwargs) -> Any:
    """Calls the operator for its result's shape and dtype, which are the same whatever the numbers are."""

    def plain(argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return type(argument)(map(plain, argument))
        return 0.5 if isinstance(argument, torch.SymFloat) else argument

    return func(*plain(args), **{name: plain(argument) for name, argument in kwargs.items()})


def _is_like(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return tensor.shape == other.shape and tensor.dtype == other.dtype


def _functional(func: OpOverload, args, kwargs) -> tuple[OpOverload, tuple, dict, torch.Tensor]:
    """The operator without the change, its arguments, and the tensor that `func` changes."""
    schema = func._schema
    changed = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    packet = schema.name.split("::")[1]
    if len(changed) == 1 and changed[0].is_out:
        named = {key: value for key, value in kwargs.items() if key != changed[0].name}
        target = kwargs[changed[0].name]
    elif len(changed) == 1 and packet.endswith("_") and changed[0].name == schema.arguments[0].name:
        packet, named, target = packet[:-1], kwargs, args[0]
    else:
        raise ExportError(f"it calls {func}, which changes its arguments")
    if packet == "zero":
        return aten.zeros_like.default, (target,), {}, target
    if packet == "fill":
        return aten.full_like.default, (target, args[1]), {}, target
    wanted = {name: type_ for name, type_ in argument_types(func).items() if not changed[0].is_out or name != changed[0].name}
    family = getattr(getattr(torch.ops, func.namespace), packet, None)
    for overload in [getattr(family, name) for name in family.overloads()] if family else ():
        if argument_types(overload) == wanted and not overload._schema.is_mutable and isinstance(target, torch.Tensor):
            return overload, args, named, target
    raise ExportError(f"it calls {func}, which has no form that changes nothing")


class _NumbersToTensors(torch.overrides.TorchFunctionMode):
    """Functions of PyTorch that would ask for the value of a Number."""

    def __init__(self, recording: Recording):
        super().__init__()
        self._recording = recording

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.as_tensor, torch.tensor, torch.scalar_tensor) and args and isinstance(args[0], Number):
            return torch.full((), args[0], dtype=kwargs.get("dtype") or torch.get_default_dtype())
        if getattr(func, "__name__", "").startswith("_foreach_"):
            return _one_by_one(func.__name__.removeprefix("_foreach_"), args, kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, torch.SymFloat) and not isinstance(result, Number):
            return self._recording.number(result.node.value)
        return result


# Methods of tensors that have another name than the function of lists of them.
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _one_by_one(name: str, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor] | None:
    """`torch._foreach_NAME` as a method of each tensor, which computes the same bits."""
    if name == "norm":
        function = torch.linalg.vector_norm
    else:
        plain = name.removesuffix("_")
        function = getattr(torch.Tensor, _METHODS.get(plain, plain) + name[len(plain) :], None)
    if function is None:
        raise ExportError(f"it calls torch._foreach_{name}, which no method of a tensor does")
    results = []
    for index, tensor in enumerate(args[0]):
        own = [each[index] if isinstance(each, (list, tuple)) else each for each in args[1:]]
        named = {key: each[index] if isinstance(each, (list, tuple)) else each for key, each in kwargs.items()}
        if name.removesuffix("_") in ("addcmul", "addcdiv") and len(own) == 3:
            named["value"] = own.pop()
        results.append(function(tensor, *own, **named))
    return None if name.endswith("_") else results


def run_step(
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.Tensor],
    groups: list[GroupRates],
    states: list[dict[str, Any]],
    recording: Recording,
    counted: dict[int, list[str]],
) -> StepResults:
    """Runs `step` on a copy of the optimizer, for these of its parameters.

    groups: the options of each parameter group, and which of them change from step to step.
    states: what there is of each of them before the step: Values, and what else Python keeps there.
    counted: by number of parameter group, the options that count steps.
    """
    values = recording.values
    own_parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    with contextlib.ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        recorder = _Recorder(recording, own_parameters)

        def tensor(value: Value) -> torch.Tensor:
            made = torch.empty(value.fake.shape, dtype=value.fake.dtype)
            recorder.define(made, value)
            return made

        def state(entry: Any) -> Any:
            if not isinstance(entry, Value):
                return entry
            return recording.number(entry) if entry.is_number else tensor(entry)

        copies, options = {}, []
        for i, parameter in enumerate(parameters):
            copies[id(parameter)] = tensor(values.make(PARAMETER, (i,), fake=parameter.detach()))
            copies[id(parameter)].requires_grad_()
            copies[id(parameter)].grad = tensor(values.make(GRADIENT, (i,), fake=parameter.detach()))
        for number, group in enumerate(optimizer.param_groups):
            kept = [copies[id(parameter)] for parameter in group["params"] if id(parameter) in copies]
            plain = {name: value for name, value in _IMPLEMENTATION.items() if name in group}
            changing = {"lr": recording.number(values.make(RATE, (number,)))} if group.get("lr") is not None else {}
            for name in groups[number].scheduled:
                changing[name] = recording.number(values.make(HYPERPARAMETER, (number, name)))
            changing |= {name: recording.number(values.make(BEFORE)) for name in counted.get(number, ())}
            set_by_scheduler = {**group, **groups[number].options}
            if "beta1" in changing:
                changing["betas"] = (changing.pop("beta1"), *set_by_scheduler["betas"][1:])
            options.append({**set_by_scheduler, **plain, **changing, "params": kept})
        traced = object.__new__(type(optimizer))  # copy.copy would keep what is pickled
        vars(traced).update(vars(optimizer))
        traced.param_groups = [dict(group) for group in options if group["params"]]
        traced.state = collections.defaultdict(dict)
        for parameter, entries in zip(parameters, states):
            if entries:
                traced.state[copies[id(parameter)]] = {slot: state(entry) for slot, entry in entries.items()}
        before = dict(vars(traced))

        for mode in (recorder, _NumbersToTensors(recording), torch.no_grad(), recorded_math()):
            stack.enter_context(mode)
        _plain_step(type(optimizer))(traced)
        held = [number for number, group in enumerate(options) if group["params"]]
        counts = dict(zip(held, _find_counts(traced, before, [options[number] for number in held], values)))

        def result(entry: Any) -> Any:
            if isinstance(entry, torch.Tensor):
                return recorder.read(entry)
            if isinstance(entry, Number):
                return entry.value
            if isinstance(entry, (int, float)) and not isinstance(entry, bool):
                return values.number(entry)
            if entry is None or isinstance(entry, (bool, str)):
                return entry
            raise ExportError(f"it keeps a {type(entry).__name__} as state; expected tensors and numbers")

        own = [copies[id(parameter)] for parameter in parameters]
        if any(not any(key is parameter for parameter in own) for key in traced.state):
            raise ExportError("it keeps state that belongs to no parameter")
        return StepResults(
            [recorder.read(parameter) for parameter in own],
            [{slot: result(entry) for slot, entry in traced.state[parameter].items()} for parameter in own],
            counts,
        )


def _plain_step(kind: type[torch.optim.Optimizer]):
    """`step` without the hooks that PyTorch puts around it."""
    step = getattr(kind.step, "__wrapped__", kind.step) if getattr(kind.step, "hooked", False) else kind.step
    required = [
        p for p in list(inspect.signature(step).parameters.values())[1:]
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]  # fmt: skip
    if required:
        raise ExportError(f"its step needs '{required[0].name}', as one with a closure does; expected step() without arguments")
    return step


def _find_counts(
    traced: torch.optim.Optimizer, before: dict, groups: list[dict], values: Values
) -> list[dict[str, Value]]:
    """The numbers among the options of each group that the step has changed. Nothing else may be."""
    for name, value in vars(traced).items():
        if name not in ("param_groups", "state") and before.get(name) is not value:
            raise ExportError(f"it changes its attribute '{name}'; expected what changes in the state of parameters")
    counts = []
    for group, old in zip(traced.param_groups, groups):
        changed = {name: value for name, value in group.items() if name not in old or old[name] is not value}
        for name, value in changed.items():
            is_number = isinstance(value, (Number, int, float)) and not isinstance(value, bool)
            first = old.get(name)
            begins = first.value.op == BEFORE if isinstance(first, Number) else first is None or first == 0
            if not is_number or not begins:
                raise not_a_count(name)
        counts.append({n: v.value if isinstance(v, Number) else values.number(v) for n, v in changed.items()})
    return counts


def not_a_count(name: str) -> ExportError:
    return ExportError(
        f"it changes '{name}' of a parameter group; expected a number that counts steps from 0, or what changes in the state "
        "of parameters"
    )
