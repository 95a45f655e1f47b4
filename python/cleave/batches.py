"""What a batch is like: its structure, and the types and sizes of its tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from cleave.export.pytorch import pytree
from cleave.native import native

if TYPE_CHECKING:
    from cleave.bound_program import BoundProgram


def call_arguments(inputs: Any) -> tuple[tuple, dict]:
    """What forward is called with: a tensor, a tuple of arguments or a dict of keywords."""
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


@dataclasses.dataclass(frozen=True)
class TensorKind:
    dtype: torch.dtype
    shape: tuple[int, ...]
    device: str

    def is_like(self, other: TensorKind, batch: int | None) -> bool:
        """Whether they differ at most in the number of examples, dimension `batch`."""
        if (self.dtype, self.device, len(self.shape)) != (other.dtype, other.device, len(other.shape)):
            return False
        return all(a == b for dim, (a, b) in enumerate(zip(self.shape, other.shape)) if dim != batch)

    def __str__(self):
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)} on {self.device}"


@dataclasses.dataclass(frozen=True)
class OtherKind:
    """A value that a step does not take."""

    name: str

    def __str__(self):
        return f"a value of type {self.name}"


def about_batch(key, microbatches: int) -> str:
    """What ranks must have alike, in words."""
    _, kinds, modes, trains, divided = key
    about = ", ".join(map(str, kinds))
    if trains and divided != microbatches:
        about += f" in {divided} microbatches"
    if not trains:
        return f"{about} to evaluate"
    return about if all(modes) else f"{about} with {modes.count(False)} modules in evaluation mode"


def kind_of(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided or leaf.is_quantized:
            return OtherKind(f"a tensor of layout {leaf.layout}" if leaf.layout is not torch.strided else "a quantized tensor")
        if leaf.device.type not in ("cpu", "cuda"):
            return OtherKind(f"a tensor on {leaf.device}")
        return TensorKind(leaf.dtype, tuple(leaf.shape), leaf.device.type)
    if isinstance(leaf, (bool, int, float, complex, str, torch.dtype, type(None))):
        return leaf
    return OtherKind(type(leaf).__qualname__)


class LastCall:
    """What a step was called with last: native code sees whether it is called with the like, of which all is known."""

    def __init__(self, arguments: tuple, microbatches: int | None, key: tuple, compiled: BoundProgram):
        self._pattern = native().Pattern(arguments)
        self._microbatches, self.key, self.compiled = microbatches, key, compiled

    def match(self, arguments: tuple, microbatches: int | None, trains: bool) -> list[torch.Tensor] | None:
        """The tensors among the arguments, or None where somebody is to look closely."""
        if trains is not self.key[3] or microbatches != self._microbatches or not self.compiled.has_its_modes():
            return None
        return self._pattern.match(arguments, trains)


def describe_structure(tree) -> str:
    """How arguments are nested: "step(..., ...)", "step({'input_ids': ...})"."""
    args, kwargs, targets = pytree.tree_unflatten(["..."] * tree.num_leaves, tree)
    inputs = kwargs if kwargs else args[0] if len(args) == 1 else args
    return f"step({', '.join(map(str, (inputs, *targets)))})".replace("'...'", "...")
