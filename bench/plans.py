#!/usr/bin/env python3
"""What cleave-plan finds for Llama 3 on clusters of H100s, beside published layouts and random plans.

    .venv/bin/python bench/plans.py PROGRAMS [--cases 8b-64,405b-16384] [--limit 60] [--sample 2000] [--write]

PROGRAMS is a folder with exports by model and batch: 8b-64/program.mlir has the batch 64. bench/large_models.py
says how they are made; one that is not there yet is exported, which takes minutes. Each case is searched for
--limit seconds; then the best plan with each published layout is searched for, and --sample random plans of the
space that fit are simulated: cleave-plan fails if one of them is below its bounds. Prints Markdown; --write puts
the rows of the cases into bench/results/plans.md, in place of theirs, and leaves all else as it is.
"""

import argparse
import datetime
import json
import os
import pathlib
import resource
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = SOURCE / "examples" / "devices" / "cluster-dgx-h100.json"
PAGE = SOURCE / "bench" / "results" / "plans.md"

# By name: model, batch of the export (examples of a microbatch on all ranks), ranks, examples of a step.
CASES = {
    "8b-64": ("8b", 64, 64, 256),
    "8b-512": ("8b", 64, 512, 256),
    "70b-512": ("70b", 64, 512, 1024),
    "70b-2048": ("70b", 64, 2048, 1024),
    "405b-8192": ("405b", 128, 8192, 2048),
    "405b-16384": ("405b", 128, 16384, 2048),
}
# What was published for the same model, in the words of cleave-plan, and where.
PUBLISHED = {
    "8b-64": [("dp=64,tp=1,pp=1,cp=1,parameters=fsdp", "torchtitan's 8B: FSDP over all ranks")],
    "70b-512": [
        ("dp=64,tp=8,pp=1,cp=1,parameters=fsdp,sequence=yes", "torchtitan's 70B: FSDP, TP 8 with sequence parallelism"),
    ],
    "405b-8192": [("dp=64,tp=8,pp=16,cp=1,sequence=yes", "Llama 3 405B, table 4, first row: TP 8, CP 1, PP 16, DP 64")],
    "405b-16384": [("dp=128,tp=8,pp=16,cp=1,sequence=yes", "Llama 3 405B, table 4, second row: TP 8, CP 1, PP 16, DP 128")],
}
HEADS = {
    "found": "| case | examples a step, a microbatch | plan | step, s | MFU | no plan takes less than, s | gap | of which | "
    "programs | processor, s | date |",
    "published": "| case | published | the best with it | step, s | chosen, s | date |",
    "sample": "| case | plans | the fastest, by the bound | refused, too large | processor, s | date |",
}


def run(binary, program, ranks, batch, *options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [binary, program, f"--cluster={CLUSTER}", f"--ranks={ranks}", f"--global-batch={batch}", "--json", *options]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), done.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def describe(plan):
    axes = [f"{name} {plan[name]}" for name in ("dp", "tp", "cp", "pp") if plan[name] != "1"]
    rest = [plan["parameters"], plan["recompute"]] + (["sequence"] if plan["sequence"] == "yes" else [])
    if plan["pp"] != "1":
        rest += [plan["schedule"], f"chunks {plan['chunks']}", f"ends {plan['ends']}"]
    return ", ".join(axes + rest)


def export(model, batch, folder):
    sys.path[:0] = [str(SOURCE / part) for part in ("bench", "python", "examples")]
    import large_models

    import cleave

    made = large_models.MODELS[f"llama3-{model}"]
    cleave.export_spec(made.make(made.layers, batch, made.tokens), folder)


def measure(name, options):
    model, batch, ranks, examples = CASES[name]
    program = options.programs / f"{model}-{batch}" / "program.mlir"
    if not program.exists():
        export(model, batch, program.parent)
    usual = (options.build / "bin" / "cleave-plan", program, ranks, examples)
    date = datetime.date.today().isoformat()
    rows = {kind: [] for kind in HEADS}
    found, _, seconds = run(*usual, f"--time-limit={options.limit}")
    best = found["best"]
    parts = ", ".join(f"{part} {100 * value / best['seconds']:.0f} %" for part, value in found["gap_parts"].items()
                      if value > 0.005 * best["seconds"])  # fmt: skip
    rows["found"].append(
        f"| {name} | {examples}, {batch} | {describe(best['plan'])} | {best['seconds']:.3f} | {100 * best['mfu']:.1f} % | "
        f"{found['lower_bound']:.3f} | {100 * found['gap']:.1f} % | {parts} | {found['partitioned']} | {seconds:.0f} | {date} |"
    )
    for fixed, source in PUBLISHED.get(name, []):
        other, _, _ = run(*usual, f"--time-limit={options.limit}", f"--fix={fixed}")
        rows["published"].append(
            f"| {name} | {source} | {describe(other['best']['plan'])} | {other['best']['seconds']:.3f} | {best['seconds']:.3f} | "
            f"{date} |"
        )
    if options.sample:
        _, said, seconds = run(*usual, f"--time-limit={options.limit}", f"--sample={options.sample}")
        words = said.strip().splitlines()[-1].split()
        count, least, refused, large = words[1], words[7], words[12], words[14]
        rows["sample"].append(f"| {name} | {count} | {least} | {refused}, {large} | {seconds:.0f} | {date} |")
    return rows


def write(rows):
    """Replaces the rows of these cases in the page's tables."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for kind, head in HEADS.items():
        start = lines.index(head) + 2
        end = next(number for number in range(start, len(lines) + 1) if number == len(lines) or not lines[number])
        new = {row.split("|")[1].strip() for row in rows[kind]}
        kept = [row for row in lines[start:end] if row.split("|")[1].strip() not in new]
        order = {name: number for number, name in enumerate(CASES)}
        lines[start:end] = sorted(kept + rows[kind], key=lambda row: order[row.split("|")[1].strip()])
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("CLEAVE_BUILD", SOURCE / "build")))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--sample", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    names = options.cases.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"--cases: expected some of {', '.join(CASES)}, found {unknown[0]}")
    for name in names:
        rows = measure(name, options)
        for kind, head in HEADS.items():
            if rows[kind]:
                print(head, "|" + " --- |" * (head.count("|") - 1), *rows[kind], "", sep="\n", flush=True)
        if options.write:
            write(rows)


if __name__ == "__main__":
    main()
