"""A program's ops in Python: to look at anywhere, and to change in `Program.rewrite`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING

from cleave.errors import Error

if TYPE_CHECKING:
    from cleave.programs import Program


@dataclasses.dataclass(frozen=True)
class Value:
    """A result of an op, or an argument of a function."""

    program: Program = dataclasses.field(repr=False)
    _id: tuple[int, int, int]

    @property
    def type(self) -> str:
        """In MLIR's syntax: "tensor<2x32xf32>"."""
        return self.program._native.type_of(self._id)

    @property
    def op(self) -> Op | None:
        """The op that makes it; None for an argument."""
        return Op(self.program, self._id[0]) if self._id[1] < 0 else None

    def __repr__(self) -> str:
        try:
            of = f"of '{self.op.name}'" if self.op else f"argument {self._id[2]}"
            return f"<cleave value, {of}: {self.type}>"
        except Error:
            return "<cleave value, gone>"

    @property
    def users(self) -> list[Op]:
        return [Op(self.program, each) for each in self.program._native.users_of(self._id)]

    def replace(self, other: Value) -> None:
        """Has all its users take `other` instead, a value of its type; but the op that makes `other` keeps it."""
        self.program._native.replace(self._id, other._id)


@dataclasses.dataclass(frozen=True)
class Op:
    """An op, as long as it is there: not after it was erased, and not after passes have run."""

    program: Program = dataclasses.field(repr=False)
    _id: int

    def _facts(self) -> dict:
        return self.program._native.facts(self._id)

    @property
    def name(self) -> str:
        """Such as "aten.mm"."""
        return self.program._native.name_of(self._id)

    @property
    def function(self) -> str:
        """The function that it is in: "microbatch", "update"; empty outside of functions."""
        return self._facts()["function"]

    @property
    def location(self) -> str:
        """Where the model has it."""
        return self._facts()["location"]

    @property
    def operands(self) -> list[Value]:
        return [Value(self.program, each) for each in self._facts()["operands"]]

    @property
    def results(self) -> list[Value]:
        return [Value(self.program, each) for each in self._facts()["results"]]

    @property
    def result(self) -> Value:
        """The only one."""
        (only,) = self.results
        return only

    @property
    def attributes(self) -> MutableMapping[str, str]:
        """By name, in MLIR's syntax: `op.attributes["dim"] == "1 : i64"`."""
        return _Attributes(self)

    def set_operand(self, index: int, value: Value) -> None:
        self.program._native.set_operand(self._id, index, value._id)

    def replace(self, values: Value | Sequence[Value]) -> None:
        """Replaces its results, each by a value of its type, and erases it."""
        values = [values] if isinstance(values, Value) else list(values)
        results = self.results
        if len(values) != len(results):
            raise Error(f"expected {len(results)} values to replace '{self.name}', found {len(values)}")
        for old, new in zip(results, values):
            old.replace(new)
        self.erase()

    def erase(self) -> None:
        """Removes it; its results must have no users."""
        self.program._native.erase(self._id)

    def insert_before(
        self, name: str, operands: Sequence[Value] = (), attributes: Mapping[str, str] | None = None,
        types: Sequence[str] = (),
    ) -> Op:  # fmt: skip
        """Makes an op in front of this one; attributes and the types of its results in MLIR's syntax."""
        made = self.program._native.insert_before(
            self._id, name, [each._id for each in operands], list((attributes or {}).items()), list(types)
        )
        return Op(self.program, made)

    def __str__(self) -> str:
        return self.program._native.text_of(self._id)

    def __repr__(self) -> str:
        try:
            name, types = self.name, [result.type for result in self.results]
        except Error:
            return "<cleave op, gone>"
        return f"<cleave op '{name}'" + (f": {', '.join(types)}" if types else "") + ">"


class _Attributes(MutableMapping):
    def __init__(self, op: Op):
        self._op = op

    def __getitem__(self, name: str) -> str:
        return self._op._facts()["attributes"][name]

    def __setitem__(self, name: str, text: str) -> None:
        self._op.program._native.set_attribute(self._op._id, name, text)

    def __delitem__(self, name: str) -> None:
        self[name]  # raises KeyError
        self._op.program._native.set_attribute(self._op._id, name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._op._facts()["attributes"])

    def __len__(self) -> int:
        return len(self._op._facts()["attributes"])

    def __repr__(self) -> str:
        return repr(dict(self))
