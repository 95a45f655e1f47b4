"""Safetensors files whose tensors may be complex, as cleave-run reads and writes them.

The format has no complex types that all its readers know: such a tensor is stored as pairs of reals, with a last
dimension of size 2, and the file's metadata lists its name: {"complex": '["freqs_cis"]'}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
from safetensors import safe_open
from safetensors import torch as safetensors

_COMPLEX = "complex"


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """What is stored of a tensor: a complex one as pairs."""
    return torch.view_as_real(tensor.resolve_conj()).contiguous() if tensor.is_complex() else tensor


def complex_metadata(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """What a file's metadata says of those of `tensors` that are complex."""
    names = sorted(name for name, tensor in tensors.items() if tensor.is_complex())
    return {_COMPLEX: json.dumps(names)} if names else {}


def save_file(tensors: Mapping[str, torch.Tensor], path, metadata: Mapping[str, str] | None = None):
    """Writes the tensors under their names."""
    stored = {name: as_real(tensor) for name, tensor in tensors.items()}
    everything = dict(metadata or {}) | complex_metadata(tensors)
    safetensors.save_file(stored, path, everything or None)


def load_file(path) -> dict[str, torch.Tensor]:
    """The tensors of a file by name."""
    with safe_open(path, framework="pt") as file:
        listed = json.loads((file.metadata() or {}).get(_COMPLEX, "[]"))
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    # Files align tensors to 8 bytes, and operators may read complex<double> by instructions that want 16.
    return tensors | {name: torch.view_as_complex(tensors[name].clone()) for name in listed}
