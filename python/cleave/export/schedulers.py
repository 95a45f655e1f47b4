"""Learning rates that `torch.optim.lr_scheduler` gives, as the numbers of each step.

A scheduler is run, and not read: on a copy of the optimizer that has no weights, one step after another. So each number
is PyTorch's, bit for bit, whatever the scheduler computes it from, as long as that is the step.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import struct
import warnings
from collections.abc import Callable, Sequence

import torch
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from cleave.export.errors import ExportError
from cleave.export.pytorch import scheduler_parts
from cleave.export.schedules import Schedule
from cleave.export.text import float_attribute, float_literal

DEFAULT_STEPS = 10_000


@dataclasses.dataclass(frozen=True)
class GroupRates:
    """What changes from step to step in a parameter group.

    rate: the attributes of its `train.learning_rate`.
    scheduled: the schedule of its "momentum" or "beta1", where a scheduler writes it.
    options: the group's other options, as a scheduler leaves them when it is made.
    """

    rate: str
    scheduled: dict[str, str]
    options: dict


def group_rates(optimizer: torch.optim.Optimizer, schedule, steps: int | None) -> list[GroupRates]:
    """The rates of each parameter group under `schedule`, as ExportSpec has it."""
    if isinstance(schedule, Schedule):
        # Users' own optimizers may do without a rate.
        return [_rates(g.get("lr", 0.0), schedule.attribute(), g) for g in optimizer.param_groups]
    first = _start(optimizer, schedule)
    check_arguments(first)
    if isinstance(first, ReduceLROnPlateau):
        return _plateau(first)
    if any(isinstance(part, ReduceLROnPlateau) for part in _parts(first)):
        raise ExportError(
            f"{_name(first)} holds ReduceLROnPlateau, which looks at a loss; expected it alone as lr_schedule"
        )
    closed = _closed_form(first)
    if closed is not None:
        return [_rates(g["lr"], closed, g) for g in first.optimizer.param_groups]
    settled = _settled(first)
    if isinstance(first, lr_scheduler.OneCycleLR):
        steps = min(steps or first.total_steps, first.total_steps)
    elif settled is not None:
        steps = settled + 1
    else:
        steps = steps or DEFAULT_STEPS
    rows = _run(first, steps)
    # Random numbers, a clock, or what a function remembers of its calls.
    if rows != _run(_start(optimizer, schedule), steps):
        raise ExportError(
            f"{_name(first)} gives other numbers when it is run again; expected a scheduler that depends on the step alone"
        )
    groups = _start(optimizer, schedule).optimizer.param_groups
    return [_tables(column, group, settled is not None) for column, group in zip(zip(*rows), groups)]


def check_arguments(scheduler: LRScheduler) -> None:
    """Refuses what looks at a loss: a scheduler whose step takes more than its number."""
    if isinstance(scheduler, ReduceLROnPlateau):
        if type(scheduler).step is not ReduceLROnPlateau.step:
            raise ExportError(
                f"{_name(scheduler)} has a step of its own, which looks at a loss; expected ReduceLROnPlateau itself"
            )
        return
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in list(inspect.signature(type(scheduler).step).parameters.values())[1:]:
        if parameter.name != "epoch" and parameter.kind not in fixed:
            raise ExportError(
                f"{_name(scheduler)}.step takes '{parameter.name}'; expected a scheduler that depends on the step alone, "
                "or ReduceLROnPlateau, which takes the loss of evaluations"
            )


def _start(optimizer: torch.optim.Optimizer, schedule: LRScheduler | Callable) -> LRScheduler:
    """The scheduler at its beginning, on an optimizer of its own whose parameters have no values."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    hollow = {id(p): torch.nn.Parameter(p.detach().to("meta"), p.requires_grad) for p in parameters}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(schedule, LRScheduler):
                return copy.deepcopy(schedule, hollow)
            made = schedule(copy.deepcopy(optimizer, hollow))
    except Exception as error:
        raise ExportError(f"lr_schedule cannot be copied and run: {type(error).__name__}: {error}") from error
    if not isinstance(made, LRScheduler):
        raise ExportError(f"expected lr_schedule to return a torch.optim.lr_scheduler, found {type(made).__qualname__}")
    return made


