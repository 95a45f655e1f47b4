"""`python -m cleave.export FILE:FACTORY -o DIR`: exports what a factory function returns."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import inspect
import pathlib
import sys
import traceback
import warnings
from typing import TYPE_CHECKING

from cleave.export.errors import ExportError, ExportNote
from cleave.export.options import MODES
from cleave.export.paths import short_path

if TYPE_CHECKING:
    from cleave.export.spec import ExportSpec

# What imports PyTorch is imported where it is needed: usage, and its errors, come at once.


def load_spec(target: str) -> ExportSpec:
    """Calls FACTORY of FILE (given as "FILE:FACTORY"); its directory joins the import path."""
    file, separator, factory = target.rpartition(":")
    if not separator:
        raise ExportError(f"expected FILE:FACTORY, found '{target}'")
    path = pathlib.Path(file)
    if not path.is_file():
        raise ExportError(f"there is no file {file}")
    from cleave.export.spec import ExportSpec

    sys.path.insert(0, str(path.resolve().parent))
    module_spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if module_spec is None:
        raise ExportError(f"expected a Python file, found {file}")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[path.stem] = module
    _call(f"importing {file}", lambda: module_spec.loader.exec_module(module))
    function = getattr(module, factory, None)
    if not callable(function):
        names = [
            n
            for n, v in vars(module).items()
            if inspect.isfunction(v) and v.__module__ == path.stem and not n.startswith("_")
        ]
        raise ExportError(
            f"{file} has no function '{factory}'; it has {', '.join(names) or 'none'}"
        )
    spec = _call(factory, function)
    if isinstance(spec, dict):
        spec = _call(factory, lambda: ExportSpec(**spec))
    if not isinstance(spec, ExportSpec):
        raise ExportError(
            f"expected {factory} to return a cleave.ExportSpec or a dict of its fields, found a "
            f"value of type {type(spec).__name__}"
        )
    return spec


def _call(what: str, function):
    """`function()`; what it raises becomes one line with the place."""
    try:
        return function()
    except ExportError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise ExportError(
            f"{what} raised {type(error).__name__} at "
            f"{short_path(frame.filename)}:{frame.lineno}: {error}"
        ) from error


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cleave.export", description=__doc__)
    parser.add_argument(
        "target", metavar="FILE:FACTORY", help="function that returns a cleave.ExportSpec"
    )
    parser.add_argument(
        "-o", "--out", default=".", metavar="DIR", help="output directory (default: .)"
    )
    parser.add_argument("--mode", choices=MODES, help="mode, instead of the spec's")
    parser.add_argument(
        "--no-gradients",
        dest="gradients",
        action="store_const",
        const=False,
        help="omit the backward; cleave-opt --autodiff can derive it",
    )
    parser.add_argument("--name", help="program name, instead of the spec's")
    options = parser.parse_args(argv)
    try:
        spec = load_spec(options.target)
        from cleave.export import export_spec

        changes = {k: v for k in ("mode", "name", "gradients") if (v := getattr(options, k)) is not None}
        if changes:
            spec = dataclasses.replace(spec, **changes)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ExportNote)
            path = export_spec(spec, options.out)
        for warning in caught:
            if issubclass(warning.category, ExportNote):
                print(f"note: {warning.message}", file=sys.stderr)
            else:
                warnings.showwarning(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
        print(path)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
