"""`python -m cleave.convert SOURCE TARGET --to FORM`: weights from one form into another.

SOURCE: a checkpoint or a run of cleave-run, a safetensors file, a Hugging Face folder, a folder of
torch.distributed.checkpoint, or a state dict that torch.save wrote (of which nothing but tensors is accepted).

FORM: `safetensors`, a file with the state dict; `torch`, the same by torch.save; `huggingface`, a folder for
from_pretrained; `dcp`, a folder for torch.distributed.checkpoint.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

import torch

from cleave.checkpoint import CheckpointError, Tensors, read_weights, take_prefix

FORMS = ("safetensors", "torch", "huggingface", "dcp")


def convert(
    source: str | os.PathLike,
    target: str | os.PathLike,
    form: str,
    *,
    prefix: str = "",
    config: str | os.PathLike | None = None,
    max_shard_size: str = "5GB",
    key: str | None = None,
    averages: bool = False,
) -> None:
    """Writes the weights at `source` to `target`, which must not exist yet, in one of FORMS.

    prefix: take tensors whose names begin with it, and strip it. config: for huggingface, a folder with the
    model's config.json. max_shard_size: of its shards. key: for dcp, the key under which the state dict is saved,
    as in `dcp.save({"model": model.state_dict()})`. averages: of a run, the moving averages of its parameters (`ema`).
    """
    target = pathlib.Path(target)
    if target.exists():
        raise CheckpointError(f"{target}: expected a name that is free, found a {'folder' if target.is_dir() else 'file'}")
    tensors = take_prefix(read_weights(source, averages), prefix, source)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Under another name until it is whole.
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
        part = pathlib.Path(folder, target.name)
        if form == "safetensors":
            _write_safetensors(tensors, part)
        elif form == "torch":
            torch.save(tensors, part)
        elif form == "huggingface":
            _write_huggingface(tensors, part, config, max_shard_size)
        elif form == "dcp":
            _write_distributed(tensors, part, key)
        else:
            raise CheckpointError(f"expected one of the forms {', '.join(FORMS)}, found '{form}'")
        shutil.move(part, target)


def _write_safetensors(tensors: Tensors, path: pathlib.Path) -> None:
    import safetensors.torch

    # A tied weight is in the file under each of its names; the format does not share memory.
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        apart[name] = (tensor.clone() if storage in seen else tensor).contiguous()
        seen.add(storage)
    safetensors.torch.save_file(apart, path, {"format": "pt"})


def _write_huggingface(
    tensors: Tensors, folder: pathlib.Path, config: str | os.PathLike | None, max_shard_size: str
) -> None:
    import transformers

    if config is None:
        raise CheckpointError("--to huggingface needs --config FOLDER, with the model's config.json")
    if not pathlib.Path(config, "config.json").exists():
        raise CheckpointError(f"{config}: expected a folder with config.json, found none in it")
    settings = transformers.AutoConfig.from_pretrained(config)
    name = (settings.architectures or [None])[0]
    kind = getattr(transformers, name or "", None)
    if kind is None:
        raise CheckpointError(
            f"{config}: expected the name of a class of transformers under \"architectures\", found '{name}'"
        )
    with torch.device("meta"):
        model = kind(settings)
    own = model.state_dict()
    # Tied weights may be there under one of their names.
    model.tie_weights()
    tied = {name for group in _ties(model) for name in group if any(other in tensors for other in group)}
    missing = sorted(own.keys() - tensors.keys() - tied)
    extra = sorted(tensors.keys() - own.keys())
    wrong = sorted(n for n in own.keys() & tensors.keys() if own[n].shape != tensors[n].shape)
    problems = [f"missing: '{n}'" for n in missing] + [f"extra: '{n}'" for n in extra]
    problems += [f"'{n}': {name} has {list(own[n].shape)}, the weights {list(tensors[n].shape)}" for n in wrong]
    if problems:
        more = [f"... and {len(problems) - 20} more"] if len(problems) > 20 else []
        raise CheckpointError("\n  ".join([f"the weights do not match {name} (see --prefix):", *problems[:20], *more]))
    for group in _ties(model):
        first, *rest = [n for n in group if n in tensors]
        found = tensors[first]
        for other in rest:
            if not torch.equal(tensors[other], found):
                raise CheckpointError(f"'{other}' is tied to '{first}' in {name}, but has other values")
        tensors = {**tensors, **{n: found for n in group}}
    model.load_state_dict(tensors, strict=True, assign=True)
    model.tie_weights()
    model.save_pretrained(folder, max_shard_size=max_shard_size)


def _ties(model: torch.nn.Module) -> list[list[str]]:
    """The groups of names that are one parameter."""
    groups: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _write_distributed(tensors: Tensors, folder: pathlib.Path, key: str | None) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save({key: tensors} if key else dict(tensors), checkpoint_id=folder, no_dist=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cleave.convert", description="Writes weights in another form.")
    parser.add_argument(
        "source",
        help="checkpoint or run of cleave-run, safetensors file, Hugging Face folder, folder of "
        "torch.distributed.checkpoint, or file of torch.save",
    )
    parser.add_argument("target", help="file (safetensors, torch) or folder (huggingface, dcp) to write")
    parser.add_argument("--to", required=True, choices=FORMS, dest="form", help="form to write")
    parser.add_argument("--prefix", default="", help="take tensors whose names begin with it, and strip it")
    parser.add_argument("--config", metavar="FOLDER", help="huggingface: where the model's config.json is")
    parser.add_argument("--max-shard-size", default="5GB", help="huggingface: bytes in a file (default: 5GB)")
    parser.add_argument(
        "--averages", action="store_true", help="of a run: the moving averages (ema) in place of the parameters"
    )
    parser.add_argument("--key", help="dcp: key of the state dict in what is saved (default: none)")
    options = vars(parser.parse_args(arguments))
    try:
        convert(**options)
    except (CheckpointError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