def _parts(scheduler: LRScheduler) -> Sequence[LRScheduler]:
    """The schedulers that SequentialLR or ChainedScheduler is made of."""
    return scheduler_parts(scheduler)[0]


def _name(scheduler: LRScheduler) -> str:
    return type(scheduler).__name__


def _closed_form(scheduler: LRScheduler) -> str | None:
    """A schedule that gives the same bits without a table; None if there is none."""
    every = {lr_scheduler.StepLR: "step_size", lr_scheduler.ExponentialLR: None}
    if type(scheduler) not in every:
        return None
    gamma = scheduler.gamma
    if any(isinstance(g["lr"], torch.Tensor) for g in scheduler.optimizer.param_groups) or not 0 <= gamma < math.inf:
        return None
    name = every[type(scheduler)]
    every_steps = getattr(scheduler, name) if name else 1
    return f"#train.schedule<geometric, every = {every_steps}, factor = {float_attribute(float(gamma))}>"


def _settled(scheduler: LRScheduler) -> int | None:
    """The number of steps after which rates no longer change; None where they may."""
    kind = type(scheduler)
    if kind in (lr_scheduler.ConstantLR, lr_scheduler.LinearLR, lr_scheduler.PolynomialLR):
        return scheduler.total_iters + 1
    if kind is lr_scheduler.MultiStepLR:
        return max(scheduler.milestones, default=0) + 1
    schedulers, milestones = scheduler_parts(scheduler)
    parts = [_settled(part) for part in schedulers]
    if kind is lr_scheduler.ChainedScheduler and None not in parts:
        return max(parts)
    if kind is lr_scheduler.SequentialLR and parts[-1] is not None:
        return milestones[-1] + parts[-1]
    return None


#: What a scheduler may write beside the rate: a group's option, and the name of the number in it.
_NUMBERS = {"momentum": "momentum", "betas": "beta1"}


def changing_number(group: dict) -> tuple[str, float] | None:
    """A group's momentum or first beta, by name, where it is one that may change from step to step: above 0."""
    for option, name in _NUMBERS.items():
        value = group.get(option)
        value = value[0] if option == "betas" and isinstance(value, (tuple, list)) else value
        if isinstance(value, (int, float)) and 0 < value < (1 if name == "beta1" else math.inf):
            return name, float(value)
    return None


def _read(scheduler: LRScheduler) -> list[dict[str, float]]:
    """The numbers of each parameter group as they are now."""
    return [
        {"lr": float(group["lr"])}
        | {name: float(group[o][0] if o == "betas" else group[o]) for o, name in _NUMBERS.items() if o in group}
        for group in scheduler.optimizer.param_groups
    ]


def _constants(scheduler: LRScheduler) -> list[dict]:
    """The options of each parameter group that are part of the program."""
    return [
        {
            o: group[o][1:] if o == "betas" else group[o]
            for o in scheduler.optimizer.defaults
            if o in group and o not in ("lr", "momentum")
        }
        for group in scheduler.optimizer.param_groups
    ]


