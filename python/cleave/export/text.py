"""Python values as MLIR text: types, attributes, strings and SSA names."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

import torch

_ELEMENT_TYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
}

_MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
    torch.preserve_format: "preserve_format",
}


class Unsupported(Exception):
    """A value that programs have no form for; the caller knows the op and the source line."""


def element_type(dtype: torch.dtype) -> str:
    if dtype not in _ELEMENT_TYPES:
        raise Unsupported(f"a tensor of {dtype}, which programs do not support")
    return _ELEMENT_TYPES[dtype]


def tensor_type(value: torch.Tensor) -> str:
    """`tensor<2x3xf32>`; raises Unsupported for symbolic sizes and other dtypes."""
    if any(not isinstance(size, int) for size in value.shape):
        shape = ", ".join(str(size) for size in value.shape)
        remedy = STATIC_SIZES if _depends_on_data(value) else "export at a fixed microbatch size"
        raise Unsupported(f"a tensor of dynamic shape ({shape}); {remedy}")
    if value.layout is not torch.strided:
        raise Unsupported(f"a tensor of layout {value.layout}; programs have strided tensors only")
    return "tensor<" + "".join(f"{size}x" for size in value.shape) + element_type(value.dtype) + ">"


# What to say where sizes depend on data.
STATIC_SIZES = (
    "expected static sizes: mask elements instead of selecting them (torch.where(mask, x, 0), ignore_index of a loss); to "
    "route tokens to experts, give each a fixed capacity, as examples/moe.py does"
)


def _depends_on_data(value: torch.Tensor) -> bool:
    return any(re.search(r"\bu\d+\b", str(size)) for size in value.shape)


def float_literal(value: float) -> str:
    """A float as MLIR reads it: always with a point, non-finite ones as bits with their type."""
    if not math.isfinite(value):
        bits = struct.unpack(">Q", struct.pack(">d", value))[0]
        return f"0x{bits:016X} : f64"
    text = repr(float(value))
    mantissa, exponent, power = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + exponent + power


def float_attribute(value: float) -> str:
    """A float attribute with its type, as stands outside of aten ops."""
    text = float_literal(value)
    return text if text.endswith("f64") else text + " : f64"


def string(value: str) -> str:
    """A string attribute."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'

    def escape(character: str) -> str:
        if character in '"\\' or not character.isprintable():
            return "".join(f"\\{byte:02X}" for byte in character.encode())
        return character

    return '"' + "".join(map(escape, value)) + '"'


def attribute(value: Any, schema_type: str) -> str:
    """A constant argument of a dispatcher call; `schema_type` such as "float" or "SymInt[]"."""
    base = schema_type.rstrip("?")
    if base.endswith("[]"):
        # The schema lets one number stand for a list.
        value = value if isinstance(value, (list, tuple)) else [value]
        element = base[:-2]
        return "[" + ", ".join(attribute(item, element) for item in value) + "]"
    if isinstance(value, torch.dtype):
        return element_type(value)
    if isinstance(value, torch.memory_format):
        return string(_MEMORY_FORMATS[value])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise Unsupported(f"the integer {value}, which has more than 64 bits")
        return float_literal(float(value)) if base == "float" else str(value)
    if isinstance(value, float):
        return float_literal(value)
    if isinstance(value, complex):
        return f"#aten.complex<{float_literal(value.real)}, {float_literal(value.imag)}>"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Unsupported(f"the dynamic number {value}; export at a fixed microbatch size")
    raise Unsupported(f"an argument of type {type(value).__name__}, which programs do not support")


class Names:
    """Unique SSA names that stay as close as possible to those of the model."""

    def __init__(self):
        self._taken: set[str] = set()

    def fresh(self, wanted: str) -> str:
        base = re.sub(r"[^A-Za-z0-9$._-]", "_", wanted) or "v"
        if base[0].isdigit():
            base = "_" + base
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return "%" + name
