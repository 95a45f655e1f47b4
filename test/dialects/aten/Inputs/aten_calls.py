"""Calls of aten ops, as they stand in a program: read from a line, written again, run in PyTorch."""

import re
import struct
from dataclasses import dataclass, field

import torch

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "i1": torch.bool,
    "complex<f32>": torch.complex64,
    "complex<f64>": torch.complex128,
}
TENSOR = r"tensor<(?:[^<>]|<[^<>]*>)*>"
STATEMENT = re.compile(r"%\w+(?::\d+)? = aten\.(\w+)\((.*)\) : \((.*?)\) -> (.*)")


def tensor_type(text: str) -> tuple[list[int], torch.dtype]:
    sizes, dtype = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", text).groups()
    return [int(size) for size in sizes.split("x")[:-1]], DTYPES[dtype]


def type_text(value) -> str:
    if value is None:
        return "none"
    dtype = next(name for name, dtype in DTYPES.items() if dtype == value.dtype)
    return "tensor<" + "".join(f"{size}x" for size in value.shape) + dtype + ">"


def with_shape(type_: str, shape: list[int]) -> str:
    dtype = re.fullmatch(r"tensor<(?:\d+x)*(.*)>", type_).group(1)
    return "tensor<" + "".join(f"{size}x" for size in shape) + dtype + ">"


def split_list(text: str) -> list[str]:
    """Splits at commas outside brackets."""
    return [part.strip() for part in re.findall(r"(?:\[[^\]]*\]|<[^>]*>|[^,\[<])+", text)]


def constant(text: str):
    if text.startswith("["):
        inner = text[1:-1].strip()
        return [constant(part) for part in inner.split(", ")] if inner else []
    if text.startswith("#aten.complex<"):
        return complex(*map(constant, text.removeprefix("#aten.complex<").removesuffix(">").split(", ")))
    if text.startswith("0x"):
        return struct.unpack(">d", bytes.fromhex(text.split(" : ")[0][2:]))[0]
    if text in ("true", "false"):
        return text == "true"
    if text in DTYPES:
        return DTYPES[text]
    if text.startswith('"'):
        return text.strip('"')
    return float(text) if re.search(r"[.eE]", text) else int(text)


@dataclass
class Call:
    """One op of a program. `op` is its record."""

    op: object
    #: the tensor arguments in order: None for an absent one, the operand's number, or a list of such
    tensors: list
    #: the other arguments, as text
    attributes: dict[str, str]
    operand_types: list[str]
    result_types: list[str]
    #: where each attribute stood among all arguments
    order: list[str] = field(default_factory=list)

    def names(self) -> list[tuple[str, int]]:
        """For each operand the name of its argument, and its place where that is a list."""
        named = {}
        for argument, place in zip((a for a in self.op.arguments if a.kind != "A"), self.tensors):
            places = place if isinstance(place, list) else [place]
            for i, operand in enumerate(places):
                if operand is not None:
                    named[operand] = (argument.name, i)
        return [named[i] for i in range(len(self.operand_types))]

    def value(self, name: str, default=None):
        return constant(self.attributes[name]) if name in self.attributes else default

    def statement(self, operand_types=None, result_types=None, attributes=None) -> str:
        """The op in a function of its own, with other types and attributes if given."""
        operand_types = operand_types or self.operand_types
        result_types = result_types or self.result_types
        values = {**self.attributes, **(attributes or {})}
        tensors = iter(self.tensors)

        def operand(number) -> str:
            return "none" if number is None else f"%a{number}"

        parts = []
        for name in self.order:
            if name:
                parts.append(f"{name} = {values[name]}")
                continue
            place = next(tensors)
            if isinstance(place, list):
                parts.append("[" + ", ".join(operand(i) for i in place) + "]")
            else:
                parts.append(operand(place))
        parameters = ", ".join(f"%a{i}: {t}" for i, t in enumerate(operand_types))
        results = ", ".join(result_types)
        count = f":{len(result_types)}" if len(result_types) != 1 else ""
        return (
            f"func.func @FUNCTION({parameters}) {{ %0{count} = aten.{self.op.mnemonic}({', '.join(parts)}) "
            f": ({', '.join(operand_types)}) -> {results if not count else f'({results})'} return }}"
        )

    def run(self, operands: list, **overrides) -> list:
        """The operator's results; a tensor that it leaves undefined is None."""
        values = {}
        tensors = iter(self.tensors)
        for argument in self.op.arguments:
            if argument.kind != "A":
                place = next(tensors, None)
                if isinstance(place, list):
                    values[argument.name] = [None if i is None else operands[i] for i in place]
                else:
                    values[argument.name] = None if place is None else operands[place]
            elif argument.name in self.attributes:
                value = overrides.get(argument.name, self.value(argument.name))
                is_format = argument.name == "memory_format"
                values[argument.name] = getattr(torch, value) if is_format else value
        name, _, overload = self.op.schema.removeprefix("aten::").partition(".")
        function = getattr(getattr(torch.ops.aten, name), overload or "default")
        for argument in function._schema.arguments:
            # `Optional` without default: absent in a program means None.
            if argument.name not in values and not argument.has_default_value():
                values[argument.name] = None
        results = function(**values)
        return list(results) if isinstance(results, (tuple, list)) else [results]


def read_call(line: str, ops: dict) -> Call | None:
    """The call in a line of a program; None if there is none. `ops`: records by mnemonic."""
    match = STATEMENT.fullmatch(line.strip())
    if not match:
        return None
    mnemonic, arguments, operand_types, results = match.groups()
    tensors, attributes, order = [], {}, []
    numbers = iter(range(len(arguments)))

    def operand(text: str):
        return None if text == "none" else next(numbers)

    for text in split_list(arguments):
        name, equals, value = text.partition(" = ")
        if equals:
            attributes[name] = value
            order.append(name)
        elif text.startswith("["):
            tensors.append([operand(e) for e in split_list(text[1:-1])])
            order.append("")
        else:
            tensors.append(operand(text))
            order.append("")
    return Call(
        ops[mnemonic],
        tensors,
        attributes,
        re.findall(TENSOR, operand_types),
        re.findall(rf"{TENSOR}|none", results),
        order,
    )
