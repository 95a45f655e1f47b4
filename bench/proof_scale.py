"""Proofs of large models by their published layouts: seconds of a processor, peak memory, results.

    .venv/bin/python bench/proof_scale.py [--rows "405B:405B, staged"] [--layers 4] [--out DIRECTORY]

Exports the models of bench/large_models.py, makes what each rank runs, and asks cleave-prove about it. Prints the table of
bench/results/proof-scale.md. `--rows` takes titles, divided by colons; `--layers` makes all models that deep, to try it.
`--out` keeps the programs; those that are there already are not made again.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import tempfile

from large_models import MODELS, TIDY, PhaseFailed, gib, phases, run
from layers import ROOT

sys.path[:0] = [str(ROOT / "python")]

from cleave import ExpertParallel, Plan  # noqa: E402

CLIP = "clip-gradients"


@dataclasses.dataclass(frozen=True)
class Row:
    """What of a model is proved. `mesh`: in place of the model's. `staged`: by its schedule, with its buckets and clipping."""

    title: str
    model: str
    mesh: dict = dataclasses.field(default_factory=dict)
    layers: int = 0
    staged: bool = False
    clipped: bool = False
    capacity: bool = False
    #: Tokens, in place of the model's: of a short sequence the export takes less.
    tokens: int = 0

    @property
    def sizes(self):
        return self.mesh or MODELS[self.model].mesh

    @property
    def ranks(self):
        product = MODELS[self.model].stages if self.staged else 1
        for size in self.sizes.values():
            product *= size
        return product

    @property
    def layout(self):
        mesh = " x ".join(f"{axis} {size}" for axis, size in self.sizes.items())
        stages = f", {MODELS[self.model].stages} pipeline ranks" if self.staged else ", not staged"
        return mesh + stages + (", clipping" if self.clipped and not self.staged else "") + (", capacity" if self.capacity else "")


ROWS = [
    Row("405B", "llama3-405b"),
    Row("405B, staged", "llama3-405b", staged=True),
    Row("405B, 64 ranks in stages", "llama3-405b", {"dp": 2, "tp": 2}, staged=True),
    Row("405B, 64 ranks", "llama3-405b", {"dp": 8, "tp": 8}),
    Row("405B, ring", "llama3-405b-long", tokens=8192),
    Row("405B, ring, staged", "llama3-405b-long", tokens=8192, staged=True),
    Row("405B, 32 layers", "llama3-405b", layers=32),
    Row("405B, 64 layers", "llama3-405b", layers=64),
    Row("405B, 252 layers", "llama3-405b", layers=252),
    Row("DeepSeek-V3", "deepseek-v3"),
    Row("DeepSeek-V3, capacity", "deepseek-v3", capacity=True),
    Row("DeepSeek-V3, staged", "deepseek-v3", staged=True),
    Row("DeepSeek-V3, staged, capacity", "deepseek-v3", staged=True, capacity=True),
    Row("DeepSeek-V3, clipped", "deepseek-v3", capacity=True, clipped=True),
]


def export(model, row, layers, folder):
    """The program for one device; of several rows one."""
    tokens = row.tokens or model.tokens
    target = folder / f"{row.model}-{layers}-{tokens}"
    program = target / "program.mlir"
    if not program.exists():
        target.mkdir(parents=True, exist_ok=True)
        run([sys.executable, __file__, "--export", row.model, "--layers", layers, "--tokens", tokens, "--out", target])
    return program


def plan_of(model, row):
    """The model's plan, with room for all rows of experts unless the row asks for a capacity."""
    if row.model != "deepseek-v3" or row.capacity:
        return model.plan
    return [(where, ExpertParallel(style.axis) if isinstance(style, ExpertParallel) else style) for where, style in model.plan]


def make(row, layers, build, folder):
    """The two programs that are compared."""
    model = MODELS[row.model]
    layers = layers or row.layers or model.layers
    whole = export(model, row, layers, folder)
    name = "".join(letter if letter.isalnum() else "-" for letter in row.title)
    target = folder / f"{name}-{layers}"
    target.mkdir(parents=True, exist_ok=True)
    plan, part = target / "plan.json", target / "rank.mlirbc"
    Plan(row.sizes, plan_of(model, row)).write(plan)
    opt = build / "bin/cleave-opt"
    if not part.exists():
        if row.staged:
            steps = phases(model, plan)
            lists = [steps[phase] for phase in ("annotate", "propagate", "partition", "stage", "gradients", "schedule")]
        else:
            lists = [[f"annotate-placements=plan={plan}", "propagate-placements", "partition", *TIDY, "partition-joint"]]
            lists += [[CLIP]] * row.clipped
        file = whole
        for number, passes in enumerate(lists):
            made = target / f"{number}.mlirbc"
            run([opt, file, *(f"--{each}" for each in passes), "-o", made])
            file = made
        os.rename(file, part)
    if row.staged or row.clipped:
        clipped = target / "whole.mlirbc"
        if not clipped.exists():
            run([opt, whole, f"--{CLIP}", "-o", clipped])
        whole = clipped
    return whole, part


def prove(row, whole, part, build):
    assumptions = "exact-casts" + (",room-for-rows" if row.capacity else "")
    (_, seconds, peak), answer, _ = run(
        [build / "bin/cleave-prove", whole, part, f"--assume={assumptions}", "--execute=false", "--json", "--time-limit=600"], statuses=(0, 2)
    )
    return json.loads(answer), seconds, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=":".join(row.title for row in ROWS), help="titles, divided by colons")
    parser.add_argument("--layers", type=int, default=0, help="of all models (default: as many as each has)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--export", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        export_here(options.export, options.layers, options.tokens, options.out)
        return
    rows = {row.title: row for row in ROWS}
    titles = options.rows.split(":")
    if unknown := [title for title in titles if title not in rows]:
        parser.error(f"--rows: expected {', '.join(map(repr, rows))}, found {unknown[0]!r}")
    print("| model | LOCAL | ranks | results | answer | of a processor, seconds | peak memory, GiB |")
    print("| --- | --- | ---: | ---: | --- | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or pathlib.Path(scratch)
        for title in titles:
            row = rows[title]
            try:
                answer, seconds, peak = prove(row, *make(row, options.layers, options.build, folder), options.build)
            except PhaseFailed as error:
                print(f"| {title} | {row.layout} | {row.ranks:,} | | {error} | | |", flush=True)
                continue
            print(f"| {title} | {row.layout} | {row.ranks:,} | {answer['results']:,} | {answer['answer']} | {seconds:.1f} | {gib(peak)} |", flush=True)


def export_here(key, layers, tokens, out):
    """Runs in a process of its own, whose memory ends with it."""
    import warnings

    import torch

    import cleave

    torch.set_num_threads(1)
    warnings.simplefilter("ignore", cleave.ExportNote)
    model = MODELS[key]
    cleave.export_spec(model.make(layers, model.batch, tokens), out)


if __name__ == "__main__":
    main()
