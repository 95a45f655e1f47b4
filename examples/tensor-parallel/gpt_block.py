"""Writes the tensor-parallel GPT for a number of ranks, with weights and data, and gives PyTorch's gradients.

    python gpt_block.py RANKS f32|f64 FOLDER

writes FOLDER/gpt.mlir, gpt.safetensors (weights) and inputs.safetensors; README.md goes on from there.
"""

import argparse
import pathlib
import string
import sys

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import gpt  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64}


def program(ranks, dtype):
    """The text of the program for 1, 2 or 4 ranks (there are 4 heads)."""
    if ranks not in (1, 2, 4) or dtype not in DTYPES:
        raise ValueError(f"expected 1, 2 or 4 ranks and f32 or f64, found {ranks} and '{dtype}'")
    template = string.Template((pathlib.Path(__file__).parent / "gpt.mlir.in").read_text())
    return template.substitute(
        ranks=ranks, t=dtype, heads=4 // ranks, width=32 // ranks, hidden=128 // ranks
    )


def model(dtype):
    """The same model in PyTorch, seeded, with its tokens and targets. Biases are random, so that they count."""
    torch.manual_seed(0)
    module = gpt.GPT(
        gpt.GPTConfig(vocabulary=64, context=16, layers=1, heads=4, width=32, tied=False)
    )
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.02)
    tokens, targets = torch.randint(64, (2, 2, 16))
    return module.to(DTYPES[dtype]), {"tokens": tokens, "targets": targets}


def tensor_parallel_names(tensors):
    """Splits the fused projection of queries, keys and values into the three that shard by heads."""
    result = {}
    for name, tensor in tensors.items():
        if ".c_attn." in name:
            for part, chunk in zip("qkv", tensor.chunk(3)):
                result[name.replace("c_attn", part)] = chunk.contiguous()
        else:
            result[name] = tensor
    return result


def reference(dtype):
    """Loss and gradients of one rank, by PyTorch."""
    module, data = model(dtype)
    loss = gpt.cross_entropy(module(data["tokens"]), data["targets"])
    loss.backward()
    gradients = {n: p.grad for n, p in module.named_parameters()}
    return loss.detach(), tensor_parallel_names(gradients)


def write(ranks, dtype, folder):
    module, data = model(dtype)
    (folder / "gpt.mlir").write_text(program(ranks, dtype))
    weights = {n: p.detach() for n, p in module.named_parameters()}
    save_file(tensor_parallel_names(weights), folder / "gpt.safetensors")
    save_file({n: t.contiguous() for n, t in data.items()}, folder / "inputs.safetensors")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the tensor-parallel GPT and its data.")
    parser.add_argument("ranks", type=int, choices=(1, 2, 4))
    parser.add_argument("dtype", choices=tuple(DTYPES))
    parser.add_argument("folder", type=pathlib.Path, help="where the three files go")
    arguments = parser.parse_args()
    try:
        write(arguments.ranks, arguments.dtype, arguments.folder)
    except (OSError, SafetensorError) as error:
        sys.exit(f"error: cannot write to {arguments.folder}: {error}")
