"""Proves models on meshes, as test/e2e/placement_cases.py lays them out, with each schedule, and after the pipelines that the
documents print; writes bench/results/proof.md.

    python test/e2e/prove_table.py --folder /tmp/programs --out bench/results/proof.md [--models llama] [--meshes "dp2;tp2"]

Programs that are in the folder from an earlier run are not made again.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "python"))
import cleave_path  # noqa: E402,F401

import documented_proofs  # noqa: E402
import pipelines  # noqa: E402
import placement_cases as cases  # noqa: E402

import cleave  # noqa: E402


# In stages on two ranks, by each schedule.
PIPELINED = ["gpt_untied", "gpt_tied", "llama"]
# By roles alone, on any number of ranks; both are passes of the program for one device as well.
_SYNC = "--sync-gradients=axis=dp"
_CLIP = "--clip-gradients=max-norm=1.0"
DIVIDED = [
    ([_SYNC], []),
    ([_SYNC, "--bucket-gradients", _CLIP], [_CLIP]),
    ([_SYNC, "--bucket-gradients", "--scale-loss", _CLIP], ["--scale-loss", _CLIP]),
    ([_SYNC, "--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=4", "--insert-p2p"], []),
]
# Their buffers are each rank's own.
_OWN_BUFFERS = ("resnet18",)


@dataclasses.dataclass
class Outcome:
    """answer: what `cleave-prove --execute=false` says, or "refused" by the plan. why: the op or the reason."""

    model: str
    mesh: str
    answer: str
    why: str = ""
    results: int = 0
    failed: int = 0
    seconds: float = 0.0


class Runner:
    def __init__(self, build, folder):
        self.build, self.folder = pathlib.Path(build), pathlib.Path(folder)

    def program(self, model, is_uneven):
        folder = self.folder / (f"{model}_uneven" if is_uneven else model)
        found = [path for path in folder.glob("*.mlir") if ".local" not in path.name]
        if found:
            return found[0]
        return cleave.export_spec(cases.spec(model, cases.UNEVEN_BATCH if is_uneven else cases.BATCH), folder)

    def local(self, program, model, mesh):
        """The local program, or None where the plan is refused."""
        local = program.with_name(re.sub(r"\W+", "_", mesh) + ".local.mlir")
        if local.exists():
            return local
        uneven = str("uneven" in mesh).lower()
        plan = cases.plan(model, mesh).write(local.with_suffix(".json"))
        made = subprocess.run(
            [self.build / "bin" / "cleave-opt", program, "--mlir-print-debuginfo",
             f"--annotate-placements=plan={plan} uneven={uneven}", f"--propagate-placements=uneven={uneven}",
             f"--partition=uneven={uneven}", "-o", local],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        return local if made.returncode == 0 else None

    def run(self, model, mesh):
        if cases.refusal(model, mesh):
            return Outcome(model, mesh, "refused")
        program = self.program(model, "uneven" in mesh)
        local = self.local(program, model, mesh)
        if not local:
            return Outcome(model, mesh, "refused")
        return self.prove(program, local, model, mesh)

    def prove(self, program, local, model, mesh, *options):
        start = time.monotonic()
        result = subprocess.run(
            [self.build / "bin" / "cleave-prove", program, local, "--json", "--execute=false", *options],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        seconds = time.monotonic() - start
        answer = json.loads(result.stdout)
        findings = answer["findings"]
        why = answer.get("reason", findings[0].get("op", "") if findings else "")
        return Outcome(model, mesh, answer["answer"], why, answer["results"], len(findings), seconds)

    def run_schedule(self, model, schedule):
        program = self.program(model, False)
        passes = pipelines.schedule_passes(schedule, 2)
        staged = program.with_name(f"{schedule}.local.mlir")
        subprocess.run([self.build / "bin" / "cleave-opt", program, *passes, "-o", staged], check=True, timeout=300)
        return self.prove(program, staged, model, schedule)

    def run_divided(self, model, number):
        passes, both = DIVIDED[number]
        program = self.program(model, False)
        whole, part = (program.with_name(f"divided{number}.{each}.local.mlir") for each in ("whole", "part"))
        for output, options in ((whole, both), (part, passes)):
            subprocess.run([self.build / "bin" / "cleave-opt", program, *options, "-o", output], check=True, timeout=300)
        return self.prove(whole, part, model, number, *["--assume=own-buffers"] * (model in _OWN_BUFFERS))

    def run_document(self, where):
        """The pipeline that a document prints there, on the model of documented_proofs."""
        program = self.program(documented_proofs.MODEL, False)
        if documented_proofs.starts_forward(where):
            forward = self.folder / "forward"
            program = next(forward.glob("*.mlir"), None) or documented_proofs.export_forward(forward)
        folder = self.folder / "documents" / where.replace(":", "_")
        folder.mkdir(parents=True, exist_ok=True)
        whole, part = documented_proofs.make_programs(self.build, where, program, folder)
        return self.prove(whole, part, documented_proofs.MODEL, where)


def describe(outcome):
    if outcome.answer == "proved":
        return f"proved, {outcome.seconds:.1f} s"
    if outcome.answer != "unknown" or not outcome.results:
        return outcome.answer
    return f"{outcome.answer}: {outcome.failed} of {outcome.results}"


def schedules(outcomes):
    """The section of schedules."""
    by = {(o.model, o.mesh): o for o in outcomes}
    lines = [
        "",
        "## Schedules",
        "",
        f"Two pipeline ranks and {pipelines.MICROBATCHES} microbatches; stages are of one device each.",
        "",
        "| schedule | " + " | ".join(PIPELINED) + " |",
        "| --- |" + " --- |" * len(PIPELINED),
    ]
    for schedule in pipelines.SCHEDULES:
        lines.append(f"| `{schedule}` | " + " | ".join(describe(by[model, schedule]) for model in PIPELINED) + " |")
    return lines


def divided(outcomes):
    """The section of ranks with microbatches of their own."""
    models = list(dict.fromkeys(o.model for o in outcomes))
    by = {(o.model, o.mesh): o for o in outcomes}
    lines = [
        "",
        "## Ranks with microbatches of their own",
        "",
        "Data parallelism by roles alone, [for any number of ranks](../../docs/proof.md#ranks-with-microbatches-of-their-own). "
        f"`--clip-gradients` and `--scale-loss` are in the program for one device, too. Of {', '.join(_OWN_BUFFERS)} with `--assume=own-buffers`.",
        "",
        "| pipeline | " + " | ".join(models) + " |",
        "| --- |" + " --- |" * len(models),
    ]
    for number, (passes, _) in enumerate(DIVIDED):
        lines.append(f"| `{' '.join(passes)}` | " + " | ".join(describe(by[model, number]) for model in models) + " |")
    return lines


def documents(outcomes):
    """The section of documented pipelines."""
    lines = [
        "",
        "## Pipelines of the documents",
        "",
        f"Every command line of cleave-opt in the README and docs/, on `{documented_proofs.MODEL}`, without what lowers programs to executables "
        "(`--verify-exec` checks that). Where a document places nothing, the plan is `fsdp2`, or `cp2`, but for `--sync-gradients`, which is proved "
        "by roles alone and for any number of ranks. `--clip-gradients`, `--scale-loss` and `--autodiff` are in the program for one device, too.",
        "",
        f"{sum(o.answer == 'proved' for o in outcomes)} of {len(outcomes)} are proved.",
        "",
        "| document | pipeline | results | |",
        "| --- | --- | ---: | --- |",
    ]
    for outcome in outcomes:
        name = outcome.mesh.split(":")[0]
        path = "README.md" if name == "README" else f"docs/{name}.md"
        options = " ".join(documented_proofs.options_of(outcome.mesh))
        lines.append(f"| {path} | {f'`{options}`' if options else 'only what lowers'} | {outcome.results} | {describe(outcome)} |")
    return lines


def page(outcomes, documented=(), scheduled=(), own=()):
    models = [model for model in cases.MODELS if any(o.model == model for o in outcomes)]
    by = {(o.model, o.mesh): o for o in outcomes}
    asked = [o for o in outcomes if o.answer != "refused"]
    lines = [
        "# Proofs of models on meshes",
        "",
        "`test/e2e/prove_table.py`: the local programs of the [table of placements](../../docs/placement-table.md), each compared "
        "with the program for one device by [`cleave-prove --execute=false`](../../docs/proof.md): loss, gradients, buffers, "
        "parameters and optimizer states. Times are of the whole command on a busy machine with 2 cores. Refused "
        "plans have no program.",
        "",
        f"{sum(o.answer == 'proved' for o in asked)} of {len(asked)} are proved.",
        "",
        "| mesh | " + " | ".join(models) + " |",
        "| --- |" + " --- |" * len(models),
    ]
    for mesh in cases.MESHES:
        row = [describe(by[model, mesh]) if (model, mesh) in by else "not run" for model in models]
        if any(cell != "not run" for cell in row):
            lines.append(f"| {mesh} | " + " | ".join(row) + " |")
    groups = {}
    for outcome in outcomes:
        if outcome.answer == "unknown":
            groups.setdefault((outcome.mesh, outcome.why), []).append(outcome.model)
    if groups:
        lines += ["", "Unknown, with the first op that has no counterpart, or the reason:", ""]
        lines += ["| mesh | models | op or reason |", "| --- | --- | --- |"]
        lines += [f"| {mesh} | {', '.join(names)} | {why} |" for (mesh, why), names in groups.items()]
    if scheduled:
        lines += schedules(scheduled)
    if own:
        lines += divided(own)
    if documented:
        lines += documents(documented)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("CLEAVE_BUILD", TESTS.parent / "build"))
    parser.add_argument("--models", default=",".join(cases.MODELS))
    parser.add_argument("--meshes", default=";".join(cases.MESHES), help="separated by ;")
    parser.add_argument("--pipelines", action=argparse.BooleanOptionalAction, default=True,
                        help="schedules and pipelines of the documents, too")  # fmt: skip
    parser.add_argument("--folder", required=True)
    parser.add_argument("--out")
    options = parser.parse_args()
    runner = Runner(options.build, options.folder)
    outcomes = []
    for model in options.models.split(","):
        for mesh in options.meshes.split(";"):
            outcomes.append(runner.run(model, mesh.strip()))
            print(f"{model:16} {mesh:14} {describe(outcomes[-1])} {outcomes[-1].why}", flush=True)
    documented, scheduled, own = [], [], []
    if options.pipelines:
        scheduled = [runner.run_schedule(model, schedule) for model in PIPELINED for schedule in pipelines.SCHEDULES]
        own = [runner.run_divided(model, number) for model in options.models.split(",") for number in range(len(DIVIDED))]
        documented = [runner.run_document(where) for where in documented_proofs.RECIPES]
    for outcome in (*scheduled, *own, *documented):
        print(f"{outcome.model:16} {outcome.mesh!s:24} {describe(outcome)} {outcome.why}", flush=True)
    if options.out:
        pathlib.Path(options.out).write_text(page(outcomes, documented, scheduled, own))


if __name__ == "__main__":
    main()
