"""Exports models of installed libraries, runs them, and writes docs/models.md, a row for each.

    python test/e2e/model_table.py --out docs/models.md [--models BartForCausalLM,T5Small]

With --models, the page keeps its other rows. A column is a function of an exported model that returns what its
cell says, or raises Refused with the reason, which then is the row's end.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "python"))
import cleave_path  # noqa: E402,F401

import hugging_face  # noqa: E402
import torch  # noqa: E402
from cleave import testing  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import cleave  # noqa: E402

LISTS = {"Hugging Face": hugging_face}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SEED = 5


class Refused(Exception):
    """A cell that stays empty; the message is one line."""


@dataclasses.dataclass
class Subject:
    """A model on its way through the columns. The program is there once it is exported."""

    spec: cleave.ExportSpec
    folder: pathlib.Path
    build: pathlib.Path
    program: pathlib.Path | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    is_rewritten: bool = False


def export(subject):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            subject.program = cleave.export_spec(subject.spec, subject.folder)
        except cleave.ExportError as error:
            raise Refused(str(error)) from None
    subject.notes = [str(w.message) for w in caught if w.category is cleave.ExportNote]
    ops = len(re.findall(r"^    %\S+ = ", subject.program.read_text(), re.MULTILINE))
    decided = sum("is always" in note for note in subject.notes)
    subject.is_rewritten = any("is traced as" in note for note in subject.notes)
    return (
        f"{ops:,} ops" + (f", {decided} branch{'es' * (decided != 1)} decided" if decided else "")
        + ", rewritten" * subject.is_rewritten
    )  # fmt: skip


def run_on_one_rank(subject):
    """Loss, gradients and buffers of one microbatch beside eager mode's, with dropout as configured."""
    expected = testing.evaluate(subject.spec, seed=SEED)
    inputs, dump = subject.folder / "inputs.safetensors", subject.folder / "dump.safetensors"
    examples = testing.example_inputs(subject.spec)
    save_file({name: value.contiguous() for name, value in examples.items()}, inputs)
    command = [subject.build / "bin" / "cleave-run", subject.program, "--inputs", inputs, "--dump", dump]
    result = subprocess.run(
        [*map(str, command), "--seed", str(SEED)], capture_output=True, text=True, env=ENVIRONMENT, timeout=600
    )
    if result.returncode:
        raise Refused(result.stderr.strip().splitlines()[0])
    found = load_file(dump)
    if subject.is_rewritten:  # experts that no token chose have gradients of zeros, and in eager mode none
        expected = {name: expected.get(name, torch.zeros_like(value)) for name, value in found.items()}
    return compare(found, expected)


COLUMNS = {"exported": export, "one rank": run_on_one_rank}


def compare(found, expected):
    """"bitwise", or how much differs."""
    if sorted(found) != sorted(expected):
        raise Refused(f"{sorted(found.keys() ^ expected.keys())[0]} is on one side only")
    different = [name for name, value in expected.items() if not same(found[name], value)]
    if not different:
        return "bitwise"
    worst = max(different, key=lambda name: distance(found[name], expected[name]))
    return (
        f"{len(different)} of {len(expected)} differ, {worst} most: {distance(found[worst], expected[worst]):.1e}"
    )


def same(a, b):
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(7.25), b.nan_to_num(7.25)) and torch.equal(a.isnan(), b.isnan())


def distance(a, b):
    """Relative to the largest element."""
    a, b = a.double(), b.double()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))


def row(make, name, build):
    """A model's cells; a refusal is the last of them."""
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            subject = Subject(make(name), pathlib.Path(folder), build)
            for column in COLUMNS.values():
                cells.append(column(subject))
        except Refused as reason:
            cells.append(f"refused: {reason}")
    return cells + [""] * (len(COLUMNS) - len(cells))


def read(page):
    """The rows that a page has, by list and model."""
    rows, title = {}, None
    for line in page.read_text().splitlines() if page.exists() else ():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("| ") and title and not line.startswith(("| model |", "| --- |")):
            name, *cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            rows[title, name] = cells
    return rows


def write(page, rows):
    """The page, from the rows that there are."""
    text = [
        "# Models that Cleave did not write", "",
        "Generated by `test/e2e/model_table.py`; do not edit. Models of the dashboards that PyTorch's own compiler is",
        "watched by, made by the installed libraries, with few layers and small widths (`test/python/hugging_face.py` says",
        "which) and everything else as configured, dropout included. Each is a training step with AdamW in float32.", "",
        "- *exported*: the size of the program; conditions of the model's source that are always true or always false;",
        "  *rewritten*, where a block of the model has a replacement (`python/cleave/export/patches.py`) whose gradients are rounded",
        "  differently",
        "- *one rank*: loss, every gradient and buffer of one microbatch by `cleave-run`, beside eager mode's with the same seed",
    ]  # fmt: skip
    for title, models in LISTS.items():
        here = {name: rows[title, name] for name in models.MODELS if (title, name) in rows}
        if not here:
            continue
        exported = sum(not cells[0].startswith("refused") for cells in here.values())
        bitwise = sum(cells[1] == "bitwise" for cells in here.values())
        text += ["", f"## {title}", "", f"{exported} of {len(models.MODELS)} are exported, {bitwise} bitwise on one rank.", ""]
        text += [f"| model | {' | '.join(COLUMNS)} |", "| --- |" + " --- |" * len(COLUMNS)]
        for name, cells in here.items():
            text.append(f"| {name} | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    page.write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=TESTS.parent / "build")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--models", metavar="NAME,...", help="only these; default: all")
    options = parser.parse_args()
    wanted = options.models and options.models.split(",")
    known = {name for models in LISTS.values() for name in models.MODELS}
    if unknown := sorted(set(wanted or ()) - known):
        parser.error(f"no model is called {unknown[0]}")
    torch.set_num_threads(1)
    rows = read(options.out) if wanted else {}
    for title, models in LISTS.items():
        for name in models.MODELS:
            if wanted is None or name in wanted:
                rows[title, name] = row(models.make, name, options.build)
                print(name, *rows[title, name], sep=" | ", flush=True)
                write(options.out, rows)


if __name__ == "__main__":
    main()
