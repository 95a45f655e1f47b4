"""Exports a PyTorch training step: `NAME.mlir`, its graph, and `NAME.safetensors`, its weights.

`cleave.export` is this package and the function `export` alike: calling the package exports.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import tempfile
import types
import warnings
from typing import TYPE_CHECKING

from cleave.export.errors import ExportError, ExportNote

if TYPE_CHECKING:
    from cleave.export.averages import EMA
    from cleave.export.schedules import Constant, StepDecay, WarmupCosine
    from cleave.export.spec import ExportSpec

__all__ = [
    "EMA",
    "Constant",
    "ExportError",
    "ExportNote",
    "ExportSpec",
    "StepDecay",
    "WarmupCosine",
    "export",
    "export_spec",
]

# Imported when asked for: they import PyTorch, which takes seconds.
_HOMES = {
    "EMA": "averages", "ExportSpec": "spec", "Constant": "schedules", "StepDecay": "schedules", "WarmupCosine": "schedules",
}  # fmt: skip


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'cleave.export' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"cleave.export.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def export(module, args, kwargs=None, *, out=".", **options) -> pathlib.Path:
    """Exports `module` for the microbatch `args`, `kwargs`; the other options are ExportSpec's.

    Writes NAME.mlir and NAME.safetensors in the directory `out`, which is made if need be, with a
    plan also NAME.plan.json, and returns the path of the first. Raises ExportError, and then leaves no file changed;
    warns with ExportNote.
    """
    from cleave.export.spec import ExportSpec

    return export_spec(ExportSpec(module, args, kwargs, **options), out)


def export_spec(spec: ExportSpec, out=".") -> pathlib.Path:
    """The same for an ExportSpec."""
    from cleave.export.pytorch import unset_fake_temporarily

    spec.check()
    with unset_fake_temporarily():  # where a module without weights was made, and which may still be on
        return _export(spec, pathlib.Path(out))


def _export(spec: ExportSpec, out: pathlib.Path) -> pathlib.Path:
    from safetensors import SafetensorError

    from cleave.export.capture import capture
    from cleave.export.operators import load_typed_ops
    from cleave.export.program import Program
    from cleave.tensor_files import save_file

    load_typed_ops()  # refuses before anything is traced
    program = Program(spec, capture(spec))
    tensors = {name: tensor.cpu().contiguous().clone() for name, tensor in program.tensors.items()}
    try:
        out.mkdir(parents=True, exist_ok=True)
        # All files are complete before one takes its name.
        with tempfile.TemporaryDirectory(dir=out, prefix=".export-") as folder:
            weights, text, plan = (pathlib.Path(folder, part) for part in ("weights", "text", "plan"))
            save_file(tensors, weights)
            text.write_text(program.text, encoding="utf-8")
            if spec.plan is not None:
                spec.plan.write(plan)
                os.replace(plan, out / f"{spec.name}.plan.json")
            os.replace(weights, out / f"{spec.name}.safetensors")
            os.replace(text, out / f"{spec.name}.mlir")
    except OSError as error:
        raise ExportError(f"cannot write to {out}: {error.strerror or error}") from None
    except SafetensorError as error:
        raise ExportError(f"cannot write to {out}: {error}") from None
    for note in program.notes:
        warnings.warn(note, ExportNote, stacklevel=3)
    return out / f"{spec.name}.mlir"


class _Package(types.ModuleType):
    def __call__(self, *args, **kwargs):
        return export(*args, **kwargs)


sys.modules[__name__].__class__ = _Package
