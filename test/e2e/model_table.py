"""Exports models of installed libraries, runs them, and writes docs/models.md, a row for each.

    python test/e2e/model_table.py --out docs/models.md [--models BartForCausalLM,T5Small] [--columns "cleave-plan,1F1B"]

Rows that the page has stay, but for those of --models: delete the page to run all of them. With --columns the other
cells of a row stay, too. A column is a function of a model that returns what its cell says, or raises a refusal with
the reason.
"""

import argparse
import contextlib
import dataclasses
import math
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from subprocess import TimeoutExpired

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "python")]
import cleave_path  # noqa: E402,F401

import derived_plans  # noqa: E402
import documented  # noqa: E402
import float64  # noqa: E402
import found_plans  # noqa: E402
import hugging_face  # noqa: E402
import matrix_models  # noqa: E402
import other_models  # noqa: E402
import timm_models  # noqa: E402
import torch  # noqa: E402
import torchtitan_models  # noqa: E402
from cleave import FSDP, Plan, testing  # noqa: E402
from matrix_runs import (  # noqa: E402
    STEPS,
    TOLERANCE,
    ToolFailed,
    Tools,
    difference,
    on_ranks,
    placed,
)

import cleave  # noqa: E402
from cleave.tensor_files import load_file, save_file  # noqa: E402

LISTS = {
    "Hugging Face": hugging_face, "TIMM": timm_models, "torchtitan": torchtitan_models, "Other families": other_models,
}  # fmt: skip
EAGER = {torchtitan_models.make: torchtitan_models.runs_on_a_processor}  # what eager mode runs under
SEED = 5
MICROBATCHES = 4
LIMIT = 300  # seconds of one call of a tool


class Refused(Exception):
    """What a cell says where there is no result: the message is one line."""


class Differs(Exception):
    """A result that is wrong; the message is the cell."""


@dataclasses.dataclass
class Subject:
    """A model on its way through the columns."""

    make: Callable[[str], cleave.ExportSpec]
    name: str
    folder: pathlib.Path
    tools: Tools
    spec: cleave.ExportSpec | None = None
    program: pathlib.Path | None = None  # once it is exported
    training: "Training | None" = None  # once one rank has trained it
    is_rewritten: bool = False


@dataclasses.dataclass
class Training:
    """What one rank trains: what the programs for several are compared with, and how closely."""

    program: pathlib.Path
    data: pathlib.Path
    losses: list[float]
    tensors: dict[str, torch.Tensor]
    bound: float
    plan: list  # of tensor parallelism
    buffers: set[str]  # those that a step changes

    def compare(self, losses, tensors, has_own_buffers=False):
        """The largest difference, and of what. Parameters whose gradient is zero by mathematics (what a softmax or a
        normalization takes away again) are rounding, which AdamW magnifies: their gradients are zero, and that is all.
        Ranks that share gradients alone, without types, have statistics and counts of their own."""
        expected, found = dict(self.tensors), dict(tensors)
        if has_own_buffers:
            for of in (expected, found):
                for key in {f"model.{name}" for name in self.buffers} | {f"optimizer.buffer.{name}" for name in self.buffers}:
                    of.pop(key, None)
        for name in self.without_gradient():
            moment = found.pop(name)
            del expected[name]
            if not moment.abs().max() <= self.bound * self.usual_gradient():
                return math.inf, name
            parameter = name.removeprefix("optimizer.").rpartition(".")[0]
            for of in (expected, found):
                for other in [key for key in of if key.startswith(f"optimizer.{parameter}.") or key == f"model.{parameter}"]:
                    del of[other]
        return difference({"loss": torch.tensor(losses), **found}, {"loss": torch.tensor(self.losses), **expected})

    def moments(self):
        ends = (".exp_avg", ".momentum_buffer")
        return {n: float(t.abs().max()) for n, t in self.tensors.items() if n.endswith(ends) and t.numel()}

    def usual_gradient(self):
        return statistics.median(self.moments().values())

    def without_gradient(self):
        return [name for name, size in self.moments().items() if size <= self.bound * self.usual_gradient()]


