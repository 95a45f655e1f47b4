"""Follows the guide "Add an op" of CONTRIBUTING.md, up to the compiler.

usage: guide.py SOURCE_TREE

The records that the guide shows are put behind the base that it names, and must be accepted by
mlir-tblgen; agree with the dispatcher's schema; be of ops that the dialect does not have yet; and
have what the guide says follows from them: traits and interfaces, and their methods in the
generated class.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

SOURCE = Path(sys.argv[1])
sys.path[:0] = [str(SOURCE / "dialects/aten"), str(SOURCE / "test/dialects/aten/Inputs")]
# `schemas` reads the place of `records` from the command line.
sys.argv = ["schemas.py", "", str(SOURCE / "dialects/aten")]
from records import Op, read  # noqa: E402
from schemas import errors  # noqa: E402

# By op of the guide: what follows from its record, and the methods that are generated for it.
FOLLOWS = {
    "logit": (
        {"Pure", "Pointwise", "PointwiseOut", "AtenOpInterface::Trait",
         "ShardingRuleOpInterface::Trait", "RowOpInterface::Trait"},
        {"parse", "print", "verify", "getSchemaName", "getShardingRule", "getRowKind", "getRowWeight"},
    ),
    "addmv": (
        {"Pure", "AtenOpInterface::Trait", "ShardingRuleOpInterface::Trait", "CostOpInterface::Trait"},
        {"parse", "print", "getSchemaName", "getShardingRule", "countFlops"},
    ),
}  # fmt: skip


def guide_records() -> str:
    text = (SOURCE / "CONTRIBUTING.md").read_text()
    section = re.search(r"^## Add an op\n(.*?)^## ", text, re.M | re.S)
    assert section, "CONTRIBUTING.md has no section 'Add an op'"
    # Records have examples in fences of their own, further in.
    blocks = re.findall(r"^( *)```tablegen\n(.*?)^\1```\n", section[1], re.M | re.S)
    return "".join(block for _, block in blocks)


def tablegen(tool: str, action: str, path: Path) -> str:
    include = subprocess.run(
        ["llvm-config", "--includedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    command = [tool, action, str(path), "-I", str(SOURCE), "-I", include]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def generated_methods(definitions: str, mnemonic: str) -> set[str]:
    name = "".join(part.capitalize() for part in mnemonic.split("_")) + "Op"
    return set(re.findall(rf"^[^=;\n]*\b{name}::(\w+)\([^;\n]*\{{", definitions, re.M))


def problems(op: Op, definitions: str) -> list[str]:
    traits, methods = FOLLOWS[op.mnemonic]
    found = errors(op)
    found += [f"no trait {trait}" for trait in sorted(traits - op.traits)]
    missing = methods - generated_methods(definitions, op.mnemonic)
    found += [f"no method {method}" for method in sorted(missing)]
    if f'"{op.schema}"' in "".join(p.read_text() for p in (SOURCE / "dialects/aten/ops").glob("*.td")):
        found.append("the dialect has it already: the guide needs another example")
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        td = Path(folder) / "Guide.td"
        td.write_text('include "dialects/aten/ops/PointwiseBase.td"\n' + guide_records())
        dump = Path(folder) / "records.json"
        dump.write_text(tablegen("llvm-tblgen", "-dump-json", td))
        definitions = tablegen("mlir-tblgen", "-gen-op-defs", td)
        ops = {op.mnemonic: op for op in read(dump)}
    if set(ops) != set(FOLLOWS):
        print(f"expected records of {sorted(FOLLOWS)}, found {sorted(ops)}")
        return 1
    failures = 0
    for op in ops.values():
        for problem in problems(op, definitions):
            print(f"{op.mnemonic}: {problem}")
            failures += 1
        # What the guide promises is looked for.
        for planted in (replace(op, traits=op.traits - {"ShardingRuleOpInterface::Trait"}),
                        replace(op, arguments=op.arguments[:-1])):  # fmt: skip
            if not problems(planted, definitions):
                print(f"{op.mnemonic}: the check misses what is missing")
                failures += 1
        if "no method parse" not in problems(op, ""):
            print(f"{op.mnemonic}: the check misses a method")
            failures += 1
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
