"""safetensors files with PyTorch alone: the package, and NumPy, may be missing on a machine with GPUs."""

import ctypes
import json
import mmap

import torch

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def load_file(path):
    """All tensors of a file, by name, in memory of their own."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        tensors = {}
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for name, entry in header.items():
                begin, end = (8 + size + offset for offset in entry["data_offsets"])
                dtype = DTYPES[entry["dtype"]]
                if begin == end:
                    tensors[name] = torch.empty(entry["shape"], dtype=dtype)
                    continue
                flat = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
                tensors[name] = flat.view(dtype).reshape(entry["shape"])
    return tensors


def save_file(tensors, path):
    """Writes tensors by name, as the safetensors package lays them out."""
    header, offset, parts = {}, 0, []
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    for name in order:
        tensor = tensors[name].detach().cpu().contiguous()
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
        parts.append((tensor, size))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor, size in parts:
            if size:
                file.write(memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())))


def draw(names, seed):
    """Tensors for {name: [shape, dtype]}: what training might begin with, the same on every machine.

    Matrices and filters get normal numbers of deviation 1/sqrt(inputs), gains and variances ones, the rest zeros.
    Drawn in float32 and rounded, so that a model in bfloat16 has the weights of the one in float32.
    """
    result = {}
    for index, name in enumerate(sorted(names)):
        shape, dtype = names[name]
        if len(shape) >= 2:
            generator = torch.Generator().manual_seed(seed * 100003 + index)
            inputs = 1
            for size in shape[1:]:
                inputs *= size
            value = torch.randn(shape, generator=generator) / inputs**0.5
        elif name.endswith(("weight", "running_var")):
            value = torch.ones(shape)
        else:
            value = torch.zeros(shape)
        result[name] = value.to(DTYPES[dtype])
    return result
