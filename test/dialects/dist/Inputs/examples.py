"""Writes a program with the examples of all dist ops and of docs/types.md, each in a function of its own.

usage: examples.py DIALECT-DIRECTORY docs/types.md > examples.mlir

Values that an example uses become the function's arguments, with the types that its ops name. An op
whose description has no constraints, or no example that uses it, is an error.
"""

import re
import sys
from pathlib import Path

MESH = 'dist.mesh @mesh ["dp" = ?, "pp" = 2, "tp" = 2, "ep" = 2]\n'
RECORD = re.compile(r'^def Dist_\w+Op : Dist_\w+<"(\w+)".*?^}', re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"```mlir\n(.*?)\n *```", re.DOTALL)
SHORT = re.compile(r"#([RPIV]|S(\d))(?:_(\w+))?")


def spell_out(text: str) -> str:
    """`#S0_tp`, or `#S0` for short, as the attribute that the alias stands for."""

    def attribute(match: re.Match) -> str:
        kind = f"S({match[2]})" if match[2] else match[1]
        return f"#dist.on<@mesh, {match[3] or 'tp'} = {kind}>"

    return SHORT.sub(attribute, text)


def operand_types(statement: str) -> list[tuple[str, str]]:
    """The statement's operands, with the types that stand on it."""
    body = re.sub(r"^%\w+(?::\d+)? = ", "", statement)
    text, _, types = body.partition(" : ")
    names = re.findall(r"%\w+", text)
    sources = types.split(" -> ")[0].strip()
    if sources.startswith("("):
        sources = sources[1:-1]
    listed = [t.strip() for t in re.split(r", (?=tensor|!)", sources)]
    if text.startswith("dist.wait"):
        listed = [f"!dist.future<{listed[0]}>"]
    if names and len(names) != len(listed):
        sys.exit(f"{len(names)} operands, {len(listed)} types: {statement}")
    return list(zip(names, listed))


def function(name: str, example: str) -> str:
    lines = [re.sub(r"\s*//.*", "", line).strip() for line in example.splitlines()]
    statements = re.sub(r"\n(?=:)", " ", "\n".join(lines)).splitlines()
    arguments: dict[str, str] = {}
    defined: set[str] = set()
    for statement in statements:
        for value, type_ in operand_types(statement):
            if value not in defined:
                arguments.setdefault(value, type_)
        defined.update(re.findall(r"^(%\w+)", statement))
    signature = ", ".join(f"{value}: {type_}" for value, type_ in arguments.items())
    return spell_out(f"func.func @{name}({signature}) {{\n" + "\n".join(statements) + "\n  return\n}\n")


def main() -> None:
    dialect, contract = Path(sys.argv[1]), Path(sys.argv[2])
    print(MESH)
    for file in sorted(dialect.glob("*.td")):
        for record in RECORD.finditer(file.read_text()):
            op, text = record[1], record[0]
            if op == "mesh":
                continue
            if "Constraints:\n    1. " not in text:
                sys.exit(f"dist.{op}: its description has no constraints")
            blocks = BLOCK.findall(text)
            if not blocks or not any(f"dist.{op}" in block for block in blocks):
                sys.exit(f"dist.{op}: its description has no example of it")
            for block in blocks:
                print(function(f"example_{op}", block))
    # The contract's page: the block that shows the ops.
    for i, block in enumerate(b for b in BLOCK.findall(contract.read_text()) if "= dist." in b):
        print(function(f"contract_{i}", block))


if __name__ == "__main__":
    main()
