"""The ranks of a compiled step: those of a process group of torch.distributed that is there already."""

from __future__ import annotations

import collections
import contextlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from cleave.errors import Error
from cleave.export.errors import ExportError
from cleave.native import native
from cleave.plan import Plan


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is one of which each rank holds a part."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def data_axes(mesh: Mapping[str, int], plan: Plan | None) -> list[str]:
    """The axes of a mesh over which batches are divided: without a plan all."""
    if plan is None:
        return list(mesh)
    axes = {rule["axis"] for rule in plan.rules if rule.get("style") in ("data", "fsdp", "hsdp")}
    axes |= {rule["replicate_axis"] for rule in plan.rules if rule.get("style") == "hsdp"}
    return [axis for axis in mesh if axis in axes]


def part_of_batch(mesh: Mapping[str, int], plan: Plan | None, rank: int) -> tuple[int, int]:
    """Which part of each batch a rank brings, and how many there are; several ranks may bring the same."""
    index, count, axes = 0, 1, data_axes(mesh, plan)
    for axis, size in mesh.items():
        if axis in axes:
            index, count = index * size + coordinate(mesh, axis, rank), count * size
    return index, count


def coordinate(mesh: Mapping[str, int], axis: str, rank: int) -> int:
    """Where a rank is along an axis; the last one counts fastest."""
    stride = math.prod(list(mesh.values())[list(mesh).index(axis) + 1 :])
    return rank // stride % mesh[axis]


# Steps so far, by process group.
_numbers: collections.Counter[str] = collections.Counter()


