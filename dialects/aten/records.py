"""The op records of the aten dialect, as TableGen dumps them, for the exporter and for tests.

`python records.py RECORDS.json OUT.json...` writes, to each OUT, the table by which the exporter
chooses typed ops: {"aten::mm": "mm", ...} from the dispatcher's overloads to mnemonics.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Argument:
    name: str
    #: "T" tensor, "O" optional tensor, "L" list of tensors, "A" attribute
    kind: str
    #: for an attribute: the record it is constrained by, without `OptionalAttr`
    attribute: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Op:
    mnemonic: str
    #: the overload's full name; empty for `aten.call`
    schema: str
    summary: str
    description: str
    arguments: tuple[Argument, ...]
    #: the kind of each result: "T", "M" (tensor or none) or "L" (any number of tensors)
    results: tuple[str, ...]
    traits: frozenset[str]


def read(path: str | Path) -> list[Op]:
    """The ops of a `llvm-tblgen -dump-json` of all categories, by mnemonic."""
    records = json.loads(Path(path).read_text())

    def is_a(name: str, superclass: str) -> bool:
        return superclass in records[name]["!superclasses"]

    def argument(value: dict, name: str) -> Argument:
        record = value["def"]
        if is_a(record, "Attr"):
            optional = is_a(record, "OptionalAttr")
            base = records[record]["baseAttr"]["def"] if optional else record
            return Argument(name, "A", base, optional)
        kind = "O" if is_a(record, "Optional") else "L" if is_a(record, "Variadic") else "T"
        return Argument(name, kind, optional=kind == "O")

    def result(value: dict) -> str:
        record = value["def"]
        if is_a(record, "Variadic"):
            return "L"
        return "M" if record == "Aten_MaybeTensor" else "T"

    ops = []
    for name in records["!instanceof"]["Op"]:
        record = records[name]
        ops.append(
            Op(
                mnemonic=record["opName"],
                schema=record.get("schemaName", ""),
                summary=record["summary"],
                description=record["description"],
                arguments=tuple(argument(v, n) for v, n in record["arguments"]["args"]),
                results=tuple(result(v) for v, _ in record["results"]["args"]),
                traits=frozenset(
                    records[t["def"]].get("trait", t["def"]) for t in record["traits"]
                ),
            )
        )
    return sorted(ops, key=lambda op: op.mnemonic)


def main(records: str, *outputs: str) -> None:
    table = {op.schema: op.mnemonic for op in read(records) if op.schema.startswith("aten::")}
    text = json.dumps(dict(sorted(table.items())), indent=1) + "\n"
    for output in outputs:
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Kept as it is where nothing changed, so that nothing is rebuilt for it.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
