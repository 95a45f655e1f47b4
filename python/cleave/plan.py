"""Plans: how parameters, modules and ops lie on a device mesh, in the field's words.

`docs/plans.md` has the words and the file that a plan becomes; `cleave-opt --annotate-placements`
applies it to the program.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cleave.export.errors import ExportError
from cleave.export.paths import short_path

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _caller() -> str:
    """`train.py:14`: the nearest statement outside of this package."""
    frame = sys._getframe(1)
    while frame and (
        os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE)
        or frame.f_code.co_filename.startswith("<")
    ):
        frame = frame.f_back
    return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def _check_axis(axis: Any, word: str) -> str:
    if not isinstance(axis, str) or not axis:
        raise ExportError(f"expected the name of a mesh axis for {word}, found {axis!r}")
    return axis


def _check_dim(dim: Any, word: str) -> int:
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ExportError(f"expected a dimension of a tensor for {word}, found {dim!r}")
    return dim


def _check_capacity(capacity: Any):
    if isinstance(capacity, bool) or not isinstance(capacity, (int, float)) or not 1 <= capacity < float("inf"):
        raise ExportError(
            f"expected a capacity of at least 1, an even share of the rows, for ExpertParallel, found {capacity!r}"
        )


# Placements: how one tensor lies along one axis ------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Placement:
    """How a tensor lies along one mesh axis."""


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Sharded along a dimension; negative values count from the end."""

    dim: int

    def __post_init__(self):
        _check_dim(self.dim, "Shard")

    def __str__(self):
        return f"S({self.dim})"


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor on each rank."""

    def __str__(self):
        return "R"


@dataclasses.dataclass(frozen=True)
class Partial(Placement):
    """Operands of a pending reduction: sum, avg, max, min or product."""

    reduction: str = "sum"

    def __post_init__(self):
        if self.reduction not in ("sum", "avg", "max", "min", "product"):
            raise ExportError(
                "expected Partial of sum, avg, max, min or product, found " + repr(self.reduction)
            )

    def __str__(self):
        return "P" if self.reduction == "sum" else f"P({self.reduction})"


# Styles: how modules, or the program, run along an axis ----------------------------------------


class Style:
    """A rule that follows from a word and an axis; subclasses say what is written to the plan."""

    def __post_init__(self):
        self.where = _caller()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "dim":
                if value is not None:
                    _check_dim(value, type(self).__name__)
            elif field.name == "capacity":
                if value is not None:
                    _check_capacity(value)
            elif field.type == "str":
                _check_axis(value, type(self).__name__)

    def fields(self) -> dict[str, Any]:
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


@dataclasses.dataclass
class ColwiseParallel(Style):
    """Weights sharded along their output, so that results are sharded in their last dimension."""

    axis: str = "tp"
    word = "colwise"


@dataclasses.dataclass
class RowwiseParallel(Style):
    """Weights sharded along their input (an embedding's rows), so that results are partial sums."""

    axis: str = "tp"
    word = "rowwise"


@dataclasses.dataclass
class SequenceParallel(Style):
    """The module's ops on parts of the sequence, dimension `dim` of its activations."""

    axis: str = "tp"
    dim: int = 1
    word = "sequence"


@dataclasses.dataclass
class ExpertParallel(Style):
    """Stacked experts, parameters whose dimension 0 counts experts, divided over the axis.

    capacity: the rows that a rank's experts have room for, as a multiple of its even share of all tokens' rows;
        more are an error of the run. By default there is room for all rows. Where a capacity is given, ranks
        exchange rows whatever else they could do (`docs/placements.md`, Experts).
    """

    axis: str = "ep"
    capacity: float | None = None
    word = "expert"


@dataclasses.dataclass
class DataParallel(Style):
    """The batch divided over the axis, parameters replicated on it. For the whole program."""

    axis: str = "dp"
    word = "data"


@dataclasses.dataclass
class ContextParallel(Style):
    """The sequence, dimension `dim` of inputs, divided over the axis. For the whole program.

    shard_parameters: parameters are sharded over the axis and gathered for each use. After FSDP of another
        axis this is fully sharded parallelism over both.
    """

    axis: str = "cp"
    dim: int = 1
    shard_parameters: bool = False
    word = "context"

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.shard_parameters, bool):
            raise ExportError(f"expected shard_parameters to be True or False, found {self.shard_parameters!r}")

    def fields(self) -> dict[str, Any]:
        return {k: v for k, v in super().fields().items() if k != "shard_parameters" or v}


@dataclasses.dataclass
class FSDP(Style):
    """DataParallel with parameters sharded over the axis and gathered for each use.

    dim: the sharded dimension; by default the first that divides evenly (a parameter that has
        none stays whole).
    """

    axis: str = "dp"
    dim: int | None = None
    word = "fsdp"


@dataclasses.dataclass
class HSDP(Style):
    """FSDP over one axis, the batch also divided over another on which parameters are replicated."""

    replicate_axis: str
    axis: str
    dim: int | None = None
    word = "hsdp"


_WHOLE_ONLY = (DataParallel, ContextParallel)
_MODULES_ONLY = (ColwiseParallel, RowwiseParallel, SequenceParallel, ExpertParallel)


# Constraints on single ops ---------------------------------------------------------------------


