"""Runs models on meshes as plans say and compares with one rank; writes docs/placement-table.md.

    python test/e2e/placement_table.py --out docs/placement-table.md [--models gpt_tied,moe] [--meshes dp2]

For each pair: the plan is applied, propagated and partitioned; loss and gradients of one microbatch are
compared with those of the program for one device, then the losses of 20 training steps, while
`--check replicated` compares after each op what types call equal.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "python"))
import cleave_path  # noqa: E402,F401

import placement_cases as cases  # noqa: E402
import torch  # noqa: E402
from cleave import testing  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import cleave  # noqa: E402

# Design, section 7: in float32, against the same program on one rank.
FIRST_LOSS, GRADIENTS, LOSSES = 1e-6, 1e-5, 1e-5
STEPS = 20
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclasses.dataclass
class Outcome:
    """What came of a pair: differences, or the error that refused it.

    loss, gradients: of one microbatch, relative as `cleave-run --against` has them. losses: the
    largest of all steps. collectives: by kind, of a microbatch and of the update.
    """

    model: str
    mesh: str
    error: str = ""
    stage: str = ""
    loss: float = 0.0
    gradients: float = 0.0
    worst: str = ""
    losses: float = 0.0
    collectives: tuple = ({}, {})
    seconds: float = 0.0

    @property
    def agrees(self):
        return (
            not self.error
            and self.loss <= FIRST_LOSS
            and self.gradients <= cases.GRADIENTS.get(self.model, GRADIENTS)
            and self.losses <= LOSSES
        )


class Runner:
    """Exports and trains each model once on one rank, then any mesh against that."""

    def __init__(self, build, folder, steps=STEPS):
        self.build, self.folder, self.steps = pathlib.Path(build), pathlib.Path(folder), steps
        self._references = {}

    def _run(self, tool, *arguments, timeout=300):
        return subprocess.run(
            [str(self.build / "bin" / tool), *map(str, arguments)],
            capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT,
        )  # fmt: skip

    def _train(self, program, *options):
        metrics = program.with_suffix(".jsonl")
        result = self._run(
            "cleave-run", program, "--steps", self.steps, "--seed", 3, "--quiet", "--threads", 1,
            "--metrics", metrics, *options,
        )  # fmt: skip
        if result.returncode != 0:
            return None, first_error(result.stderr)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()], ""

    def reference(self, model, batch):
        """The program for one device, one microbatch of inputs, data, and losses on one rank."""
        if (model, batch) not in self._references:
            folder = self.folder / f"{model}_{batch}"
            spec = cases.spec(model, batch)
            program = cleave.export_spec(spec, folder)
            inputs, data = folder / "inputs.safetensors", folder / "data.safetensors"
            save_file(testing.example_inputs(spec), inputs)
            generator = torch.Generator().manual_seed(2)
            batches = testing.random_batch(spec, self.steps, generator)
            save_file({name: t.contiguous() for name, t in batches.items()}, data)
            losses, error = self._train(program, "--data", f"safetensors:{data}")
            assert losses, error
            self._references[model, batch] = program, inputs, data, losses
        return self._references[model, batch]

    def run(self, model, mesh):
        start = time.monotonic()
        outcome = self._compare(model, mesh)
        outcome.seconds = time.monotonic() - start
        return outcome

    def _compare(self, model, mesh):
        outcome = Outcome(model, mesh)
        uneven = str("uneven" in mesh).lower()
        batch = cases.UNEVEN_BATCH if "uneven" in mesh else cases.BATCH
        program, inputs, data, expected = self.reference(model, batch)
        name = re.sub(r"\W+", "_", mesh)
        local = program.with_name(f"{name}.mlir")
        plan = cases.plan(model, mesh).write(local.with_suffix(".json"))
        made = self._run(
            "cleave-opt", program, "--mlir-print-debuginfo", f"--annotate-placements=plan={plan} uneven={uneven}",
            f"--propagate-placements=uneven={uneven}", f"--partition=uneven={uneven}", "-o", local,
        )  # fmt: skip
        if made.returncode != 0:
            outcome.stage, outcome.error = "compile", first_error(made.stderr)
            return outcome
        weights = local.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(program.with_suffix(".safetensors"))
        outcome.collectives = count_collectives(local.read_text())
        ranks = ("--ranks", cases.ranks(mesh), "--ranks-as", "threads", "--timeout", 60)
        compared = self._run(
            "cleave-run", local, "--against", program, "--inputs", inputs, "--tolerance", 1e9, *ranks,
            "--threads", 1,
        )  # fmt: skip
        if compared.returncode != 0:
            outcome.stage, outcome.error = "evaluate", first_error(compared.stderr)
            return outcome
        differences = read_comparison(compared.stdout)
        outcome.loss = differences["loss"]
        outcome.worst, outcome.gradients = max(
            ((n, d) for n, d in differences.items()
             if n.startswith("grad.") and not cases.ZERO_GRADIENTS.fullmatch(n)),
            key=lambda pair: pair[1],
        )  # fmt: skip
        found, error = self._train(local, "--data", f"safetensors:{data}", "--check", "replicated", *ranks)
        if found is None:
            outcome.stage, outcome.error = "train", error
            return outcome
        pairs = list(zip(found, expected, strict=True))[: cases.JUDGED_STEPS.get(model)]
        outcome.losses = max(abs(a - b) / abs(b) for a, b in pairs)
        return outcome


def first_error(text):
    """The message of the first error, without its file."""
    found = re.search(r"error: (.*)", text)
    message = found[1] if found else (text.strip().splitlines() or ["no message"])[-1]
    return re.sub(r"\S*/(?=[^/\s]+\.(json|mlir))", "", message)


def read_comparison(text):
    """Relative differences by value's name, from the lines of `cleave-run --against`."""
    rows = re.findall(r"^(\S+)\s+\S+\s+([0-9.e+-]+|nan|inf)\b", text, re.MULTILINE)
    return {name: float(value) for name, value in rows if name.startswith(("loss", "grad.", "output."))}