class Ranks:
    """This process and those that it trains with, on the axes of a mesh.

    native: what the session takes for them; None for a process that trains alone.
    """

    def __init__(self, mesh: Mapping[str, int], pipeline: Any, group: Any, timeout: float):
        self.mesh, self.native, self.rank, self.size = dict(mesh), None, 0, 1
        self._group = group
        self._device_mesh: Any = None
        # The process group of the ranks that share a pipeline with this one.
        self._column: Any = None
        self._stages = pipeline.stages if pipeline else 1
        of_mesh = math.prod(self.mesh.values())
        if dist.is_available() and dist.is_initialized() and (self.mesh or pipeline):
            self._group = group if group is not None else dist.group.WORLD
            self.rank, self.size = dist.get_rank(self._group), dist.get_world_size(self._group)
        elif of_mesh > 1:
            raise ExportError(
                f"expected torch.distributed to be initialised with the {of_mesh} ranks of the mesh {self.mesh}: "
                "call torch.distributed.init_process_group() and start with torchrun"
            )
        if self.size % of_mesh or (pipeline is None and self.size != of_mesh):
            raise ExportError(
                f"expected {'a multiple of ' if pipeline else ''}{of_mesh} ranks for the mesh {self.mesh}, found {self.size}"
            )
        self.size_of_pipeline = self.size // of_mesh if self.size > 1 else self._stages
        if self._stages % self.size_of_pipeline:
            raise ExportError(
                f"expected stages that divide over the {self.size_of_pipeline} ranks of the pipeline, found {self._stages}"
            )
        # Which of the steps of its group it is, in the order of their first calls.
        self._number = 0
        if self.size > 1:
            self.native = native().Ranks(self._group_of_cpu(), timeout, self._make_group)
            self._number = _numbers[self._group.group_name] = _numbers[self._group.group_name] + 1

    def let_go(self) -> None:
        """Gives up its groups, with which nothing is computed any more."""
        self.native = self._group = self._column = self._device_mesh = None

    def _group_of_cpu(self) -> str:
        """The group, by which ranks also agree on the processor; where it is NCCL's alone, one of Gloo beside it."""
        if "cpu:" in dist.get_backend_config(self._group):
            return self._group.group_name
        return self._make_group(list(range(self.size)))

    def _make_group(self, ranks: list[int]) -> str:
        """A group of some of the ranks, which alone call it."""
        members = [dist.get_global_rank(self._group, rank) for rank in ranks]
        return dist.new_group(members, backend="gloo", use_local_synchronization=True).group_name

    @contextlib.contextmanager
    def together(self, what: str) -> Iterator[None]:
        """Ends in an exception on all ranks where the body, `what`, ends in one on any of them."""
        error = None
        try:
            yield
        except Exception as caught:
            error = caught
        if self.native is None:
            if error is not None:
                raise error
            return
        try:
            texts = self.native.gather("" if error is None else f"{type(error).__name__}: {error}", what)
        except Error as lost:
            raise error or lost from None
        if error is not None:
            raise error
        if problems := [f"rank {rank}: {text}" for rank, text in enumerate(texts) if text]:
            raise Error("\n".join(problems))

    def check_same(self, what: str, rates: str, problem: Exception | None) -> None:
        """Raises on all ranks unless they bring the same texts, and none has a problem.

        what: the kind of batch. rates: the optimizers' learning rates.
        """
        # Another on each rank with a problem, so that ranks with the same one do not go on.
        number = zlib.crc32(f"{self._number}; {what}; {rates}".encode()) if problem is None else -1 - self.rank
        try:
            if self.native.have_same(number, "what the batch is like"):
                return
            text = f"{type(problem).__name__}: {problem}" if problem is not None else ""
            texts = self.native.gather(json.dumps([self._number, what, rates, text]), "what the batch is like")
        except Error as error:
            if problem is not None:
                raise problem from None
            raise Error(f"rank {self.rank} has lost another rank before a step: {error}") from None
        if problem is not None:
            raise problem
        steps, batches, numbers, problems = zip(*map(json.loads, texts))
        if any(problems):
            raise Error("\n".join(f"rank {rank}: {text}" for rank, text in enumerate(problems) if text))
        kind, found = ("batches of the same types and shapes", batches)
        if len(set(steps)) > 1:
            kind, found = ("the same of several steps", [f"the one that was called as number {step}" for step in steps])
        elif len(set(batches)) == 1:
            kind, found = ("the same learning rates", numbers)
        listed = "\n".join(f"rank {rank}: {what}" for rank, what in enumerate(found))
        raise Error(f"expected {kind} on all ranks, found\n{listed}")

    def digests(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
        """Of the values of tensors that are whole here, by what they are; none for a process that trains alone."""
        if self.native is None:
            return {}
        return {name: _digest(tensor) for name, tensor in tensors.items() if not is_sharded(tensor)}

    def check_same_values(self, digests: Mapping[str, int]) -> None:
        """Raises on all ranks where one begins with other values than another."""
        if self.native is None:
            return
        known: dict[str, tuple[int, int]] = {}
        for rank, text in enumerate(self.native.gather(json.dumps(digests), "the parameters' values")):
            for name, digest in json.loads(text).items():
                first, expected = known.setdefault(name, (rank, digest))
                if digest != expected:
                    raise Error(
                        f"{name} differs between ranks {first} and {rank}: expected the same values on all, by the same "
                        "torch.manual_seed() before the model is made, or by loading the same weights"
                    )

    def check_same_generator(self) -> None:
        """Raises on all ranks where the next random numbers differ between them."""
        if not self.native.have_same(generator_digest(), "the state of the random numbers"):
            raise Error(
                "ranks that share a batch have other random numbers: expected the same state of PyTorch's default generator "
                "on all ranks, torch.manual_seed() with one seed"
            )

    def mean(self, value: float) -> float:
        """Of a number that each rank has, and that all bring together."""
        if self.native is None:
            return value
        return math.fsum(map(float, self.native.gather(repr(value), "the loss"))) / self.size

    def parts_of_batch(self, plan: Plan | None) -> int:
        """Over how many ranks a laid-out program divides the batch of which each rank brings its part."""
        return 1 if plan is None else math.prod(self.mesh[axis] for axis in data_axes(self.mesh, plan))

    # Stages -------------------------------------------------------------------------------------

    def spread(self, tensors: Mapping[str, torch.Tensor], owned: set[str], held: set[str]) -> None:
        """Gives all ranks along the pipeline the values of tensors that some of them have.

        All ranks bring tensors of the same names. owned: what this rank changes. held: what it has.
        """
        mine = json.dumps([sorted(owned), sorted(held)])
        known = [[set(names) for names in json.loads(text)] for text in self.native.gather(mine, "which values ranks have")]
        inner = self.size // self.size_of_pipeline
        column = list(range(self.rank % inner, self.size, inner))
        if self._column is None:
            self._column = self._group if inner == 1 else dist.new_group(
                [dist.get_global_rank(self._group, rank) for rank in column], use_local_synchronization=True
            )  # fmt: skip
        for name, tensor in sorted(tensors.items()):
            have = [rank for rank in column if name in known[rank][0]] or [rank for rank in column if name in known[rank][1]]
            if have:
                part = tensor.detach()
                part = part.to_local() if is_sharded(part) else part
                dist.broadcast(part, dist.get_global_rank(self._group, have[0]), group=self._column)

    # Sharded values -----------------------------------------------------------------------------

    def shard(self, whole: torch.Tensor, value: dict) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's part of a parameter or buffer, and the DTensor that stands for the whole."""
        part = self.part(whole.detach(), value).clone(memory_format=torch.contiguous_format)
        shown = self.show(part, value, whole)
        if isinstance(whole, torch.nn.Parameter):
            shown = torch.nn.Parameter(shown, requires_grad=whole.requires_grad)
        return part, shown

    def held(self, owner: torch.Tensor, value: dict) -> torch.Tensor:
        """What this rank has of a parameter or buffer that a program before has laid out."""
        part, expected, found = owner, _shards(value["shards"]), ()
        if is_sharded(owner):
            part = owner.detach().to_local()
            found = _shards((axis, p.dim, 0) for axis, p in zip(self.mesh, owner.placements) if p.is_shard())
        if expected != found or list(part.shape) != list(value["shape"]):
            raise Error(
                f"'{value['name']}': expected it sharded as for the first batch, {found or 'not at all'}, found "
                f"{expected or 'not at all'} for a batch of this size"
            )
        return part

    def show(self, part: torch.Tensor, value: dict, whole: torch.Tensor) -> torch.Tensor:
        """A part as the DTensor that it is of; itself where it is all."""
        from torch.distributed.tensor import DTensor, Replicate, Shard

        if not value["shards"]:
            return part
        shards = {axis: dim for axis, dim, _ in value["shards"]}
        axes = list(self.mesh)
        inner_first = sorted(value["shards"], key=lambda shard: (shard[1], axes.index(shard[0])))
        if any(a[1] == b[1] and a[2] > b[2] for a, b in zip(inner_first, inner_first[1:])):
            raise Error(
                f"'{value['name']}': a dimension is sharded by {[s[0] for s in value['shards']]} in another order than the "
                f"mesh has them, {axes}, which a DTensor cannot say"
            )
        placements = [Shard(shards[axis]) if axis in shards else Replicate() for axis in axes]
        return DTensor.from_local(
            part, self._mesh_of_devices(part.device.type), placements, run_check=False, shape=whole.shape, stride=whole.stride()
        )

    def show_output(self, part: torch.Tensor | None, value: dict, microbatches: int) -> torch.Tensor | None:
        """What this rank has made of an output: its examples; a DTensor where it has only a part of what is of them."""
        if part is None or all(dim == value["batch"] for _, dim, _ in value["shards"]):
            return part
        shape = list(value["whole_shape"] or value["shape"])
        if value["whole_shape"] is None:
            for axis, dim, _ in value["shards"]:
                shape[dim] *= self.mesh[axis]
        if value["batch"] is not None:
            shape[value["batch"]] *= microbatches
        return self.show(part, value, torch.empty(shape, device="meta"))

    def _mesh_of_devices(self, device_type: str):
        """The mesh as PyTorch knows it. All ranks call it at the same time."""
        if self._device_mesh is None:
            if self._group is not dist.group.WORLD:
                raise ExportError("expected the group of all ranks where a plan shards parameters, found another one")
            outer = self.size // math.prod(self.mesh.values())
            sizes, names = (outer, *self.mesh.values()), ("_outer", *self.mesh)
            whole = dist.init_device_mesh(device_type, sizes, mesh_dim_names=names)
            self._device_mesh = whole[tuple(self.mesh)]
        return self._device_mesh

    def part(self, whole: torch.Tensor, value: dict) -> torch.Tensor:
        """This rank's part of a tensor, of which the program has `value`."""
        part = whole
        for axis, dim, _ in sorted(value["shards"], key=lambda shard: shard[2]):
            count, place = self.mesh[axis], coordinate(self.mesh, axis, self.rank)
            size = -(-part.shape[dim] // count)  # as torch.chunk divides
            begin = min(place * size, part.shape[dim])
            part = part.narrow(dim, begin, min(size, part.shape[dim] - begin))
        if list(part.shape) != list(value["shape"]):
            raise Error(
                f"'{value['name']}': expected a part of shape {value['shape']} of {list(whole.shape)}, found {list(part.shape)}"
            )
        return part


def generator_digest() -> int:
    """Of the state of PyTorch's default generator."""
    return _digest(torch.get_rng_state())


def _digest(tensor: torch.Tensor) -> int:
    return zlib.crc32(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())


def _shards(shards) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((axis, dim) for axis, dim, _ in shards))
