"""Writes a program with the example of every op of the aten dialect, each in a function of its own.

usage: examples.py RECORDS.json DIRECTORY-OF-records.py > examples.mlir

An op whose description has no example, or whose example is of another op, is an error. Values that
an example uses become the function's arguments, with the types that its ops name.
"""

import re
import sys

sys.path.insert(0, sys.argv[2])
from records import read  # noqa: E402

STATEMENT = re.compile(
    r"%(?P<result>\w+)(?::\d+)? = (?P<op>aten\.\w+)(?: (?:\w+ )?\"[^\"]*\")*\((?P<arguments>.*)\)"
    r"\s*: \((?P<types>[^)]*)\)\s*-> (?P<results>\([^)]*\)|\S+)",
    re.DOTALL,
)


def function(op, example: str) -> str:
    statements = [s for s in re.split(r"\n(?=%\w+(?::\d+)? = )", example.strip()) if s]
    types: dict[str, str] = {}
    defined: set[str] = set()
    for statement in statements:
        match = STATEMENT.fullmatch(statement)
        if not match:
            sys.exit(f"aten.{op.mnemonic}: cannot read its example: {statement}")
        operands = re.findall(r"%\w+(?:#\d+)?", match["arguments"])
        operand_types = re.findall(r"tensor<(?:[^<>]|<[^<>]*>)*>|f64", match["types"])
        if len(operands) != len(operand_types):
            sys.exit(f"aten.{op.mnemonic}: {len(operands)} operands, {len(operand_types)} types")
        for operand, operand_type in zip(operands, operand_types):
            if operand.split("#")[0] not in defined:
                types.setdefault(operand, operand_type)
        defined.add("%" + match["result"])
    if not any(f"aten.{op.mnemonic}(" in s or f"aten.{op.mnemonic} " in s for s in statements):
        sys.exit(f"aten.{op.mnemonic}: its example does not use it")
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in types.items())
    name = "example_" + op.mnemonic
    return f"func.func @{name}({arguments}) {{\n{example}\n  return\n}}\n"


def main() -> None:
    for op in read(sys.argv[1]):
        if not op.summary:
            sys.exit(f"aten.{op.mnemonic}: has no summary")
        description = "\n".join(line.strip() for line in op.description.splitlines())
        blocks = re.findall(r"```mlir\n(.*?)\n```", description, re.DOTALL)
        if not blocks:
            sys.exit(f"aten.{op.mnemonic}: its description has no example")
        if "1. " not in description:
            sys.exit(f"aten.{op.mnemonic}: its description has no constraints")
        for block in blocks:
            print(function(op, block))


if __name__ == "__main__":
    main()
