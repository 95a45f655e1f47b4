"""An optimizer's step as one graph, for all steps: whatever its branches are, and whether its state is there yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from cleave.export.errors import ExportError
from cleave.export.schedulers import GroupRates
from cleave.export.step_numbers import Recording
from cleave.export.step_trace import StepResults, not_a_count, run_step
from cleave.export.step_values import BEFORE, BEFORE_TENSOR, ITEM, PARAMETER, STATE, STEP, STEP_TENSOR, Value, Values

aten = torch.ops.aten

# So many outcomes of its branches a step may have: each is a trace.
_MAX_TRACES = 64


@dataclasses.dataclass
class TracedStep:
    """New values for each parameter, and for each of its states that a program keeps, by slot.

    counted: the options of parameter groups that count steps, which programs know anyway.
    """

    parameters: list[Value]
    states: list[dict[str, Value]]
    counted: set[str] = dataclasses.field(default_factory=set)


def trace_step(
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.Tensor],
    groups: list[GroupRates],
    values: Values,
    initial: list[dict[str, Any]],
) -> TracedStep:
    """Traces the step for `parameters`, which are numbered from 0 in the result.

    groups: of the optimizer, all of them.
    initial: the states that the optimizer has before its first step.
    """
    first = _explore(optimizer, parameters, groups, initial, values, {})
    for counts in first.counts.values():
        for name, value in counts.items():
            if value is not values.number(1.0):
                raise not_a_count(name)
    counted = {number: list(counts) for number, counts in first.counts.items()}
    # In later steps a state "step" is what the program knows anyway, if it counts steps.
    for counts_steps in (True, False):
        states = [
            {slot: _state_before(values, i, slot, value, counts_steps) for slot, value in of_one.items()}
            for i, of_one in enumerate(first.states)
        ]
        later = _explore(optimizer, parameters, groups, states, values, counted)
        if all(value.op == PARAMETER for value in first.parameters + later.parameters):
            raise ExportError("it changes none of the parameters in self.param_groups")
        traced = _join(first, later, states, values)
        if traced is not None:
            traced.counted = {name for names in counted.values() for name in names}
            return traced
    raise AssertionError("a state is what it is")


def _state_before(values: Values, parameter: int, slot: str, made: Any, counts_steps: bool) -> Any:
    if not isinstance(made, Value):
        return made
    is_count = counts_steps and slot == "step"
    if made.is_number:
        if is_count:
            return values.make(BEFORE)
        fake = torch.empty((), dtype=torch.float64)
        return values.make(ITEM, (values.make(STATE, (parameter, slot), fake=fake),))
    if is_count and made.fake.dim() == 0 and made.fake.dtype in (torch.float32, torch.float64):
        return values.make(BEFORE_TENSOR, fake=made.fake)
    return values.make(STATE, (parameter, slot), fake=made.fake)


# Branches ---------------------------------------------------------------------------------------


def _explore(
    optimizer, parameters, groups, states: list[dict[str, Any]], values: Values, counted: dict[int, list[str]]
) -> StepResults:
    """Traces each outcome of the branches, and joins them."""
    traces = 0

    def trace(outcomes: list[bool]) -> StepResults:
        nonlocal traces
        traces += 1
        if traces > _MAX_TRACES:
            raise ExportError(f"its branches on numbers have more than {_MAX_TRACES} outcomes")
        recording = Recording(values, outcomes)
        results = run_step(optimizer, parameters, groups, states, recording, counted)
        for i in reversed(range(len(outcomes), len(recording.conditions))):
            other = trace(recording.outcomes[:i] + [False])
            memo: dict = {}
            condition = recording.conditions[i]
            results = _zip(results, other, lambda a, b: values.merge(condition, a, b, memo))
        return results

    return trace([])


def _zip(one: StepResults, other: StepResults, merge: Callable[[Value, Value], Value]) -> StepResults:
    def join(a: Any, b: Any) -> Any:
        if isinstance(a, Value) and isinstance(b, Value):
            return merge(a, b)
        if a is b or (not isinstance(a, Value) and not isinstance(b, Value) and a == b):
            return a
        raise ExportError("what it keeps as state differs between steps by more than tensors' values and numbers")

    if [list(state) for state in one.states] != [list(state) for state in other.states]:
        raise ExportError("it keeps other states in one step than in another")
    if {n: list(counts) for n, counts in one.counts.items()} != {n: list(counts) for n, counts in other.counts.items()}:
        raise ExportError("it changes other options of a parameter group in one step than in another")
    return StepResults(
        [join(a, b) for a, b in zip(one.parameters, other.parameters)],
        [{slot: join(a[slot], b[slot]) for slot in a} for a, b in zip(one.states, other.states)],
        {n: {name: join(a, other.counts[n][name]) for name, a in counts.items()} for n, counts in one.counts.items()},
    )


# The first step and all others ------------------------------------------------------------------


def _join(first: StepResults, later: StepResults, before: list[dict[str, Any]], values: Values) -> TracedStep | None:
    """None if a state "step" does not count the program's steps."""
    is_first = values.compute("arith.cmpf oeq", values.make(STEP), 1.0, is_boolean=True)
    memo: dict = {}
    replaced: dict[Value, Value] = {}

    def join(a: Value, b: Value) -> Value:
        b = values.replace(b, lambda each: _count(values, each), replaced)
        return values.merge(is_first, a, b, memo, is_first=True)

    for counts in later.counts.values():
        for name, value in counts.items():
            if values.replace(value, lambda each: _count(values, each), replaced).op != STEP:
                raise not_a_count(name)
    joined = _zip(first, later, join)
    rest: dict[Value, Value] = {}

    def final(value: Value) -> Value:
        return values.replace(value, lambda each: _from_count(values, each), rest)

    states: list[dict[str, Value]] = []
    for old, new in zip(before, joined.states):
        kept: dict[str, Value] = {}
        for slot, value in new.items():
            if not isinstance(value, Value):
                continue
            was = old[slot]
            if was.op in (BEFORE, BEFORE_TENSOR):
                if value.op not in (STEP, STEP_TENSOR):
                    return None
                continue
            if value.is_number:
                value = values.make(aten.scalar_tensor.default, (value,), {"dtype": torch.float64}, was.args[0].fake)
            kept[slot] = final(value)
        states.append(kept)
    return TracedStep([final(value) for value in joined.parameters], states)


