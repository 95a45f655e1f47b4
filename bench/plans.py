#!/usr/bin/env python3
"""What cleave-plan finds for Llama 3 and DeepSeek-V3 on clusters of H100s, beside published layouts and random plans.

    .venv/bin/python bench/plans.py PROGRAMS [--cases 8b-64,405b-16384] [--limit 60] [--sample 2000] [--sample-limit 600]
        [--only found|budgets|offload|sample] [--write]

PROGRAMS is a folder with exports by model and batch: 8b-64/program.mlir has the batch 64. bench/large_models.py
says how they are made; one that is not there yet is exported, which takes minutes. Each case is searched for
--limit seconds; then the best plan with each published layout is searched for, and --sample random plans of the
space that fit are simulated, as many as there is time for: cleave-plan fails if one of them is below its bounds.
--only=found, budgets, offload or sample measures one table. Prints Markdown; --write puts the rows of the cases into
bench/results/plans.md, in place of theirs, and leaves all else as it is.
"""

import argparse
import datetime
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = SOURCE / "examples" / "devices" / "cluster-dgx-h100.json"
PAGE = SOURCE / "bench" / "results" / "plans.md"

CAPACITY = ("--expert-capacity=1.25",)
# By name: model, batches of its exports (examples of a microbatch on all ranks), ranks, examples of a step, options.
CASES = {
    "8b-64": ("8b", [64], 64, 256),
    "8b-512": ("8b", [64], 512, 256),
    "8b-2048": ("8b", [512], 2048, 4096),
    "8b-4096": ("8b", [512], 4096, 4096),
    "8b-16384": ("8b", [512], 16384, 4096),
    "70b-64": ("70b", [2, 64], 64, 256),
    "70b-256": ("70b", [16, 64], 256, 1024),
    "70b-512": ("70b", [64], 512, 1024),
    "70b-1024": ("70b", [64], 1024, 1024),
    "70b-2048": ("70b", [64], 2048, 1024),
    "70b-4096": ("70b", [64], 4096, 1024),
    "405b-1024": ("405b", [8, 128], 1024, 1536),
    "405b-4096": ("405b", [128], 4096, 2048),
    "405b-8192": ("405b", [128], 8192, 2048),
    "405b-16384": ("405b", [128], 16384, 2048),
    "deepseek-1024": ("deepseek", [128], 1024, 8192, *CAPACITY),
    "deepseek-2048": ("deepseek", [128], 2048, 15360, *CAPACITY),
    "deepseek-4096": ("deepseek", [512], 4096, 15360, *CAPACITY),
    "deepseek-8192": ("deepseek", [512], 8192, 15360, *CAPACITY),
    "deepseek-16384": ("deepseek", [512], 16384, 15360, *CAPACITY),  # 128 examples and 61 layers divide fewer ranks
}
MODELS = {"8b": "llama3-8b", "70b": "llama3-70b", "405b": "llama3-405b", "deepseek": "deepseek-v3"}
# What was published for the same model, in the words of cleave-plan, and where.
PUBLISHED = {
    "8b-64": [("dp=64,tp=1,pp=1,cp=1,parameters=fsdp,replicas=1", "torchtitan's 8B: FSDP over all ranks")],
    "70b-64": [
        (
            "dp=2,tp=4,pp=8,cp=1,parameters=zero1,sequence=yes,microbatches=128",
            "Megatron Bridge's 70B on 64 H100s: TP 4, PP 8, DP 2, one example a microbatch",
        ),
    ],
    "70b-512": [
        ("dp=64,tp=8,pp=1,cp=1,parameters=fsdp,replicas=1,sequence=yes", "torchtitan's 70B: FSDP, TP 8 with sequence parallelism"),
    ],
    "405b-1024": [
        (
            "dp=8,tp=8,pp=8,cp=2,parameters=zero1,microbatches=192",
            "Megatron Bridge's 405B on 1,024 H100s: TP 8, CP 2, PP 8, DP 8, one example a microbatch",
        ),
    ],
    "405b-8192": [("dp=64,tp=8,pp=16,cp=1,sequence=yes", "Llama 3 405B, table 4, first row: TP 8, CP 1, PP 16, DP 64")],
    "405b-16384": [("dp=128,tp=8,pp=16,cp=1,sequence=yes", "Llama 3 405B, table 4, second row: TP 8, CP 1, PP 16, DP 128")],
    "deepseek-2048": [
        (
            "dp=2,ep=64,tp=1,pp=16,cp=1,parameters=zero1",
            "DeepSeek-V3's report, 3.2: PP 16, EP 64, ZeRO-1 over the 128 ranks of a stage",
        ),
    ],
}
HEADS = {
    "found": "| case | examples a step, a microbatch | plan | step, s | MFU | no plan takes less than, s | gap | of which | "
    "programs | processor, s | date |",
    "budgets": "| case | the best whose ranks recompute alike, s | with a budget by rank | step, s | MFU | gained | none takes less than, s | "
    "gap | tried | processor, s | date |",
    "offload": "| case | the best whose ranks recompute alike, s | with a budget by rank that may offload | step, s | MFU | gained | "
    "most in a host's memory for a device, GiB | none takes less than, s | gap | tried | processor, s | date |",
    "published": "| case | published | the best with it | step, s | chosen, s | date |",
    "sample": "| case | plans | placed programs | the fastest, by the bound | refused, too large | processor, s | date |",
}


