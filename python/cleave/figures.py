"""Figures and pictures of programs, which a notebook shows and a terminal prints."""

from __future__ import annotations

import dataclasses
import html
import os
import pathlib


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
        rows = [
            (field.name.removesuffix("_bytes").replace("_", " "), f"{value:,}")
            for field in dataclasses.fields(self)
            if field.name.endswith("_bytes") and (value := getattr(self, field.name))
        ]
        sent = [
            (f"{op} over {axes}" if axes else op, f"{count:,} ×", f"{size:,}", f"{sent:,}")
            for op, axes, count, size, sent in self.communication
        ]
        operations = [("operations", f"{self.flops:,}")]
        parts = [_table(("memory", "bytes"), rows), _table(("in a step", "floating-point"), operations)]
        if sent:
            parts.append(_table(("communication", "count", "bytes", "sent"), sent))
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


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"
