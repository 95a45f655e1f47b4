"""Makes docs/collectives.md from the table and from what the compiler derives.

python test/conformance/page.py [BUILD]     writes the page to standard output
"""

import json
import pathlib
import re
import string
import sys
import tempfile

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from conformance import words
from conformance.cases import allowed, row_program
from conformance.module import Module
from conformance.table import names, rows, setups
from conformance.tools import Tools
from conformance.values import Mesh

TEMPLATE = pathlib.Path(__file__).with_name("collectives.md.in")
RECORD = pathlib.Path(__file__).with_name("campaign.json")
MESH = Mesh((("tp", 2),))
DIST = re.compile(r"dist\.(\w+) ?(.*)")
KIND = re.compile(r"#dist\.on<@mesh, tp = ((?:[^<>()]|\([^()]*\))*)>")


def backward_ops(tools):
    """{row: its backward in words}, read from the output of --autodiff on one program for each row."""
    legal = [row for row in rows() if row.legal and row.differentiable]
    programs = [row_program(row, MESH, ("tp",), None, f"n{i}") for i, row in enumerate(legal)]
    joined = "// -----\n".join(Module(MESH, [p]).text() for p in programs)
    output = tools.transform(joined, "-split-input-file", "--autodiff", "-mlir-print-local-scope")
    return {
        row: ", ".join(between(text, program.tested - 1)) or "nothing"
        for row, program, text in zip(legal, programs, output.split("// -----"))
    }


def between(text, before):
    """The backward ops that come from the tested op.

    The backward runs against the program: first that of the loss, whose last op is the first product (with the
    loss's weights), then that of the tested op, then that of the `before` ops that made its source.
    """
    lines = [
        line.strip() for line in text.splitlines() if "train.backward" in line and " = " in line
    ]
    first = next(i for i, line in enumerate(lines) if "= aten.mul(" in line)
    for line in lines[first + 1 : len(lines) - before]:
        yield spelled(line)


def spelled(line):
    """`all_reduce sum P → R` for an op of dist, the name alone for an aten op."""
    op = line.split(" = ", 1)[1]
    if op.startswith("aten."):
        return re.match(r"aten\.(\w+)", op)[1]
    name = re.match(r"dist\.(\w+)(?: (\w+(?:<[^>]*>)?)\()?", op)
    kinds = KIND.findall(line)
    arrow = kinds[0] if len(set(kinds)) == 1 else f"{kinds[0]} → {kinds[-1]}"
    return " ".join(filter(None, [name[1], name[2], arrow]))


def page(tools):
    """The text of docs/collectives.md."""
    legal = [row for row in rows() if row.legal]
    backward = backward_ops(tools)
    lines, done = [], set()
    for name, _ in names():
        if name not in done:
            done.add(name)
            lines += section(name, [row for row in legal if row.name == name], backward)
    return string.Template(TEMPLATE.read_text()).substitute(
        summary=summary(legal, len(backward)),
        tables="\n".join(lines),
        campaign=words.campaign(json.loads(RECORD.read_text())),
    )


def summary(legal, differentiable):
    """How many rows there are, and how many cases of them run."""
    total = sum(1 for _ in rows())
    cases = [(row, setup) for setup in setups() for row in legal if allowed(row, *setup[1:])]
    backwards = sum(row.differentiable for row, _ in cases)
    return (
        f"Of {total:,} combinations of op, reduction, source type and destination type,\n"
        f"{len(legal)} are legal and {total - len(legal):,} are refused by the verifier, each of which a\n"
        f"test asks; {differentiable} have a derivative. Each legal one runs on meshes of one axis (2, 3\n"
        "and 4 ranks) and of two (2 x 2 and 3 x 2): along one axis, while the value is R, I, V, P or S\n"
        "along the other, and along both. Where a pending sum along the other axis would meet an op\n"
        f"that is not linear, there is no program. In all {len(cases):,} forwards and {backwards:,}\n"
        "backwards are compared."
    )


def section(name, legal, backward):
    """A heading and the table of an op; rows that differ only in types of one meaning stay apart."""
    yield f"## {name}\n"
    first = ["reduction"] if legal[0].reduction else []
    titles = [*first, "types", "forward", "backward", "setups"]
    yield "| " + " | ".join(titles) + " |"
    yield "|" + " --- |" * len(titles)
    for row in legal:
        cells = [row.reduction] if row.reduction else []
        types = row.source if row.source == row.destination else f"{row.source} → {row.destination}"
        cells += [types, words.forward(row), backward.get(row, "no gradient")]
        cells.append(str(sum(allowed(row, *setup[1:]) for setup in setups())))
        yield "| " + " | ".join(cells) + " |"
    yield ""


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(page(Tools(pathlib.Path(build), pathlib.Path(folder))))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build")
