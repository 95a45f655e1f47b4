"""Weights that lie on disk, for PyTorch: `load_checkpoint` sets a module's from a checkpoint of cleave-run.

`read_weights` reads every form that `cleave-run --weights` takes, and pickled state dicts.
"""

from __future__ import annotations

import json
import os
import pathlib

import torch

from cleave.export.averages import SLOT
from cleave.parts import PARTS_INDEX, CheckpointError, read_parts

Tensors = dict[str, torch.Tensor]


def load_checkpoint(
    model: torch.nn.Module,
    folder: str | os.PathLike,
    *,
    loss: torch.nn.Module | None = None,
    prefix: str = "",
    averages: bool = False,
) -> None:
    """Sets the parameters and buffers of `model`, all of them and no other (strict), from a checkpoint.

    folder: a checkpoint, `run1/step-00000100`, or a run's folder, whose newest one is taken. loss: a loss
    module to set as well. prefix: what the checkpoint's names have before the model's, where the exported
    module had `model` in it: tensors of other names are left out. averages: parameters get their moving averages
    (`ema` of an export); those that the run did not update, and buffers, their values.
    """
    checkpoint = find_checkpoint(pathlib.Path(folder))
    tensors, path = read_group(checkpoint, "model")
    found = read_averages(checkpoint) if averages else {}
    pairs = [(model, take_prefix(tensors | _known(found, tensors), prefix, checkpoint), path)]
    if loss is not None:
        tensors, path = read_group(checkpoint, "loss")
        if not tensors:
            raise CheckpointError(f"{checkpoint}: the run's loss has no parameters or buffers, so there is none to set")
        of_loss = {name.removeprefix("loss."): value for name, value in found.items() if name.startswith("loss.")}
        pairs.append((loss, tensors | _known(of_loss, tensors), path))
    for module, state, path in pairs:
        _check(module, state, path)
    for module, state, _ in pairs:
        module.load_state_dict(state, strict=True)


def read_averages(checkpoint: pathlib.Path) -> Tensors:
    """The moving averages of parameters in a checkpoint, by the names of these."""
    states, path = read_group(checkpoint, "optimizer")
    found = {name.removesuffix(f".{SLOT}"): value for name, value in states.items() if name.endswith(f".{SLOT}")}
    if not found:
        raise CheckpointError(f"{path}: expected moving averages of the parameters (export with ema=), found none")
    return found


def _known(found: Tensors, tensors: Tensors) -> Tensors:
    return {name: value for name, value in found.items() if name in tensors}


def _check(module: torch.nn.Module, state: Tensors, path: pathlib.Path) -> None:
    """Before anything is set: load_state_dict sets what fits even where it fails."""
    own = module.state_dict()
    problems = [f"missing: '{name}'" for name in own if name not in state]
    problems += [f"extra: '{name}'" for name in state if name not in own]
    problems += [
        f"'{name}': the module has {_describe(own[name])}, the file {_describe(state[name])}"
        for name in own
        if name in state and (own[name].shape != state[name].shape or own[name].dtype != state[name].dtype)
    ]
    if problems:
        shown = problems[:20] + ([f"... and {len(problems) - 20} more"] if len(problems) > 20 else [])
        raise CheckpointError("\n  ".join([f"{path}: the weights do not match the module:", *shown]))


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def find_checkpoint(folder: pathlib.Path) -> pathlib.Path:
    """The checkpoint that `folder` is, or the newest one in it."""
    if (folder / "state.json").exists():
        return folder
    steps = [path for path in folder.glob("step-*") if path.name[5:].isdigit() and (path / "state.json").exists()]
    if not steps:
        raise CheckpointError(f"{folder}: expected a checkpoint of cleave-run (state.json, model.safetensors), found none")
    return max(steps, key=lambda path: int(path.name[5:]))


def read_group(checkpoint: pathlib.Path, group: str) -> tuple[Tensors, pathlib.Path]:
    """The tensors of a checkpoint's "model", "loss" (none, where it has no state) or "optimizer", whole, and the
    file to name in messages. Several ranks may have written them, each its part."""
    index, path = checkpoint / PARTS_INDEX, checkpoint / f"{group}.safetensors"
    if index.exists():
        return read_parts(index, group), index
    return ({} if group == "loss" and not path.exists() else read_file(path)), path


def read_file(path: pathlib.Path) -> Tensors:
    """The tensors of a safetensors file."""
    import safetensors
    import safetensors.torch

    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def take_prefix(tensors: Tensors, prefix: str, path: os.PathLike) -> Tensors:
    """The tensors whose names begin with `prefix`, without it."""
    taken = {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    if not taken:
        raise CheckpointError(f"{path}: expected names that begin with '{prefix}', found none")
    return taken


def read_weights(path: str | os.PathLike, averages: bool = False) -> Tensors:
    """The tensors of a safetensors file, a checkpoint or a run of cleave-run, a Hugging Face folder, a folder
    of torch.distributed.checkpoint, or of a state dict that torch.save wrote, of which nothing but tensors is
    accepted (weights_only). averages: of a checkpoint or a run, with moving averages in place of the parameters."""
    path = pathlib.Path(path)
    if averages:
        checkpoint = find_checkpoint(path)
        tensors = read_group(checkpoint, "model")[0]
        return tensors | _known(read_averages(checkpoint), tensors)
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError(f"{path}: No such file or directory")
        if path.name.endswith(".index.json"):
            return _read_shards(path)
        return read_file(path) if path.suffix == ".safetensors" else _read_pickled(path)
    if (path / PARTS_INDEX).exists():
        return read_parts(path / PARTS_INDEX, "model")
    if (path / ".metadata").exists():
        return _read_distributed(path)
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (path / f"{name}.index.json").exists() and not (path / name).exists():
            return _read_shards(path / f"{name}.index.json")
        if (path / name).exists():
            return read_file(path / name) if name.endswith(".safetensors") else _read_pickled(path / name)
    try:
        checkpoint = find_checkpoint(path)
    except CheckpointError:
        raise CheckpointError(
            f"{path}: expected a checkpoint of cleave-run, a Hugging Face folder or one of "
            "torch.distributed.checkpoint, found none of them"
        ) from None
    return read_group(checkpoint, "model")[0]


def _read_shards(index: pathlib.Path) -> Tensors:
    try:
        weight_map = json.loads(index.read_text())["weight_map"]
        shards = sorted(set(weight_map.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index}: expected an index with a weight_map: {error!r}") from None
    tensors: Tensors = {}
    for shard in shards:
        if pathlib.PurePath(shard).name != shard:
            raise CheckpointError(f"{index}: expected shards in the same folder, found '{shard}'")
        read = read_file if shard.endswith(".safetensors") else _read_pickled
        for name, tensor in read(index.parent / shard).items():
            if weight_map.get(name) != shard:
                raise CheckpointError(f"{index}: {shard} has '{name}', which the index does not say")
            tensors[name] = tensor
    for name, shard in weight_map.items():
        if name not in tensors:
            raise CheckpointError(f"{index}: '{name}' is said to be in {shard}, which does not have it")
    return tensors


def _read_pickled(path: pathlib.Path) -> Tensors:
    import pickle

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path}: {str(error).splitlines()[0]}") from None
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise CheckpointError(f"{path}: expected a state dict, names and tensors, found something else")
    return dict(state)


def _read_distributed(folder: pathlib.Path) -> Tensors:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    tensors = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    dcp.load(tensors, checkpoint_id=folder, no_dist=True)
    return tensors
