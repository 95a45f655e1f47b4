"""Weights that lie on disk, for PyTorch: `load_checkpoint` sets a module's from a checkpoint of cleave-run.

`read_weights` reads every form that `cleave-run --weights` takes, and pickled state dicts.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import pickle
from collections.abc import Sequence

import torch

from cleave.checkpoint_optimizer import count_steps, read_states
from cleave.export.averages import SLOT
from cleave.parts import PARTS_INDEX, CheckpointError, read_parts

Tensors = dict[str, torch.Tensor]


def load_checkpoint(
    model: torch.nn.Module,
    folder: str | os.PathLike,
    *,
    loss: torch.nn.Module | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    scaler: torch.amp.GradScaler | None = None,
    prefix: str = "",
    averages: bool = False,
) -> int | None:
    """Sets the parameters and buffers of `model`, all of them and no other (strict), from a checkpoint.

    folder: a checkpoint, `run1/step-00000100`, or a run's folder, whose newest one is taken; or weights of another
    form: a Hugging Face folder, or one of torch.distributed.checkpoint. loss: a loss module to set as well.
    optimizer: of the model's parameters, one or several, whose state becomes that of the checkpoint: its next step is
    the one that the run would have taken. Learning rates stay: schedulers set them. scaler: gets the scale of the loss
    (`--scale-loss`), and the steps since it changed; its factors and interval stay. prefix: what the checkpoint's
    names have before the model's, where the exported module had `model` in it: tensors of other names are left out.
    averages: parameters get their moving averages (`ema` of an export); those that the run did not update, and
    buffers, their values.

    Returns the number of steps that the checkpoint is of, skipped ones included, which optimizers do not count; None
    for weights of another form.
    """
    folder = pathlib.Path(folder)
    if not _is_run(folder):
        if loss is not None or optimizer is not None or scaler is not None or averages:
            raise CheckpointError(
                f"{folder}: expected a checkpoint of cleave-run, which has the state of a loss or optimizer, found none"
            )
        state = take_prefix(read_weights(folder), prefix, folder)
        _check(model, add_tied_names(state, model), folder)
        model.load_state_dict(state, strict=True)
        return None
    checkpoint = find_checkpoint(folder)
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
    steps, scale = _read_steps(checkpoint)
    if scaler is not None:
        new_scale = _describe_scale(scaler, scale, checkpoint)
    optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer or [])
    if optimizers:
        tensors, path = read_group(checkpoint, "optimizer")
        taken = steps - (scale["skipped"] if scale else 0)
        states = read_states(optimizers, _name_parameters(model, prefix, loss), tensors, taken, path)
        # Before the first step that is taken there is no state: some is not what zeros would make of it.
        states = states if taken else [{} for _ in optimizers]
        counts = count_steps(optimizers, taken) if taken else []
    for module, state, _ in pairs:
        module.load_state_dict(state, strict=True)
    for number, each in enumerate(optimizers):
        each.state.clear()
        each.state.update(states[number])
        for group, counted in zip(each.param_groups, counts[number] if counts else ()):
            group.update(counted)
    if scaler is not None:
        scaler.load_state_dict(new_scale)
    return steps


def _is_run(folder: pathlib.Path) -> bool:
    """Whether it is a checkpoint or a run of cleave-run, or nothing that there is another way to read."""
    files = ("model.safetensors", "pytorch_model.bin")
    others = (".metadata", *files, *(f"{name}.index.json" for name in files))
    is_other = any((folder / name).exists() for name in others)
    return (folder / "state.json").exists() or (folder.is_dir() and not is_other)


def add_tied_names(state: Tensors, model: torch.nn.Module) -> Tensors:
    """Adds to `state` the names of the model's tied tensors that it has under another name: `save_pretrained` leaves
    all but one out."""
    names = collections.defaultdict(list)
    for name, tensor in model.state_dict(keep_vars=True).items():
        names[id(tensor)].append(name)
    for tied in names.values():
        known = next((name for name in tied if name in state), None)
        for name in tied:
            if known is not None:
                state.setdefault(name, state[known])
    return state


def _read_steps(checkpoint: pathlib.Path) -> tuple[int, dict | None]:
    """The run's steps, and the scale of its loss if it has one: "scale", "steps" since that changed, "skipped" steps."""
    path = checkpoint / "state.json"
    try:
        state = json.loads(path.read_text())
        scale = state.get("loss_scale")
        if scale is not None:
            scale = {"scale": float(scale["scale"]), "steps": int(scale["steps"]), "skipped": int(scale["skipped"])}
        return int(state["step"]), scale
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: expected the state of a run: {error!r}") from None


def _describe_scale(scaler: torch.amp.GradScaler, scale: dict | None, checkpoint: pathlib.Path) -> dict:
    """What `scaler` continues from, as its state dict."""
    if scale is None:
        raise CheckpointError(f"{checkpoint}: expected a run with a scale of the loss (--scale-loss), found none")
    state = scaler.state_dict()
    if not state:
        raise CheckpointError(f"{checkpoint}: expected an enabled GradScaler for its scale of the loss, found a disabled one")
    return state | {"scale": scale["scale"], "_growth_tracker": scale["steps"]}


def _name_parameters(
    model: torch.nn.Module, prefix: str, loss: torch.nn.Module | None
) -> dict[torch.nn.Parameter, list[str]]:
    """What a checkpoint may call a parameter."""
    names = collections.defaultdict(list)
    for module, before in ((model, prefix), (loss, "loss.")):
        if module is not None:
            for name, parameter in module.named_parameters(remove_duplicate=False):
                names[parameter].append(before + name)
    return names


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
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path}: {str(error).splitlines()[0]}") from None
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise CheckpointError(f"{path}: expected a state dict, names and tensors, found something else")
    return dict(state)


def _read_distributed(folder: pathlib.Path) -> Tensors:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

    path = folder / ".metadata"
    try:
        # PyTorch's own reader would call whatever the pickle names.
        with path.open("rb") as file:
            metadata = _MetadataReader(file).load()
    except Exception as error:
        raise CheckpointError(f"{path}: expected the metadata of a checkpoint: {error}") from None
    if not isinstance(metadata, Metadata):
        raise CheckpointError(f"{path}: expected the metadata of a checkpoint, found a {type(metadata).__name__}")
    tensors = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    try:
        dcp.load(tensors, checkpoint_id=folder, no_dist=True)
    except (dcp.api.CheckpointException, OSError, KeyError) as error:
        raise CheckpointError(f"{folder}: {str(error).splitlines()[0]}") from None
    return tensors


class _MetadataReader(pickle.Unpickler):
    """Reads what the metadata of torch.distributed.checkpoint is made of, and nothing else."""

    _NAMES = {
        "torch.distributed.checkpoint.metadata": (
            "Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "TensorProperties",
            "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING",
        ),
        "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
        "torch": ("Size", "device"),
        "torch.serialization": ("_get_layout",),
        "collections": ("OrderedDict",),
        "pathlib": ("PosixPath",),
        "pathlib._local": ("PosixPath",),
    }  # fmt: skip

    def find_class(self, module: str, name: str):
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if is_dtype or name in self._NAMES.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is not part of this format")