def export(subject):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            subject.spec = subject.make(subject.name)
            subject.program = cleave.export_spec(subject.spec, subject.folder)
        except cleave.ExportError as error:
            raise Refused(str(error)) from None
    notes = [str(w.message) for w in caught if w.category is cleave.ExportNote]
    ops = len(re.findall(r"^    %\S+ = ", subject.program.read_text(), re.MULTILINE))
    decided = sum("is always" in note for note in notes)
    subject.is_rewritten = any("is traced as" in note for note in notes)
    return (
        f"{ops:,} ops" + (f", {decided} branch{'es' * (decided != 1)} decided" if decided else "")
        + ", rewritten" * subject.is_rewritten
    )  # fmt: skip


def run_on_one_rank(subject):
    """Loss, gradients and buffers of one microbatch beside eager mode's, with dropout as configured."""
    expected = evaluate(subject, subject.spec)
    inputs, dump = subject.folder / "inputs.safetensors", subject.folder / "dump.safetensors"
    examples = testing.example_inputs(subject.spec)
    save_file({name: value.contiguous() for name, value in examples.items()}, inputs)
    result = subject.tools.run(subject.program, "--inputs", inputs, "--dump", dump, "--seed", SEED, timeout=LIMIT)
    if result.returncode:
        raise ToolFailed(result)
    found = load_file(dump)
    if subject.is_rewritten:  # experts that no token chose have gradients of zeros, and in eager mode none
        expected = {name: expected.get(name, torch.zeros_like(value)) for name, value in found.items()}
    return compare(found, expected)


def evaluate(subject, spec):
    """Eager mode's results."""
    with EAGER.get(subject.make, contextlib.nullcontext)():
        return testing.evaluate(spec, seed=SEED)


def train_on_one_rank(subject):
    """In float64, or where its kernels do not exist in the model's own types."""
    try:
        spec = float64.doubled(subject.make(subject.name))
        with float64.Float64():
            expected = evaluate(subject, spec)
        subject.training = _train(subject, spec, "float64", float64.export, expected, lambda program: TOLERANCE)
        if not (subject.training.buffers and subject.training.without_gradient()):
            return f"float64 to {TOLERANCE:.0e}"
        # The statistics of a batch follow a bias that their normalization takes away again, and with it the rounding
        # that AdamW makes large.
        spec = by_descent(float64.doubled(subject.make(subject.name)))
        subject.training = _train(subject, spec, "descent", float64.export, expected, lambda program: TOLERANCE)
        return f"float64 to {TOLERANCE:.0e}, with SGD"
    except TimeoutExpired:
        raise
    except Exception as error:
        reason = reason_of(error)
    spec = by_descent(subject.make(subject.name))
    expected = evaluate(subject, spec)
    subject.training = _train(subject, spec, "own", cleave.export_spec, expected, rounding)
    return f"own types to {subject.training.bound:.0e}, in float64: {reason}"


def by_descent(spec):
    """With steps that are linear in the gradients: AdamW's magnify the rounding of those that are zero."""
    return dataclasses.replace(spec, optimizer=torch.optim.SGD(spec.module.parameters(), lr=1e-3, momentum=0.9))


def _train(subject, spec, name, export, expected, bound):
    folder = subject.folder / name
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = export(spec, folder)
    data = folder / "data.safetensors"
    save_file(batches(spec), data)
    losses, tensors = subject.tools.train(program, data, "--microbatches", MICROBATCHES)
    used = {name.removeprefix("grad.") for name in expected if name.startswith("grad.")}
    plan = derived_plans.tensor_parallel(spec.module, used)
    buffers = {name.removeprefix("buffer.") for name in expected if name.startswith("buffer.")}
    return Training(program, data, losses, tensors, bound(program), plan, buffers)


