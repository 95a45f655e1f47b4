"""The values of an optimizer's step: tensors and numbers, each of which exists once.

A step that was traced several times, for the outcomes of its branches, becomes one by `merge`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from cleave.export.errors import ExportError
from cleave.export.operators import argument_types
from cleave.export.pytorch import OpOverload

aten = torch.ops.aten

# What a step is given: values without operands.
PARAMETER, GRADIENT, STATE = "parameter", "gradient", "state"  # of parameter `args[0]`; a state's slot is `args[1]`
RATE = "rate"  # the number `lr` of parameter group `args[0]`
HYPERPARAMETER = "hyperparameter"  # another that a scheduler writes, `args[1]`: "momentum" or "beta1"
STEP, STEP_TENSOR = "step", "step_tensor"  # counted from 1
BEFORE, BEFORE_TENSOR = "before", "before_tensor"  # the steps before this one
CONSTANT = "arith.constant"
_LEAVES = {PARAMETER, GRADIENT, STATE, RATE, HYPERPARAMETER, STEP, STEP_TENSOR, BEFORE, BEFORE_TENSOR, CONSTANT}
ITEM = "aten.item"
RESULT = "result"  # number `args[1]` of those of an operator

# Zero in a program's first step, as all optimizer states are.
_INITIALLY_ZERO = {STATE, BEFORE, BEFORE_TENSOR}
_ZEROS = {aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default}


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """`op` applied to `args`, in which tensors and numbers are Values.

    op: an overload of the dispatcher, an op of MLIR on numbers, or what the step is given.
    kwargs: pairs, in the order of the call.
    fake: a tensor of the value's shape and dtype; None for a number.
    """

    op: OpOverload | str
    args: tuple
    kwargs: tuple
    fake: Any
    is_boolean: bool = False
    # Which parameters it depends on.
    parameters: frozenset[int] = frozenset()

    @property
    def is_number(self) -> bool:
        return self.fake is None


def operands(value: Value) -> list[Value]:
    """The Values that it is computed from."""
    found: list[Value] = []

    def visit(argument):
        if isinstance(argument, Value):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            for item in argument:
                visit(item)

    visit(value.args)
    visit([argument for _, argument in value.kwargs])
    return found


class Values:
    def __init__(self):
        self._known: dict[tuple, Value] = {}

    def make(self, op, args=(), kwargs=(), fake=None, is_boolean: bool = False) -> Value:
        args, kwargs = _freeze(args), tuple((name, _freeze(v)) for name, v in dict(kwargs).items())
        # Without operands the shape is part of what the value is.
        key = (op, _key(args), _key(kwargs), repr(_describe(fake)))
        if key not in self._known:
            value = Value(op, args, kwargs, fake, is_boolean)
            own = {args[0]} if op in (PARAMETER, GRADIENT, STATE) else set()
            parameters = frozenset(own).union(*(operand.parameters for operand in operands(value)))
            self._known[key] = dataclasses.replace(value, parameters=parameters)
        return self._known[key]

    def number(self, number: float | Value) -> Value:
        return number if isinstance(number, Value) else self.make(CONSTANT, (float(number),))

    def compute(self, op: str, *numbers: float | Value, is_boolean: bool = False) -> Value:
        return self.make(op, tuple(map(self.number, numbers)), is_boolean=is_boolean)

    def filled(self, number: float | Value, like: torch.Tensor) -> Value:
        """A tensor of the shape and dtype of `like`."""
        return self.make(aten.full.default, (tuple(like.shape), number), {"dtype": like.dtype}, like)

    def merge(self, condition: Value, one: Value, other: Value, memo: dict, is_first: bool = False) -> Value:
        """`one` where the condition is true, else `other`. Ops that both apply are applied to merged operands.

        memo: of merges under the same condition.
        is_first: whether the condition is that the step is the first one.
        """
        if one is other or (is_first and _is_initial(one, other)):
            return other
        if (one, other) not in memo:
            memo[one, other] = self._merge(condition, one, other, memo, is_first)
        return memo[one, other]

    def _merge(self, condition: Value, one: Value, other: Value, memo: dict, is_first: bool) -> Value:
        if one.op == other.op and one.op not in _LEAVES and _are_alike(one, other):
            merged = self._merge_arguments(condition, one, other, memo, is_first)
            if merged is not None:
                return self.make(one.op, *merged, one.fake, one.is_boolean)
        if one.is_number and other.is_number:
            op = "arith.select"
            return self.make(op, (condition, one, other), is_boolean=one.is_boolean)
        if not _are_alike(one, other) or not isinstance(one.fake, torch.Tensor):
            raise ExportError("the branches of the optimizer's step compute tensors of different shapes or dtypes")
        chosen = self.make(aten.scalar_tensor.default, (condition,), {"dtype": torch.bool}, torch.empty((), dtype=torch.bool))
        return self.make(aten.where.self, (chosen, one, other), fake=one.fake)

    def _merge_arguments(
        self, condition, one: Value, other: Value, memo: dict, is_first: bool
    ) -> tuple[tuple, dict] | None:
        if len(one.args) != len(other.args) or [n for n, _ in one.kwargs] != [n for n, _ in other.kwargs]:
            return None
        types = list(argument_types(one.op).items()) if isinstance(one.op, OpOverload) else None

        def mergeable(name_or_index, a, b):
            if types is None:
                return True
            schema_type = dict(types)[name_or_index] if isinstance(name_or_index, str) else types[name_or_index][1]
            both_tensors = isinstance(a, Value) and isinstance(b, Value) and not a.is_number and not b.is_number
            return both_tensors or schema_type.rstrip("?") in ("Scalar", "Tensor")

        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(one.args, other.args))]
        pairs += [(name, a, b) for (name, a), (_, b) in zip(one.kwargs, other.kwargs)]
        merged = []
        for place, a, b in pairs:
            if _key(a) == _key(b):
                merged.append(a)
            elif not mergeable(place, a, b) or not _can_choose(a, b):
                return None
            else:
                merged.append(self.merge(condition, _as_value(self, a), _as_value(self, b), memo, is_first))
        count = len(one.args)
        return tuple(merged[:count]), {name: v for (name, _), v in zip(one.kwargs, merged[count:])}

    def replace(self, value: Value, rules, memo: dict[Value, Value]) -> Value:
        """The value with `rules(value)` for what it returns something for, itself or an operand."""
        if value not in memo:
            def visit(argument):
                if isinstance(argument, Value):
                    return self.replace(argument, rules, memo)
                return tuple(map(visit, argument)) if isinstance(argument, tuple) else argument

            new = self.make(
                value.op, visit(value.args), {name: visit(a) for name, a in value.kwargs}, value.fake, value.is_boolean
            )
            memo[value] = rules(new) or new
        return memo[value]


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, (list, tuple)) else value


def _key(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    # 1, 1.0 and True are equal in Python, as are 0.0 and -0.0.
    return value if isinstance(value, Value) else (type(value), repr(value))


def _describe(fake: Any) -> Any:
    if isinstance(fake, (list, tuple)):
        return [_describe(each) for each in fake]
    return None if fake is None else (tuple(fake.shape), fake.dtype)


def _are_alike(one: Value, other: Value) -> bool:
    return _describe(one.fake) == _describe(other.fake)


def _can_choose(a: Any, b: Any) -> bool:
    """Whether two arguments are tensors alike, or numbers of which one may be chosen at run time."""
    def is_number(value):
        return value.is_number if isinstance(value, Value) else isinstance(value, (int, float)) and type(value) is not bool

    if is_number(a) and is_number(b):
        # An integer of both may count elements, but of one is a number.
        return not (isinstance(a, int) and isinstance(b, int))
    return isinstance(a, Value) and isinstance(b, Value) and not a.is_number and not b.is_number and _are_alike(a, b)


def _as_value(values: Values, value: Any) -> Value:
    return value if isinstance(value, Value) else values.number(value)


def is_zero(value: Value) -> bool:
    if value.op in _ZEROS:
        return True
    if value.op in (aten.full.default, aten.full_like.default, CONSTANT):
        number = value.args[-1]
        return not isinstance(number, Value) and number == 0 and str(number)[0] != "-"
    return value.op is ITEM and is_zero(value.args[0])


def _is_one(value: Value) -> bool:
    """Whether it is a count of steps in the first one."""
    if value.op in (aten.add.Tensor, "arith.addf") and not value.kwargs:
        return is_zero(value.args[0]) and value.args[1] in (1, 1.0)
    return (value.op == CONSTANT and value.args[0] == 1) or (value.op == ITEM and _is_one(value.args[0]))


def _is_initial(first: Value, later: Value) -> bool:
    """Whether the state `later` is in the first step what the optimizer makes it there."""
    if later.op in (STEP, STEP_TENSOR):
        return _is_one(first)
    while later.op is ITEM:
        later = later.args[0]
    return later.op in _INITIALLY_ZERO and is_zero(first)
