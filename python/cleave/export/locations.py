"""Where an op comes from: the module path and the Python statement, as MLIR locations."""

from __future__ import annotations

import linecache
import os
import re

import torch

from cleave.export.paths import short_path
from cleave.export.text import string

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Dynamo names a submodule by how it was reached from the traced module.
_SUBSCRIPT = re.compile(r"\._modules\['([^']+)'\]|\['?([^'\]]+)'?\]")


def frames(trace: str) -> list[tuple[str, int]]:
    """The (file, line) pairs of a formatted stack, outermost first, without the exporter's own."""
    found = [(file, int(line)) for file, line in _FRAME.findall(trace)]
    return [frame for frame in found if not is_exporter(frame[0])]


def is_exporter(file: str) -> bool:
    """Whether a file is one of this package."""
    return file.startswith(_PACKAGE)


def is_library(file: str) -> bool:
    """Whether a file is PyTorch's or Python's own, and no place to look for the cause."""
    standard = os.path.dirname(os.__file__) + os.sep
    return f"{os.sep}torch{os.sep}" in file or (
        file.startswith(standard) and "site-packages" not in file
    )


def source_line(node: torch.fx.Node) -> str | None:
    """`gpt.py:57` of the innermost frame of the model's code."""
    stack = frames(node.meta.get("stack_trace") or "")
    stack = [frame for frame in stack if not is_library(frame[0])] or stack
    return f"{short_path(stack[-1][0])}:{stack[-1][1]}" if stack else None


def place(node: torch.fx.Node) -> str:
    """" at gpt.py:57" for a message; the module where the model has no line; else nothing."""
    line, path = source_line(node), module_path(node)
    return f" at {line}" if line else f" in module '{path}'" if path else ""


def module_path(node: torch.fx.Node) -> str:
    """The path of the module that the op belongs to, "" for the exported module itself.

    Ops of the backward part have the path of the forward op that they differentiate.
    """
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path = list(stack.values())[-1][0]
    path = re.sub(r"^L\['self'\]", "", path)
    path = _SUBSCRIPT.sub(lambda m: "." + (m.group(1) or m.group(2)), path)
    path = path.removeprefix(".")
    for root in ("module", "loss"):
        if path == root:
            return "" if root == "module" else "loss"
    return path.removeprefix("module.")


def statement(translator) -> tuple[str, str]:
    """Where the statement of the model is that is being traced, and its text in parentheses."""
    outer = translator
    while outer is not None and (is_library(outer.f_code.co_filename) or is_exporter(outer.f_code.co_filename)):
        outer = outer.parent
    translator = outer or translator
    file, line = translator.f_code.co_filename, translator.lineno
    code = linecache.getline(file, line).strip()
    return f" at {short_path(file)}:{line}", f" ('{code}')" if code else ""


def attribute(source: str) -> str:
    """The name for a message of what Dynamo calls L['self'].module.encoder.table; what is no attribute it names so, too."""
    name = _SUBSCRIPT.sub(lambda m: "." + (m.group(1) or m.group(2)), source.removeprefix("L['self']")).removeprefix(".")
    return f"'{name.removeprefix('module.')}'"


class Locations:
    """Gives each distinct location one alias, `loc(#loc3)`, and prints their definitions."""

    def __init__(self):
        self._aliases: dict[str, str] = {}
        self._known: dict[tuple[str, str], str] = {}

    def of(self, node: torch.fx.Node) -> str:
        trace, path = node.meta.get("stack_trace") or "", module_path(node)
        known = self._known.get((trace, path))
        if known is None:
            known = self._known[trace, path] = self._make(frames(trace), path)
        return known

    def _make(self, stack: list[tuple[str, int]], path: str) -> str:
        if stack:
            text = f"{string(short_path(stack[-1][0]))}:{stack[-1][1]}:0"
            if path:
                text = f"{string(path)}({text})"
        elif path:
            text = string(path)
        else:
            return "loc(unknown)"
        alias = self._aliases.setdefault(text, f"#loc{len(self._aliases) + 1}")
        return f"loc({alias})"

    def definitions(self) -> str:
        return "".join(f"{alias} = loc({text})\n" for text, alias in self._aliases.items())
