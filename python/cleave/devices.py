"""Where a compiled step computes: on the processor, or on the CUDA device that the model is on."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

import torch

from cleave.export.errors import ExportError


def find_device(modules: Mapping[str, torch.nn.Module]) -> torch.device:
    """That of all parameters and buffers of modules, by their paths. Raises ExportError where there are several."""
    first = None
    for path, module in modules.items():
        for key, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            name = f"{path}.{key}" if path else key
            if torch.nn.parameter.is_lazy(tensor):
                raise ExportError(f"'{name}' has no shape yet, as LazyLinear makes it: call the model once before")
            if tensor.device.type not in ("cpu", "cuda"):
                raise ExportError(
                    f"'{name}': expected it on the CPU or on a CUDA device, where steps compute, found it on {tensor.device}"
                )
            if first is None:
                first = name, tensor.device
            elif tensor.device != first[1]:
                raise ExportError(f"'{name}': expected it on {first[1]}, where '{first[0]}' is, found it on {tensor.device}")
    return torch.device("cpu") if first is None else first[1]


def for_native(device: torch.device) -> tuple[str, int, str]:
    """A device as the extension module takes it: its kind, its index, and the plugin's file."""
    return device.type, device.index or 0, "" if device.type == "cpu" else _find_plugin(device.type)


def _find_plugin(kind: str) -> str:
    """Empty where the environment names it."""
    if os.environ.get("CLEAVE_DEVICE_PLUGIN"):
        return ""
    package = pathlib.Path(__file__).resolve().parent
    is_checkout = (package.parents[1] / "CMakeLists.txt").exists()
    # In a wheel; in the build that is named, or that of the checkout; in an installed tree.
    folders = [package / "lib", package.parents[1] / "build" / "lib" if is_checkout else package.parents[2]]
    if build := os.environ.get("CLEAVE_BUILD"):
        folders.insert(1, pathlib.Path(build) / "lib")
    places = [folder / f"libcleave_{kind}.so" for folder in folders]
    found = [str(place) for place in places if place.exists()]
    if not found:
        raise ExportError(
            f"the model is on a {kind} device: expected the plugin libcleave_{kind}.so in {' or '.join(map(str, folders))}, "
            "found none (CLEAVE_DEVICE_PLUGIN names another file)"
        )
    return found[0]