def batches(spec):
    """The data of all steps. Masks stay the example's (drawn ones may hide all that a token sees), and boxes, whose
    second corner is behind the first."""
    drawn = matrix_models.batches(spec, MICROBATCHES, STEPS)
    for name, example in testing.example_inputs(spec).items():
        if ("mask" in name or name == "bbox") and drawn[name].shape != example.shape:
            drawn[name] = torch.cat([example] * (MICROBATCHES * STEPS)).contiguous()
    return drawn


def rounding(program):
    """What the roundings of a program's results add up to, one by one independent of the others, at four times
    their standard deviation."""
    types = re.findall(r"^    %.*tensor<(?:\d+x)*(f64|f32|bf16|f16)>$", program.read_text(), re.MULTILINE)
    epsilons = {"f64": 2.0**-53, "f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}
    return 4 * math.sqrt(sum(epsilons[type_] ** 2 for type_ in types))


def recipe(*passes):
    """The options of the first documented command that runs these passes."""
    for each in documented.recipes(TESTS.parent):
        if tuple(option.removeprefix("--").split("=")[0] for option in each.options) == passes:
            return each.options
    raise LookupError(f"no document has a command with {' '.join(passes)}")


def in_two_stages(options, schedule):
    """The options with numbers for two stages on two ranks, as many receive slots as that asks for."""
    return [
        "--insert-p2p" if option.startswith("--insert-p2p")
        else "--verify-schedule" if option.startswith("--verify-schedule")
        else f"--build-schedule=schedule={schedule} ranks=2 microbatches={MICROBATCHES}"
        if option.startswith("--build-schedule")
        else re.sub(r"\bcount=\d+", "count=2", option)
        for option in options
    ]  # fmt: skip


def compared(name, options, *run, ranks=1, microbatches=MICROBATCHES, has_own_buffers=False):
    """A cell: a command's program trained, and how far it is from one rank's."""

    def cell(subject):
        training = subject.training
        folder = subject.folder / name
        folder.mkdir()
        program = subject.tools.opt(training.program, folder / "program.mlir", options)
        more = ("--microbatches", microbatches, *run, *on_ranks(ranks))
        losses, tensors = subject.tools.train(program, training.data, *more)
        shutil.rmtree(folder)
        worst, where = training.compare(losses, tensors, has_own_buffers)
        if not worst <= training.bound:
            raise Differs(f"**differs**: {where} by {worst:.1e}")
        return f"{worst:.0e}" if worst else "0"

    return cell


def laid_out(name, mesh, rules):
    """A cell: the program laid out by a plan on two ranks."""

    def cell(subject):
        entries = rules(subject)
        plan = Plan(mesh, entries).write(subject.folder / f"{name}.json")
        return compared(name, placed(recipe(*PLACED), plan), ranks=2)(subject)

    return cell


def tensor_parallel(subject):
    if not subject.training.plan:
        raise Refused("no layer of attention or MLP by name")
    return subject.training.plan


def planned(subject):
    """A cell: what cleave-plan finds for two devices, carried out and trained by the commands that it says."""
    worst, absent = 0.0, []
    for fixed in found_plans.FIXED:
        words = fixed.format(2)
        result = found_plans.train(subject.tools, subject.training, subject.folder / "plan", 2, words)
        if result is None:
            absent.append(words)
            continue
        distance, where = result
        if not distance <= subject.training.bound:
            raise Differs(f"**differs**: {words}: {where} by {distance:.1e}")
        worst = max(worst, distance)
    return (f"{worst:.0e}" if worst else "0") + (f" without {'; '.join(absent)}" if absent else "")


PLACED = ("annotate-placements", "propagate-placements", "partition")
ONE_F_ONE_B = ("sync-gradients", "outline-stages", "build-schedule", "insert-p2p", "verify-schedule")
ZERO_BUBBLE = ("outline-stages", "split-backward", "build-schedule", "insert-p2p", "verify-schedule")
COLUMNS = {
    "exported": export,
    "one rank": run_on_one_rank,
    "compared in": train_on_one_rank,
    "data parallel": compared(
        "dp", recipe("sync-gradients", "bucket-gradients"), ranks=2, microbatches=MICROBATCHES // 2,
        has_own_buffers=True,
    ),
    "FSDP": laid_out("fsdp", {"dp": 2}, lambda subject: {"": FSDP()}),
    "tensor parallel": laid_out("tp", {"tp": 2}, tensor_parallel),
    "1F1B": compared("1f1b", in_two_stages(recipe(*ONE_F_ONE_B), "1f1b"), ranks=2),
    "zero bubble": compared("zb", in_two_stages(recipe(*ZERO_BUBBLE), "zb-h1"), ranks=2),
    "split backward": compared(
        "split", recipe("partition-joint", "split-backward"), "--weight-gradients=deferred"
    ),
    "compiled, planned": compared("compiled", recipe("fuse-kernels", "compile-kernels", "lower-to-exec")),
    "cleave-plan": planned,
}  # fmt: skip


# What the others need.
FIRST = ("exported", "compared in")


def reason_of(error):
    """One line of an exception."""
    if isinstance(error, TimeoutExpired):
        return f"not finished after {error.timeout:.0f} s"
    if isinstance(error, ToolFailed):
        tool = pathlib.Path(error.args[0].split()[0]).name
        if found := re.search(r"error: (.*)", error.stderr):
            return f"{tool}: {found[1]}"
        return f"{tool} ended with status {error.returncode}"
    if isinstance(error, (Refused, cleave.ExportError)):
        return str(error)
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


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
    if a.is_complex() and b.is_complex():
        return same(torch.view_as_real(a), torch.view_as_real(b))
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(7.25), b.nan_to_num(7.25)) and torch.equal(a.isnan(), b.isnan())