def _count(values: Values, value: Value) -> Value | None:
    """One more than the steps before is the number of the step."""
    one_more = [1, 1.0]
    if value.op is aten.add.Tensor and not value.kwargs and value.args[0].op is BEFORE_TENSOR and value.args[1] in one_more:
        return values.make(STEP_TENSOR, fake=value.fake)
    if value.op == "arith.addf" and BEFORE in [each.op for each in value.args]:
        other = value.args[1] if value.args[0].op == BEFORE else value.args[0]
        if other is values.number(1.0):
            return values.make(STEP)
    if value.op is ITEM and value.args[0].op is STEP_TENSOR:
        return values.make(STEP)
    return None


def _from_count(values: Values, value: Value) -> Value | None:
    """The steps before are one less than the number of the step."""
    if value.op == BEFORE:
        return values.compute("arith.subf", values.make(STEP), 1.0)
    if value.op == BEFORE_TENSOR:
        return values.make(aten.sub.Tensor, (values.make(STEP_TENSOR, fake=value.fake), 1), fake=value.fake)
    return None


def is_fresh(states: list[dict[str, Any]]) -> bool:
    """Whether no step was taken: there is no state, or it counts none."""
    return all(not state or ("step" in state and float(state["step"]) == 0) for state in states)


def has_counted(states: list[dict[str, Any]]) -> bool:
    """Whether a state says that steps were taken."""
    return any("step" in state and float(state["step"]) != 0 for state in states)


def initial_states(states: list[dict[str, Any]], values: Values) -> list[dict[str, Any]]:
    """What an optimizer that has taken no step keeps already."""

    def initial(slot: str, entry: Any) -> Any:
        if isinstance(entry, torch.Tensor):
            first = entry.detach()[(0,) * entry.dim()]
            if any(entry.stride()) and not bool((entry == first).all()):
                raise ExportError(f"its state '{slot}' begins with elements that differ; expected equal ones, of a fresh optimizer")
            return values.filled(first.item(), entry.detach())
        if isinstance(entry, (int, float)) and not isinstance(entry, bool):
            return values.number(entry)
        return entry

    return [{slot: initial(slot, entry) for slot, entry in state.items()} for state in states]