def run(binary, programs, ranks, batch, *options, stop=None):
    """What the tool prints, and its processor seconds. It is told to end after `stop` seconds."""
    command = [binary, *programs, f"--cluster={CLUSTER}", f"--ranks={ranks}", f"--global-batch={batch}", "--json", *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        try:
            printed, said = tool.communicate(timeout=stop)
        except subprocess.TimeoutExpired:
            tool.send_signal(signal.SIGINT)
            printed, said = tool.communicate()
    if tool.returncode:
        raise SystemExit(said.strip())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"peak memory so far: {after.ru_maxrss / 2**20:.2f} GiB", file=sys.stderr)
    return json.loads(printed), said, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def describe(plan):
    axes = [f"{name} {plan[name]}" for name in ("dp", "ep", "tp", "cp", "pp") if plan[name] != "1"]
    recompute = plan["recompute"] + (" with offloading" if plan.get("offload") == "yes" else "")
    copies = f" in {plan['replicas']} copies" if plan.get("replicas", "1") != "1" else ""
    rest = [plan["parameters"] + copies, recompute] + (["sequence"] if plan["sequence"] == "yes" else [])
    if plan["pp"] != "1":
        rest += [plan["schedule"], f"chunks {plan['chunks']}", f"ends {plan['ends']}"]
    return ", ".join(axes + rest)


def export(model, batch, folder):
    sys.path[:0] = [str(SOURCE / part) for part in ("bench", "python", "examples")]
    import large_models

    import cleave

    made = large_models.MODELS[MODELS[model]]
    options = {"fuses_attention": True} if model == "deepseek" else {}
    cleave.export_spec(made.make(made.layers, batch, made.tokens, **options), folder)


def measure(name, options):
    model, batches, ranks, examples, *fixed_options = CASES[name]
    programs = [options.programs / f"{model}-{batch}" / "program.mlir" for batch in batches]
    for batch, program in zip(batches, programs):
        if not program.exists():
            export(model, batch, program.parent)

    def plan(*more, stop=None):
        return run(options.build / "bin" / "cleave-plan", programs, ranks, examples, f"--time-limit={options.limit}",
                   *fixed_options, *more, stop=stop)  # fmt: skip

    date = datetime.date.today().isoformat()
    rows = {kind: [] for kind in HEADS}
    if options.sample and options.only in (None, "sample"):
        _, said, seconds = plan(f"--sample={options.sample}", stop=options.sample_limit)
        words = said.strip().splitlines()[-1].split()
        count, least, refused, large, drawn = words[1], words[7], words[12], words[14], words[18]
        rows["sample"].append(f"| {name} | {count} | {drawn} | {least} | {refused}, {large} | {seconds:.0f} | {date} |")
    for kind, more in (("budgets", []), ("offload", ["--offload", "--budgets=12"])):
        if options.only not in (None, kind):
            continue
        tried, _, seconds = plan("--alternatives=1000", *more)
        plans = [tried["best"], *tried["alternatives"]]
        alike = min(each["seconds"] for each in plans if each["plan"]["recompute"] != "budget")
        budgets = tried.get("budgets", {"tried": 0})
        bound = f"{budgets['lower_bound']:.3f} | {100 * budgets['gap']:.1f} %" if budgets["tried"] else " | "
        best = tried["best"]
        host = f"{max(place['host'] for place in best['memory']) / 2**30:.0f} | " if more else ""
        rows[kind].append(
            f"| {name} | {alike:.3f} | {describe(best['plan'])} | {best['seconds']:.3f} | {100 * best['mfu']:.1f} % | "
            f"{100 * (1 - best['seconds'] / alike):.1f} % | {host}{bound} | {budgets['tried']} | {seconds:.0f} | {date} |"
        )
    if options.only in ("sample", "budgets", "offload"):
        return rows
    found, _, seconds = plan("--budgets=0")
    best = found["best"]
    parts = ", ".join(f"{part} {100 * value / best['seconds']:.0f} %" for part, value in found["gap_parts"].items()
                      if value > 0.005 * best["seconds"])  # fmt: skip
    microbatch = examples // int(best["plan"]["microbatches"])
    rows["found"].append(
        f"| {name} | {examples}, {microbatch} | {describe(best['plan'])} | {best['seconds']:.3f} | {100 * best['mfu']:.1f} % | "
        f"{found['lower_bound']:.3f} | {100 * found['gap']:.1f} % | {parts} | {found['partitioned']} | {seconds:.0f} | {date} |"
    )
    for fixed, source in PUBLISHED.get(name, []) if options.only is None else []:
        other, _, _ = plan(f"--fix={fixed}", "--budgets=0")
        rows["published"].append(
            f"| {name} | {source} | {describe(other['best']['plan'])} | {other['best']['seconds']:.3f} | {best['seconds']:.3f} | "
            f"{date} |"
        )
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
    parser.add_argument("--sample-limit", type=float, help="seconds of a search and its random plans")
    parser.add_argument("--only", choices=("found", "budgets", "offload", "sample"), help="one table: a loaded machine serves for random plans")
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
