"""What a replacement of a block of a known library is."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable

from torch import nn


@dataclasses.dataclass(frozen=True)
class Patch:
    """note: what its user should know.
    forward: instead of the class's, or of its `method`, which `why` has no trace.
    source: the digest of the method that this was written for, and of the functions of its module that `calls` names;
        several where releases differ in comments.
    library: where that is.
    functions: what else is replaced: modules (None for the class's own), names and functions.
    fits: whether this is right for a block; where it is not for one of the module's, `otherwise` is taken for all, or it is
        refused with `unless`, which says what to set.
    """

    note: str
    forward: Callable | None = None
    source: str | tuple[str, ...] = ""
    library: str = ""
    why: str = ""
    calls: tuple[str, ...] = ()
    functions: tuple[tuple[object, str, Callable], ...] = ()
    method: str = "forward"
    fits: Callable[[nn.Module], bool] | None = None
    otherwise: Patch | None = None
    unless: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source


def source_digest(method: Callable, calls: tuple[str, ...] = ()) -> str:
    """Of a method and the functions that it calls; none where one of them has no source."""
    module = inspect.getmodule(method)
    try:
        text = "".join(inspect.getsource(f) for f in (method, *(getattr(module, name) for name in calls)))
    except (AttributeError, OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
