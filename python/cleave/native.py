"""The extension module `cleave_native`: programs and sessions in this process. The build makes it."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import types

import torch  # its libraries are what the module is linked against

_NAME = "cleave_native"


@functools.cache
def native() -> types.ModuleType:
    """The extension module; raises ImportError where there is none, or where it is another torch's."""
    found = [path for folder in _folders() for path in sorted(folder.glob(f"{_NAME}*")) if _is_extension(path)]
    if not found:
        raise ImportError(
            f"expected Cleave's extension module in {' or '.join(map(str, _folders()))}, found none: build it with "
            "./dev build in Cleave's checkout, or set CLEAVE_BUILD to the build's folder"
        )
    # Before its code is there: another torch's classes are laid out otherwise.
    facts = found[0].with_name(f"{_NAME}.json")
    built = json.loads(facts.read_text())["torch"] if facts.exists() else None
    if built not in (None, torch.__version__.split("+")[0]):
        raise ImportError(f"{found[0]}: built against torch {built}, found {torch.__version__}")
    try:
        spec = importlib.util.spec_from_file_location(_NAME, found[0])
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(f"{found[0]}: built against another torch than {torch.__version__}: {error}") from None
    if module.TORCH_VERSION != torch.__version__.split("+")[0]:
        raise ImportError(f"{found[0]}: built against torch {module.TORCH_VERSION}, found {torch.__version__}")
    sys.modules[_NAME] = module
    return module


def _folders() -> list[pathlib.Path]:
    """Where it may be: in the package (a wheel), in the build that is named, in that of the checkout."""
    package = pathlib.Path(__file__).resolve().parent
    folders = [package, package.parent.parent / "build" / "python"]
    if build := os.environ.get("CLEAVE_BUILD"):
        folders.insert(1, pathlib.Path(build) / "python")
    return folders


def _is_extension(path: pathlib.Path) -> bool:
    return path.name in {_NAME + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES}