def count_collectives(text):
    """How many collectives of each kind a microbatch has, and the update."""
    return tuple(
        collections.Counter(
            match[1] or match[2]
            for match in re.finditer(
                r"= dist\.(?:(all_reduce|all_gather|reduce_scatter|all_to_all|permute|broadcast)\b|(shift)\b)", part)
        )
        for part in _parts(text)
    )  # fmt: skip


def _parts(text):
    """The text of the functions of a microbatch, and that of the update; of the first class of
    ranks, where parts are of different sizes."""
    functions = re.split(r"(?=^  func\.func )", text, flags=re.MULTILINE)[1:]
    ranks = [re.search(r"train\.ranks = \{.*?\}", function) for function in functions]
    functions = [f for f, r in zip(functions, ranks) if not r or r[0] == ranks[0][0]]
    update = [f for f in functions if "train.phase = #train.phase<update>" in f]
    return "".join(f for f in functions if f not in update), "".join(update)


SHORT = {"all_reduce": "AR", "all_gather": "AG", "reduce_scatter": "RS", "all_to_all": "A2A", "shift": "shift",
         "permute": "permute", "broadcast": "B"}  # fmt: skip


def describe(outcome):
    if outcome.error:
        return "refused" if outcome.stage == "compile" else f"fails ({outcome.stage})"
    parts = [
        " ".join(f"{n} {SHORT[kind]}" for kind, n in sorted(counts.items())) or "none"
        for counts in outcome.collectives
    ]
    numbers = " / ".join(
        "0" if n == 0 else f"{n:.0e}" for n in (outcome.loss, outcome.gradients, outcome.losses)
    )
    text = f"{numbers}<br>{parts[0]}; {parts[1]}"
    return text if outcome.agrees else f"**{text}**"


def page(outcomes, steps):
    """The table as Markdown: a row a mesh, a column a model, and the errors below."""
    models = [m for m in cases.MODELS if any(o.model == m for o in outcomes)]
    meshes = [m for m in cases.MESHES if any(o.mesh == m for o in outcomes)]
    by = {(o.model, o.mesh): o for o in outcomes}
    lines = [
        "# Models on meshes",
        "",
        "Every example model on every mesh, against the same program on one rank "
        "(`test/e2e/placement_table.py` writes this page; plans are in `test/e2e/placement_cases.py`). An entry has the relative "
        f"differences of the first loss, of the gradients (the worst; without biases of attention keys, which are zero "
        f"but for rounding) and of the losses of {steps} training steps (of ResNet-18, which "
        f"magnifies rounding a hundredfold a step, the first {cases.JUDGED_STEPS['resnet18']}), as "
        "`cleave-run --against` defines them, and the collectives of one microbatch; those of the update: all-reduces (AR), all-gathers (AG), "
        "reduce-scatters (RS), all-to-alls (A2A), ring shifts. While training, `--check replicated` compared after each op what types "
        f"call equal. Bold is what exceeds {FIRST_LOSS:.0e} / {GRADIENTS:.0e} / {LOSSES:.0e} "
        f"(gradients of ResNet-18, with its batch statistics of few values, {cases.GRADIENTS['resnet18']:.0e}).",
        "",
        "| mesh | " + " | ".join(models) + " |",
        "| --- |" + " --- |" * len(models),
    ]
    for mesh in meshes:
        row = [describe(by[model, mesh]) if (model, mesh) in by else "not run" for model in models]
        lines.append(f"| {mesh} | " + " | ".join(row) + " |")
    agree = sum(o.agrees for o in outcomes)
    refused = [o for o in outcomes if o.error]
    lines += ["", f"{agree} of {len(outcomes)} pairs agree; {len(refused)} are refused:", ""]
    groups = {}
    for o in refused:
        message = o.error if len(o.error) < 400 else o.error[:400] + " ..."
        # What differs between models only.
        message = re.sub(r"rules\[\d+\] \([\w.]+:\d+\)", "rule", message)
        message = re.sub(r"; modules with parameters are .*", "", message)
        message = re.sub(r"'tensor<\w+>'", "a tensor", message)
        groups.setdefault((o.mesh, o.stage, message), []).append(o.model)
    lines += ["| mesh | models | error |", "| --- | --- | --- |"] if groups else []
    for (mesh, _, message), names in groups.items():
        lines.append(f"| {mesh} | {', '.join(names)} | {message.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("CLEAVE_BUILD", TESTS.parent / "build"))
    parser.add_argument("--models", default=",".join(cases.MODELS))
    parser.add_argument("--meshes", default=";".join(cases.MESHES), help="separated by ;")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out")
    options = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options.build, folder, options.steps)
        for model in options.models.split(","):
            for mesh in options.meshes.split(";"):
                outcome = runner.run(model, mesh.strip())
                outcomes.append(outcome)
                print(f"{model:16} {mesh:14} {outcome.seconds:5.1f} s  "
                      + (f"{outcome.stage}: {outcome.error}" if outcome.error else describe(outcome)),
                      outcome.worst if not outcome.agrees else "", flush=True)  # fmt: skip
    if options.out:
        pathlib.Path(options.out).write_text(page(outcomes, options.steps))


if __name__ == "__main__":
    main()
