"""Runs every op of the given files in PyTorch and compares the types of the results.

usage: torch_types.py RECORDS.json DIRECTORY-OF-records.py FILE.mlir...

The verifiers accept what stands in these files; this shows that it is also what the operators do.
Operands are zeros, except for ops that want otherwise; random ops, which are Cleave's own, are left
out.
"""

import re
import struct
import sys

import torch

sys.path.insert(0, sys.argv[2])
from records import Op, read  # noqa: E402

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
}
STATEMENT = re.compile(r"%\w+(?::\d+)? = aten\.(\w+)\((.*)\) : \((.*?)\) -> (.*)")


def tensor_type(text: str) -> tuple[list[int], torch.dtype]:
    *sizes, dtype = text.removeprefix("tensor<").removesuffix(">").split("x")
    return [int(size) for size in sizes], DTYPES[dtype]


def type_text(value) -> str:
    if value is None:
        return "none"
    dtype = next(name for name, dtype in DTYPES.items() if dtype == value.dtype)
    return "tensor<" + "".join(f"{size}x" for size in value.shape) + dtype + ">"


def split_list(text: str) -> list[str]:
    """Splits at commas outside brackets."""
    return [part.strip() for part in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", text)]


def constant(text: str):
    if text.startswith("["):
        inner = text[1:-1].strip()
        return [constant(part) for part in inner.split(", ")] if inner else []
    if text.startswith("0x"):
        return struct.unpack(">d", bytes.fromhex(text.split(" : ")[0][2:]))[0]
    if text in ("true", "false"):
        return text == "true"
    if text in DTYPES:
        return DTYPES[text]
    if text.startswith('"'):
        return text.strip('"')
    return float(text) if re.search(r"[.eE]", text) else int(text)


def call(op: Op, arguments: str, operand_types: str):
    """Calls the operator with operands of the given types; gives its results."""
    types = iter(re.findall(r"tensor<[^>]*>", operand_types))

    def operand(text: str):
        if text == "none":
            return None
        sizes, dtype = tensor_type(next(types))
        return torch.zeros(sizes, dtype=dtype)

    values = {}
    positional = iter(a for a in op.arguments if a.kind != "A")
    for text in split_list(arguments):
        name, equals, value = text.partition(" = ")
        if equals:
            is_format = name == "memory_format"
            values[name] = getattr(torch, constant(value)) if is_format else constant(value)
        elif text.startswith("["):
            values[next(positional).name] = [operand(e) for e in split_list(text[1:-1])]
        else:
            values[next(positional).name] = operand(text)
    name, _, overload = op.schema.removeprefix("aten::").partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    for argument in function._schema.arguments:
        # `Optional` without default: absent in a program means None.
        if argument.name not in values and not argument.has_default_value():
            values[argument.name] = None
    results = function(**values)
    return list(results) if isinstance(results, (tuple, list)) else [results]


def main() -> int:
    ops = {op.mnemonic: op for op in read(sys.argv[1])}
    count = failures = 0
    seen = set()
    for path in sys.argv[3:]:
        for line in open(path):
            match = STATEMENT.fullmatch(line.strip())
            if not match or match[1].startswith("rng_"):
                continue
            op = ops[match[1]]
            expected = re.findall(r"tensor<[^>]*>|none", match[4])
            try:
                found = [type_text(value) for value in call(op, match[2], match[3])]
            except Exception as error:  # whatever PyTorch raises is what we want to see
                found = [f"{type(error).__name__}: {error}".splitlines()[0]]
            count += 1
            seen.add(op.mnemonic)
            if found != expected:
                print(f"{path}: {line.strip()}\n  PyTorch gives {found}")
                failures += 1
    missing = {m for m in ops if m != "call" and not m.startswith("rng_")} - seen
    for mnemonic in sorted(missing):
        print(f"aten.{mnemonic} has no test in these files")
    print(f"{count} calls of {len(seen)} ops, {failures} differ")
    return failures != 0 or bool(missing) or count == 0


if __name__ == "__main__":
    sys.exit(main())