class Op:
    """Operands and results of single ops: the value of a plan's entry for a module path.

    name: of the op without its dialect, as it stands in the program: "mm", "addmm".
    part: "forward" or "backward"; None for either. A backward op has the module path of the forward
        op that it belongs to.
    index: which of the module's ops that match, from 0; None for all.
    operands, results: a placement a value: a mapping by axis, a tuple in the order of the mesh, or
        None, which leaves it open.
    """

    def __init__(
        self,
        name: str,
        *,
        part: str | None = None,
        index: int | None = None,
        operands: Sequence[Any] = (),
        results: Sequence[Any] = (),
    ):
        if not isinstance(name, str) or not name:
            raise ExportError(f"expected the name of an op, found {name!r}")
        if part not in (None, "forward", "backward"):
            raise ExportError(f"expected part to be 'forward' or 'backward', found {part!r}")
        if index is not None and (not isinstance(index, int) or index < 0):
            raise ExportError(f"expected a non-negative index, found {index!r}")
        self.name, self.part, self.index = name, part, index
        self.operands, self.results = list(operands), list(results)
        self.where = _caller()


# Plans -----------------------------------------------------------------------------------------


class Plan:
    """A mesh, and the placements of tensors on it.

    mesh: sizes by axis, the major axis first: {"dp": 2, "tp": 2}.
    entries: by pattern, or a sequence of pairs of pattern and value (the same pattern may then
        stand twice). A pattern is made of components between dots: `*` stands for anything within
        one, `**` for any number of them. A value, or a list of values, is
        - a style or an Op, and the pattern is one of module paths;
        - a placement (a mapping by axis, or a tuple in the order of the mesh), and the pattern is
          one of parameters, or of what a prefix names: "inputs:tokens", "outputs:*",
          "gradients:**", "optimizer_states:**", "accumulators:**", "buffers:**".
        The pattern "" is the whole program, for DataParallel, ContextParallel, FSDP and HSDP.
    """

    def __init__(self, mesh: Mapping[str, int], entries: Any = ()):
        self.where = _caller()
        self.mesh = check_mesh(mesh)
        self.rules: list[dict[str, Any]] = []
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
                raise ExportError(f"expected a pattern with a value, found {pair!r}")
            pattern, values = pair
            for value in values if isinstance(values, list) else [values]:
                self._add(pattern, value)

    def _add(self, pattern: str, value: Any):
        if isinstance(value, type) and issubclass(value, (Style, Placement)):
            raise ExportError(
                f"expected a value for '{pattern}', found the class: write {value.__name__}(...)"
            )
        if isinstance(value, Style):
            rule = {"style": value.word, **value.fields()}
            if pattern and isinstance(value, _WHOLE_ONLY):
                raise ExportError(
                    f"{type(value).__name__} is for the whole program, the pattern ''; found "
                    f"'{pattern}'"
                )
            if not pattern and isinstance(value, _MODULES_ONLY):
                raise ExportError(f"{type(value).__name__} is for modules; found the pattern ''")
            if pattern:
                rule["modules"] = pattern
            self._check_axes([value.axis, getattr(value, "replicate_axis", value.axis)], value.where)
        elif isinstance(value, Op):
            rule = {"ops": pattern, "op": value.name}
            rule |= {k: v for k in ("part", "index") if (v := getattr(value, k)) is not None}
            for side in ("operands", "results"):
                if getattr(value, side):
                    rule[side] = [
                        None if v is None else self._placement(v, pattern, value.where)
                        for v in getattr(value, side)
                    ]
        else:
            kind, separator, name = pattern.partition(":")
            if not separator:
                kind, name = "parameters", pattern
            rule = {kind: name, "placement": self._placement(value, pattern, self.where)}
        rule["where"] = getattr(value, "where", self.where)
        self.rules.append(rule)

    def _placement(self, value: Any, pattern: str, where: str) -> dict[str, str]:
        if isinstance(value, Placement) and len(self.mesh) == 1:
            value = (value,)
        if isinstance(value, tuple):
            if len(value) > len(self.mesh):
                raise ExportError(
                    f"expected at most one placement per axis of the mesh ({', '.join(self.mesh)}) for "
                    f"'{pattern}' at {where}, found {len(value)}"
                )
            value = dict(zip(self.mesh, value))
        if not isinstance(value, Mapping) or not value:
            raise ExportError(
                f"expected a style, an Op or a placement for '{pattern}' at {where}, found {value!r}"
            )
        for axis, one in value.items():
            if not isinstance(one, Placement):
                raise ExportError(
                    f"expected Shard(dim), Replicate() or Partial() for '{pattern}' on axis {axis!r} "
                    f"at {where}, found {one!r}"
                )
        self._check_axes(value, where)
        return {axis: str(one) for axis, one in value.items()}

    def _check_axes(self, axes, where: str):
        for axis in axes:
            if axis not in self.mesh:
                raise ExportError(
                    f"{where} names the axis {axis!r}, but the mesh has {', '.join(self.mesh)}"
                )

    def text(self) -> str:
        """The plan as the JSON that `--annotate-placements` reads."""
        mesh = json.dumps([list(axis) for axis in self.mesh.items()])
        rules = ",\n    ".join(json.dumps(rule) for rule in self.rules)
        return f'{{\n  "mesh": {mesh},\n  "rules": [\n    {rules}\n  ]\n}}\n'

    def write(self, path) -> pathlib.Path:
        path = pathlib.Path(path)
        try:
            path.write_text(self.text(), encoding="utf-8")
        except OSError as error:
            raise ExportError(f"cannot write to {path}: {error.strerror or error}") from None
        return path


def check_mesh(mesh: Any) -> dict[str, int]:
    """The mesh; ExportError where it is none."""
    if not isinstance(mesh, Mapping) or not mesh:
        raise ExportError(f"expected a mesh as sizes by axis, {{'dp': 2}}, found {mesh!r}")
    for axis, size in mesh.items():
        _check_axis(axis, "the mesh")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ExportError(f"expected a positive size for mesh axis {axis!r}, found {size!r}")
    return dict(mesh)
