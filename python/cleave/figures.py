"""Figures and pictures of programs, which a notebook shows and a terminal prints."""

from __future__ import annotations

import collections
import dataclasses
import html
import os
import pathlib
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Costs:
    """What a step takes on one rank, known without running it; as `cleave-run --dry-run` prints it.

    Bytes of weights and state, at the peak of a step (`peak_bytes`) and saved by a microbatch's forward for its backward
    (`saved_bytes`); floating-point operations; ops by name; and communication: op, axes, count, bytes of tensors, and
    bytes that the busiest rank sends.
    """

    parameter_bytes: int
    buffer_bytes: int
    optimizer_state_bytes: int
    gradient_bytes: int
    saved_bytes: int
    peak_bytes: int
    flops: int
    ops: list[tuple[str, int]]
    communication: list[tuple[str, str, int, int, int]]
    memory_text: str = dataclasses.field(repr=False)
    communication_text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return (
            f"memory (bytes)\n{self.memory_text}communication of a step\n{self.communication_text}"
            f"floating-point operations of a step\n  {self.flops:.4g}\n"
        )

    def _repr_html_(self) -> str:
        return _costs_table([self])


class RankCosts(list[Costs]):
    """Those of each rank along a pipeline."""

    def __str__(self) -> str:
        return "\n".join(f"rank {rank}\n{costs}" for rank, costs in enumerate(self))

    def _repr_html_(self) -> str:
        return _costs_table(self)


def _costs_table(ranks: list[Costs]) -> str:
    """A column for each rank."""
    several = len(ranks) > 1
    rows = [
        (field.name.removesuffix("_bytes").replace("_", " "), *(f"{value:,}" for value in values))
        for field in dataclasses.fields(Costs)
        if field.name.endswith("_bytes") and any(values := [getattr(each, field.name) for each in ranks])
    ]
    rows.append(("floating-point operations", *(f"{each.flops:,}" for each in ranks)))
    columns = [f"rank {number}" for number in range(len(ranks))] if several else ["bytes"]
    parts = [
        table(("memory, bytes" if several else "memory", *columns), rows[:-1]),
        table(("in a step", *(columns if several else [""])), rows[-1:]),
    ]
    sent = [
        (*([str(number)] if several else []), f"{op} over {axes}" if axes else op, f"{count:,} ×", f"{size:,}", f"{bytes_:,}")
        for number, each in enumerate(ranks)
        for op, axes, count, size, bytes_ in each.communication
    ]
    if sent:
        parts.append(table((*(["rank"] if several else []), "communication", "count", "bytes", "sent"), sent))
    return "".join(parts)


@dataclasses.dataclass(frozen=True)
class Picture:
    """A drawing in SVG."""

    svg: str = dataclasses.field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike) -> pathlib.Path:
        path = pathlib.Path(path)
        path.write_text(self.svg)
        return path


@dataclasses.dataclass(frozen=True)
class Page:
    """A page in HTML, complete in itself."""

    html: str = dataclasses.field(repr=False)

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: 640px; border: 0"></iframe>'

    def save(self, path: str | os.PathLike) -> pathlib.Path:
        path = pathlib.Path(path)
        path.write_text(self.html)
        return path


@dataclasses.dataclass(frozen=True)
class Timeline(Page):
    """When each rank does what in a step; `figures` has it in numbers, as `cleave-sim --json` prints it."""

    figures: dict = dataclasses.field(repr=False, default_factory=dict)


# Of a function's text in a notebook; `print(program)` has all of it.
_LINES = 1000
_KINDS = 8


def program_html(name: str, values: list[tuple[str, int, int, int]], functions: Mapping[str, tuple[Mapping[str, int], str]]) -> str:
    """A program: what it takes and holds, and its functions, whose text can be opened.

    values: role, tensors, elements, bytes. functions: by name its ops, counted by name, and its text.
    """
    parts = [f"<p><b>cleave.Program</b> {html.escape(name)}</p>"]
    if values:
        rows = [(role, *(f"{number:,}" for number in numbers)) for role, *numbers in values]
        parts.append(table(("", "tensors", "elements", "bytes"), rows))
    for function, (ops, text) in functions.items():
        kinds = [f"{kind} {count:,}" for kind, count in collections.Counter(ops).most_common(_KINDS)]
        if len(ops) > _KINDS:
            kinds.append(f"{len(ops) - _KINDS} other kinds")
        lines = text.splitlines()
        if len(lines) > _LINES:
            lines = [*lines[:_LINES], f"… {len(lines) - _LINES:,} lines more: print(program)"]
        parts.append(
            f"<details><summary><code>@{html.escape(function)}</code>: {sum(ops.values()):,} ops ({html.escape(', '.join(kinds))})"
            '</summary><pre style="max-height: 480px; overflow: auto; white-space: pre; text-align: left">'
            + html.escape("\n".join(lines)) + "</pre></details>"
        )
    return "".join(parts)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Names on the left, numbers on the right."""

    def line(cells, tag):
        cells = [(html.escape(str(cell)), "left" if place == 0 else "right") for place, cell in enumerate(cells)]
        return "<tr>" + "".join(f'<{tag} style="text-align: {side}">{text}</{tag}>' for text, side in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"
