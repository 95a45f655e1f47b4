"""Proves models that Cleave did not write, those of docs/models.md, as documented commands lay them out; writes
bench/results/proof_models.md.

    python test/e2e/prove_models.py --out bench/results/proof_models.md [--models BartForCausalLM,T5Small]

Rows that the page has stay, but for those of --models: delete the page to prove all of them.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import model_table
from matrix_runs import ToolFailed, Tools, placed

from cleave import FSDP, Plan

FORMS = ("data parallel", "FSDP", "tensor parallel", "1F1B", "zero bubble", "split backward")
# Their buffers are each rank's own, of the microbatches that it runs.
OWN_BUFFERS = ("data parallel", "1F1B")
LIMIT = 120


def options(form, subject):
    """Of `cleave-opt`; nothing where a form has no program."""
    if form == "data parallel":
        return model_table.recipe("sync-gradients", "bucket-gradients")
    if form == "1F1B":
        return model_table.in_two_stages(model_table.recipe(*model_table.ONE_F_ONE_B), "1f1b")
    if form == "zero bubble":
        return model_table.in_two_stages(model_table.recipe(*model_table.ZERO_BUBBLE), "zb-h1")
    if form == "split backward":
        return model_table.recipe("partition-joint", "split-backward")
    if form == "FSDP":
        mesh, rules = {"dp": 2}, {"": FSDP()}
    else:
        mesh, rules = {"tp": 2}, model_table.tensor_parallel(subject)
    plan = Plan(mesh, rules).write(subject.folder / "plan.json")
    return placed(model_table.recipe(*model_table.PLACED), plan)


def prove(subject, form, *assumed):
    """The answer of `cleave-prove`, without running anything where it is no proof, and the seconds that it took."""
    local = subject.tools.opt(subject.program, subject.folder / "local.mlir", options(form, subject))
    assumed += ("own-buffers",) if form in OWN_BUFFERS else ()
    command = [subject.tools.build / "bin" / "cleave-prove", subject.program, local, "--json", "--execute=false", f"--time-limit={LIMIT}"]
    begin = time.monotonic()
    done = subprocess.run([*command, *(f"--assume={each}" for each in assumed)], capture_output=True, text=True, timeout=3 * LIMIT)
    if done.returncode not in (0, 2):
        raise ToolFailed(done)
    return json.loads(done.stdout), time.monotonic() - begin


def export(make, name, folder, tools):
    """A model as a program, with the parameters that its loss uses."""
    subject = model_table.Subject(make, name, folder, tools)
    model_table.export(subject)
    text = subject.program.read_text()
    used = {path for path, _ in subject.spec.module.named_parameters() if f'gradient "{path}"' in text}
    subject.training = model_table.Training(
        subject.program, None, [], {}, 0, model_table.derived_plans.tensor_parallel(subject.spec.module, used), set()
    )
    return subject


def cell(subject, form):
    try:
        answer, seconds = prove(subject, form)
        if answer["findings"] and not prove(subject, form, "exact-casts")[0]["findings"]:
            return "proved if casts are exact"
    except (model_table.Refused, ToolFailed) as error:
        return f"refused: {model_table.reason_of(error)}"
    if not answer["findings"]:
        return f"proved, {seconds:.1f} s"
    first = next((finding for finding in answer["findings"] if "op" in finding), None)
    where = f": `{first['op']}` at {first['location']}" if first else ""
    return f"unknown, {len(answer['findings'])} of {answer['results']}{where}"


HEAD = """\
# Proofs of models that Cleave did not write

`test/e2e/prove_models.py`: the [models](../../docs/models.md) of other libraries, each a training step that documented commands lay out
for 2 ranks or 2 stages, or split; [`cleave-prove --execute=false`](../../docs/proof.md) compares it with the program for one device: loss, gradients, buffers,
parameters and states after the update. Data parallel and 1F1B with `--assume=own-buffers`. *if casts are exact*: with `--assume=exact-casts`, where ranks add up in bfloat16 what one device converts when it is summed. *unknown* says how many results are not proved, and the first op
without a counterpart: all of these programs compute what one rank does ([docs/models.md](../../docs/models.md)).
"""


def read(page):
    """The cells of each model that a page has."""
    rows = {}
    for line in page.read_text().splitlines() if page.exists() else ():
        if line.startswith("| ") and not line.startswith(("| model |", "| --- |")):
            name, *cells = [each.strip() for each in line.strip("|").split(" | ")]
            rows[name.strip()] = cells
    return rows


def write(page, rows):
    cells = [each for row in rows.values() for each in row if not each.startswith("refused")]
    proved = sum(each.startswith("proved") for each in cells)
    text = [HEAD, f"{proved} of {len(cells)} programs are proved.", "", f"| model | {' | '.join(FORMS)} |", "| --- |" + " --- |" * len(FORMS)]
    text += [f"| {name} | {' | '.join(row)} |" for name, row in rows.items()]
    page.write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=model_table.TESTS.parent / "build")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--models", default="")
    arguments = parser.parse_args()
    tools, chosen, rows = Tools(arguments.build, 300), arguments.models.split(","), read(arguments.out)
    for models in model_table.LISTS.values():
        for name in models.MODELS:
            if name in rows and name not in chosen:
                continue
            with tempfile.TemporaryDirectory() as folder:
                subject = export(models.make, name, pathlib.Path(folder), tools)
                rows[name] = [cell(subject, form) for form in FORMS]
            print(name, *rows[name], sep=" | ", flush=True)
            order = [each for models in model_table.LISTS.values() for each in models.MODELS]
            write(arguments.out, {each: rows[each] for each in order if each in rows})


if __name__ == "__main__":
    main()