def _run(scheduler: LRScheduler, steps: int) -> list[list[dict[str, float]]]:
    """The numbers of the first steps, by step and parameter group."""
    rows, before = [], _constants(scheduler)
    for step in range(1, steps + 1):
        rows.append(_read(scheduler))
        for name, value in ((n, v) for numbers in rows[-1] for n, v in numbers.items()):
            if not math.isfinite(value):
                raise ExportError(f"{_name(scheduler)} gives {name} = {value} in step {step}; expected a finite number")
        if step == steps:
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scheduler.step()
        except Exception as error:
            raise ExportError(
                f"{_name(scheduler)} has no numbers for step {step + 1} of {steps} (schedule_steps): "
                f"{type(error).__name__}: {error}; expected a scheduler that depends on the step alone"
            ) from error
        for then, now in zip(before, _constants(scheduler)):
            for option in then:
                if then[option] != now[option]:
                    raise ExportError(
                        f"{_name(scheduler)} changes {option} in step {step + 1}; expected a scheduler of the learning "
                        "rate, and of momentum or the first beta"
                    )
    return rows


def _tables(numbers: Sequence[dict[str, float]], group: dict, settles: bool) -> GroupRates:
    rates = [n["lr"] for n in numbers]
    scheduled = {}
    for name in _NUMBERS.values():
        values = [n[name] for n in numbers if name in n]
        if any(value != values[0] for value in values):
            if not all(0 < value < 1 if name == "beta1" else 0 < value for value in values):
                raise ExportError(f"expected a scheduled {name} above 0{' and below 1' * (name == 'beta1')} in all steps")
            scheduled[name] = table_attribute(values, settles)
    if settles and len(set(rates)) == 1:
        return GroupRates(_rates(rates[0], "#train.schedule<constant>", group).rate, scheduled, group)
    return GroupRates(_rates(1.0, table_attribute(rates, settles), group).rate, scheduled, group)


def _rates(base: float | None, schedule: str, group: dict, plateau: str = "") -> GroupRates:
    if base is None and (plateau or "constant" not in schedule):
        raise ExportError("the optimizer has lr = None, which no schedule can change; expected a number")
    base = base or 0.0  # no step asks for that of None
    return GroupRates(f"base = {float_attribute(float(base))}, schedule = {schedule}{plateau}", {}, group)


def table_attribute(values: Sequence[float], settles: bool) -> str:
    """A table of the steps' values; the last one holds for all later steps if it `settles`."""
    starts = [step for step in range(len(values)) if step == 0 or values[step] != values[step - 1]]
    end = "" if settles else f", end = {len(values)}"
    # A start takes the place of a value.
    if 2 * len(starts) <= len(values) or settles:
        return f"#train.schedule<table, starts = {starts}, values = {_dense([values[s] for s in starts])}{end}>"
    return f"#train.schedule<table, values = {_dense(values)}{end}>"


def _dense(values: Sequence[float]) -> str:
    if len(values) <= 64:
        text = f"[{', '.join(map(float_literal, values))}]"
    else:
        text = f'"0x{struct.pack(f"<{len(values)}d", *values).hex().upper()}"'
    return f"dense<{text}> : tensor<{len(values)}xf64>"


def _plateau(scheduler: ReduceLROnPlateau) -> list[GroupRates]:
    if scheduler.mode != "min":
        raise ExportError(
            f"expected ReduceLROnPlateau with mode='min', found '{scheduler.mode}': what it is fed is the loss of evaluations"
        )
    if scheduler.factor < 0 or scheduler.patience < 0 or scheduler.cooldown < 0 or min(scheduler.min_lrs) < 0:
        raise ExportError("expected ReduceLROnPlateau with factor, patience, cooldown and min_lr of at least 0")
    result = []
    for group, least in zip(scheduler.optimizer.param_groups, scheduler.min_lrs):
        numbers = {
            "factor": scheduler.factor,
            "patience": scheduler.patience,
            "threshold": scheduler.threshold,
            "cooldown": scheduler.cooldown,
            "min": least,
            "eps": scheduler.eps,
        }
        integers = ("patience", "cooldown")
        fields = ", ".join(f"{n} = {v if n in integers else float_attribute(float(v))}" for n, v in numbers.items())
        plateau = f", plateau = #train.plateau<{scheduler.threshold_mode}, {fields}>"
        result.append(_rates(group["lr"], "#train.schedule<constant>", group, plateau))
    return result