def distance(a, b):
    """Relative to the largest element."""
    a, b = a.double(), b.double()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))


def row(make, name, tools, columns=COLUMNS):
    """A model's cells. What is not exported has no more of them, and what one rank cannot train none beside it."""
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(make, name, pathlib.Path(folder), tools)
        for title, column in columns.items():
            try:
                cells.append(column(subject))
            except Differs as result:
                cells.append(str(result))
            except Exception as error:
                cells.append(f"refused: {reason_of(error)}")
            if subject.program is None or title == "compared in" and subject.training is None:
                break
    torch._dynamo.reset()
    return cells + [""] * (len(columns) - len(cells))


def read(page, may_lack=()):
    """The whole rows that a page has, by list and model. Columns that the page `may_lack` are empty there."""
    rows, title, columns = {}, None, []
    for line in page.read_text().splitlines() if page.exists() else ():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("| ") and title and not line.startswith("| --- |"):
            name, *cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if name == "model":
                columns = cells
            elif not COLUMNS.keys() - {*columns, *may_lack}:
                cells = dict(zip(columns, cells))
                rows[title, name] = [cells.get(each, "") for each in COLUMNS]
    return rows


HEAD = f"""\
# Models that Cleave did not write

Generated by `test/e2e/model_table.py`; do not edit. Models of the dashboards that PyTorch's own compiler is
watched by, and of families that these leave out, made by the installed libraries, with few layers and small widths
(`test/python/hugging_face.py` and its neighbours say which) and everything else as configured, dropout included. Each is a
training step with its optimizer.

- *exported*: the size of the program in float32; conditions of the model's source that are always true or always false;
  *rewritten*, where a block of the model has a replacement (`python/cleave/export/patches.py`) whose gradients are rounded
  differently
- *one rank*: loss, every gradient and buffer of one microbatch by `cleave-run`, beside eager mode's with the same seed
- *compared in*: what the columns that follow compute in, and how far losses, parameters, buffers and states of the
  optimizer may be from one rank's after {STEPS} steps of {MICROBATCHES} microbatches. Where a kernel does not exist in
  float64, the model trains in its own types with SGD, to four times the standard deviation of what the roundings of
  the program's results add up to. Parameters whose gradients are zero by mathematics need zero gradients, to that bound
  beside the others' median; where they move the statistics of batches, the model trains with SGD
- the other columns: the largest difference, relative to the tensor's largest element, of a program that a documented
  command has made: data parallel ([README](../README.md)), FSDP and tensor parallel by a plan
  ([plans.md](plans.md)) on 2 ranks, 1F1B ([run.md](run.md#pipelines)) and zero bubble ([pipeline.md](pipeline.md))
  with 2 stages, [split-backward.md](split-backward.md), and compiled kernels in planned memory
  ([executable.md](executable.md)). Tensor parallelism needs layers that are known by their names
  (`test/e2e/derived_plans.py`)
- *cleave-plan*: the same of what [`cleave-plan`](planner.md) finds for 2 A100s: the fastest plan, and the fastest with FSDP,
  with ZeRO-1 and recomputation, with `tp`, with `cp` and with 2 stages; *without* names those of which its space has none
"""


