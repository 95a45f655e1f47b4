"""Pipelines of passes, as `cleave-opt` and as MLIR spell them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable


def pipeline_text(passes: str | Iterable[str]) -> str:
    """MLIR's spelling of a pipeline: `sync-gradients{axis=dp},cse`.

    passes: that, or a command line, `--sync-gradients=axis=dp --cse`; or several such.
    """
    if not isinstance(passes, str):
        return ",".join(text for each in passes if (text := pipeline_text(each)))
    passes = passes.strip()
    if match := re.fullmatch(r"builtin\.module\((.*)\)", passes, re.DOTALL):
        passes = match.group(1).strip()
    if not passes.startswith("-"):
        return passes
    parts = []
    for word in shlex.split(passes):
        name, equals, options = word.lstrip("-").partition("=")
        parts.append(f"{name}{{{options}}}" if equals else name)
    return ",".join(parts)
