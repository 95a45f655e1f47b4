"""Writes a safetensors file tensor by tensor, in any order; complex ones as pairs (tensor_files.py)."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping

import torch

from cleave.tensor_files import as_real, complex_metadata

_DTYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32",
    torch.int64: "I64", torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64",
}  # fmt: skip


class TensorFile:
    """`tensors` are the names with shapes and element types; their values come by `write`."""

    def __init__(self, path: pathlib.Path, tensors: Mapping[str, torch.Tensor]):
        self._offsets: dict[str, int] = {}
        metadata = complex_metadata(tensors)
        header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
        pairs = {name: as_real(tensor) for name, tensor in tensors.items()}
        end = 0
        # As safetensors does: larger element types first, so that all are aligned.
        for name, tensor in sorted(pairs.items(), key=lambda item: (-item[1].element_size(), item[0])):
            begin, end = end, end + tensor.numel() * tensor.element_size()
            header[name] = {
                "dtype": _DTYPES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [begin, end],
            }
            self._offsets[name] = begin
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        self._begin = 8 + len(text)
        self._file = open(path, "wb")
        self._file.write(len(text).to_bytes(8, "little") + text)
        self._file.truncate(self._begin + end)

    def write(self, name: str, tensor: torch.Tensor):
        self._file.seek(self._begin + self._offsets.pop(name))
        flat = as_real(tensor.detach()).contiguous().reshape(-1)
        if flat.numel():
            self._file.write(flat.view(torch.uint8).numpy())

    def close(self):
        if self._offsets:
            raise AssertionError(f"not written: {sorted(self._offsets)}")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