def write(page, rows):
    """The page, from the rows that there are."""
    text = [HEAD.rstrip()]
    for title, models in LISTS.items():
        here = {name: rows[title, name] for name in models.MODELS if (title, name) in rows}
        if not here:
            continue
        columns = dict(zip(COLUMNS, zip(*here.values())))
        exported = sum(is_result(cell) for cell in columns.pop("exported"))
        bitwise = sum(cell == "bitwise" for cell in columns.pop("one rank"))
        good = {column: sum(map(is_result, cells)) for column, cells in columns.items() if column != "compared in"}
        text += [
            "", f"## {title}", "", f"{exported} of {len(models.MODELS)} are exported, {bitwise} bitwise on one rank. "
            "As one rank: " + "; ".join(f"{column}: {count}" for column, count in good.items()) + ".",
        ]  # fmt: skip
        if absent := [name for name in models.MODELS if name not in here]:
            text += ["", f"Not run: {', '.join(absent)}."]
        text += ["", f"| model | {' | '.join(COLUMNS)} |", "| --- |" + " --- |" * len(COLUMNS)]
        for name, cells in here.items():
            text.append(f"| {name} | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    page.write_text("\n".join(text) + "\n")


def is_result(cell):
    return cell != "" and not cell.startswith(("refused: ", "**"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=TESTS.parent / "build")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--models", metavar="NAME,...", help="run these, with or without a row on the page")
    parser.add_argument("--columns", metavar="TITLE;...", help="of rows on the page run these alone")
    options = parser.parse_args()
    again = options.columns.split(";") if options.columns else []
    if unknown := sorted(set(again) - COLUMNS.keys()):
        parser.error(f"no column is called {unknown[0]}")
    wanted = options.models.split(",") if options.models else ()
    known = {name for models in LISTS.values() for name in models.MODELS}
    if unknown := sorted(set(wanted) - known):
        parser.error(f"no model is called {unknown[0]}")
    torch.set_num_threads(1)
    rows = read(options.out, may_lack=again)
    tools = Tools(options.build, LIMIT)
    for title, models in LISTS.items():
        for name in models.MODELS:
            known_row = rows.get((title, name))
            if name in wanted if wanted else known_row is None or again:
                start = time.monotonic()
                chosen = [each for each in COLUMNS if known_row is None or not again or each in (*FIRST, *again)]
                cells = dict(zip(chosen, row(models.make, name, tools, {each: COLUMNS[each] for each in chosen})))
                rows[title, name] = [cells.get(each, known_row[i] if known_row else "") for i, each in enumerate(COLUMNS)]
                print(name, *rows[title, name], f"{time.monotonic() - start:.0f} s", sep=" | ", flush=True)
                write(options.out, rows)


if __name__ == "__main__":
    main()
