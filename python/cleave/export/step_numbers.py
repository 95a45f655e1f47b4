"""Python numbers whose values are not known when an optimizer's step is traced: arithmetic on them is recorded."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from unittest import mock

import torch

from cleave.export.errors import ExportError
from cleave.export.step_values import CONSTANT, HYPERPARAMETER, Value, Values


class _Node:
    """What PyTorch asks of the number that an argument of an operator is."""

    def __init__(self, value: Value):
        self.value = value

    def is_int(self) -> bool:
        return False

    def is_float(self) -> bool:
        return True

    def is_bool(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def is_nested_int(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return False

    constant = hint = shape_env = None

    def maybe_as_float(self) -> None:
        return None

    def has_hint(self) -> bool:
        return False

    def _graph_repr(self) -> str:
        return "a number of the step"

    __repr__ = _graph_repr

    def __getattr__(self, name: str):
        raise _needs_value(f"'{name}' of a number")


def _needs_value(what: str) -> ExportError:
    return ExportError(
        f"it needs the value of a number that is known only when the program runs ({what}); expected arithmetic "
        "(+ - * / // % **, min, max, abs, functions of math), comparisons, and arguments of operators on tensors"
    )


class Condition:
    """A comparison of numbers; `decide` says which way the trace goes where Python asks."""

    def __init__(self, trace: Recording, value: Value):
        self.trace, self.values, self.value = trace, trace.values, value

    def __bool__(self) -> bool:
        return self.trace.decide(self.value)


class Recording:
    """The Values that a trace makes, and which way it takes at each condition.

    outcomes: of the conditions that come first; others are taken to be true.
    conditions: those that were met, in order.
    """

    def __init__(self, values: Values, outcomes: list[bool]):
        self.values = values
        self.outcomes = list(outcomes)
        self.conditions: list[Value] = []

    def decide(self, condition: Value) -> bool:
        if (known := _asks_for_zero(condition)) is not None:
            return known
        if condition not in self.conditions:
            self.conditions.append(condition)
            if len(self.outcomes) < len(self.conditions):
                self.outcomes.append(True)
        return self.outcomes[self.conditions.index(condition)]

    def number(self, value: Value) -> Number:
        return Number(self, value)


def _asks_for_zero(condition: Value) -> bool | None:
    """The outcome of asking whether a momentum or beta that a scheduler writes is 0: none is (schedulers.py)."""
    number, other = condition.args
    if getattr(number, "op", None) != HYPERPARAMETER or other.op != CONSTANT or other.args[0] != 0:
        return None
    return {"une": True, "ogt": True, "oge": True, "oeq": False, "ole": False, "olt": False}[condition.op.split(" ")[1]]


class Number(torch.SymFloat):
    """A float that a program computes. PyTorch passes it to operators as it stands."""

    def __init__(self, trace: Recording, value: Value):
        super().__init__(_Node(value))
        self.trace = trace

    @property
    def value(self) -> Value:
        return self.node.value

    def __hash__(self):
        return id(self.value)

    def __repr__(self) -> str:
        return "a number of the step"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __pos__(self) -> Number:
        return self


def _is_number(value) -> bool:
    return isinstance(value, (Number, int, float))


def _compute(op: str, *numbers) -> Number:
    trace = next(number.trace for number in numbers if isinstance(number, Number))
    values = [number.value if isinstance(number, Number) else number for number in numbers]
    return trace.number(trace.values.compute(op, *values))


def _compare(op: str, a, b) -> Condition:
    trace = next(number.trace for number in (a, b) if isinstance(number, Number))
    values = [number.value if isinstance(number, Number) else number for number in (a, b)]
    return Condition(trace, trace.values.compute(op, *values, is_boolean=True))


def _choose(condition: Condition | bool, a, b):
    if isinstance(condition, bool):
        return a if condition else b
    chosen = [n.value if isinstance(n, Number) else condition.values.number(n) for n in (a, b)]
    return condition.trace.number(condition.values.make("arith.select", (condition.value, *chosen)))


def _modulo(a, b):
    """As Python has it: of the sign of `b`."""
    rest = _compute("arith.remf", a, b)
    is_other = _choose(rest < 0, _choose(b < 0, 0.0, 1.0), _choose(b < 0, 1.0, 0.0))
    return _choose(rest * is_other != 0, rest + b, rest)


def _floor_divide(a, b):
    quotient = (a - a % b) / b
    floor = _compute("math.floor", quotient)
    return _choose(quotient - floor > 0.5, floor + 1.0, floor)


def _define(name: str, function: Callable, mirrored: bool = True):
    def method(self, other):
        return function(self, other) if _is_number(other) else NotImplemented

    setattr(Number, f"__{name}__", method)
    if mirrored:
        setattr(Number, f"__r{name}__", lambda self, o: function(o, self) if _is_number(o) else NotImplemented)


for _name, _op in {
    "add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf", "truediv": "arith.divf", "pow": "math.powf",
}.items():  # fmt: skip
    _define(_name, lambda a, b, op=_op: _compute(op, a, b))
_define("mod", _modulo)
_define("floordiv", _floor_divide)
for _name, _op in {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}.items():
    _define(_name, lambda a, b, op=_op: _compare(f"arith.cmpf {op}", a, b), mirrored=False)
for _name, _op in {"neg": "arith.negf", "abs": "math.absf", "floor": "math.floor", "ceil": "math.ceil"}.items():
    setattr(Number, f"__{_name}__", lambda self, op=_op: _compute(op, self))


def _refuse(name: str):
    def method(self, *_):
        raise _needs_value(f"{name}()")

    setattr(Number, f"__{name}__", method)


for _name in ("float", "int", "index", "trunc", "round", "complex", "format", "divmod"):
    _refuse(_name)

_FUNCTIONS = {
    "sqrt": "math.sqrt", "exp": "math.exp", "log": "math.log", "cos": "math.cos", "sin": "math.sin", "pow": "math.powf",
    "fabs": "math.absf", "floor": "math.floor", "ceil": "math.ceil",
}  # fmt: skip


@contextlib.contextmanager
def recorded_math() -> Iterator[None]:
    """While this is entered, functions of `math` take Numbers."""

    def patched(name: str, op: str) -> Callable:
        original = getattr(math, name)

        def function(*args):
            if not any(isinstance(each, Number) for each in args):
                return original(*args)
            if len(args) != (2 if name == "pow" else 1):
                raise _needs_value(f"math.{name} with {len(args)} arguments")
            return _compute(op, *args)

        return function

    with contextlib.ExitStack() as stack:
        for name, op in _FUNCTIONS.items():
            stack.enter_context(mock.patch.object(math, name, patched(name, op)))
        yield
