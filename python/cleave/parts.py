"""Tensors that several ranks of cleave-run have written, each its parts, and the index that says where they belong.

docs/run.md describes the form; runtime/io/PartedTensors.h reads it in C++.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Sequence

import torch

from cleave.errors import Error

PARTS_INDEX = "parts.json"
_FORMAT = 1

_DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
    "C64": torch.complex64, "C128": torch.complex128,
}  # fmt: skip


class CheckpointError(Error, ValueError):
    """Weights that cannot be read, or that are another module's; the message says why."""


def read_parts(index: pathlib.Path, group: str) -> dict[str, torch.Tensor]:
    """The whole tensors of a group ("model", "loss", "optimizer") of an index, which is checked: each part is in its
    file as the index says, the parts of a tensor cover it once, and the files have nothing else."""
    try:
        contents = json.loads(index.read_text())
        entries = contents[group]
        if contents["format"] != _FORMAT:
            raise ValueError(f"format {contents['format']}")
        named = {name: entry["alias_of"] for name, entry in entries.items() if "alias_of" in entry}
        parted = {name: _Tensor(name, entry) for name, entry in entries.items() if name not in named}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{index}: expected an index of parts of format {_FORMAT}: {error!r}") from None
    files = _Files(index)
    tensors = {}
    try:
        for name, tensor in parted.items():
            tensors[name] = tensor.read(files)
        files.check()
        for name, other in named.items():
            if other not in parted:
                raise CheckpointError(f"'{name}' is said to be '{other}', which has no parts")
            tensors[name] = tensors[other]
    except CheckpointError as error:
        raise CheckpointError(f"{index}: {error}") from None
    return tensors


class _Files:
    """The files beside an index, each read once, and what of them has been taken."""

    def __init__(self, index: pathlib.Path):
        self._folder = index.parent
        self._files: dict[str, dict[str, torch.Tensor]] = {}

    def take(self, file: str, name: str) -> torch.Tensor:
        if not file or pathlib.PurePath(file).name != file:
            raise CheckpointError(f"expected the name of a file in the same folder, found '{file}'")
        if file not in self._files:
            self._files[file] = self._read(file)
        part = self._files[file].pop(name, None)
        if part is None:
            raise CheckpointError(f"'{name}' is said to have a part in {file}, which does not have it")
        return part

    def _read(self, file: str) -> dict[str, torch.Tensor]:
        import safetensors

        from cleave.tensor_files import load_file

        try:
            return load_file(self._folder / file)
        except (OSError, safetensors.SafetensorError) as error:
            raise CheckpointError(f"{file}: {error}") from None

    def check(self):
        for file, rest in self._files.items():
            for name in rest:
                raise CheckpointError(f"{file} has '{name}', which the index does not list")


class _Tensor:
    """What an index says of a tensor."""

    def __init__(self, name: str, entry: dict):
        self.name, self.dtype = name, _DTYPES[entry["dtype"]]
        self.shape = _integers(entry["shape"])
        parts = entry["parts"]
        self.parts = [(str(part["file"]), _integers(part["begin"]), _integers(part["shape"])) for part in parts]
        for _, begin, shape in self.parts:
            if not len(begin) == len(shape) == len(self.shape):
                raise ValueError(f"parts of '{name}' with other dimensions")

    def read(self, files: _Files) -> torch.Tensor:
        self._check_cover()
        whole = torch.empty(self.shape, dtype=self.dtype)
        for file, begin, shape in self.parts:
            part = files.take(file, self.name)
            if part.dtype != self.dtype or list(part.shape) != shape:
                raise CheckpointError(
                    f"'{self.name}': the index says {_describe(self.dtype, shape)} in {file}, which has "
                    f"{_describe(part.dtype, part.shape)}"
                )
            whole[tuple(slice(b, b + size) for b, size in zip(begin, shape))] = part
        return whole

    def _check_cover(self):
        boxes = [[(b, b + size) for b, size in zip(begin, shape)] for _, begin, shape in self.parts]
        if any(end > size for box in boxes for (_, end), size in zip(box, self.shape)):
            raise CheckpointError(f"'{self.name}': a part lies outside of the tensor")
        covered = sum(math.prod(shape) for _, _, shape in self.parts)
        if covered != math.prod(self.shape):
            raise CheckpointError(f"'{self.name}': its parts hold {covered} elements, expected {math.prod(self.shape)}")
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                if all(max(a[0], b[0]) < min(a[1], b[1]) for a, b in zip(one, other)):
                    raise CheckpointError(f"'{self.name}': two parts hold the same elements")


def _integers(values: Sequence) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise ValueError(f"expected a list of integers from 0, found {values!r}")
    return values


def _describe(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
