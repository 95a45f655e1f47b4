"""Step time of pipeline schedules over Gloo: cleave-run beside torch.distributed.pipelining.

    .venv/bin/python bench/pipeline.py [BUILD] [--rounds 3] [--steps 12] [--write]

Both train the same GPT with the same weights on the same data, on 2 ranks of one thread, with the
same stages and microbatches, and alternate, so that both see the same machine. Times are of whole
steps, update included, the first two left out: the median, and the fastest, which other work on the
machine disturbs least. Both are medians over rounds. Losses are compared step by step.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from pipeline_programs import ROOT, Programs

RESULTS = ROOT / "bench" / "results" / "pipeline.md"
WARM_UP = 2
# Our name, torch's class.
PAIRS = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "looped-bfs": "ScheduleLoopedBFS",
    "interleaved-1f1b": "ScheduleInterleaved1F1B",
    "interleaved-zero-bubble": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
    "dualpipev": "ScheduleDualPipeV",
}


def train_torch(schedule, options, out):
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", "localhost:0", ROOT / "bench" / "pipeline_torch.py", "--schedule", schedule,
        "--steps", str(options.steps), "--microbatches", str(options.microbatches), "--metrics", out,
    ]  # fmt: skip
    # A schedule that hangs in torch is reported as such.
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return None, f"no end within {options.timeout} s"
    if result.returncode:
        errors = [line for line in result.stderr.splitlines() if "Error:" in line]
        unconnected = any("Pair is not connected" in line for line in errors)
        return None, "fails: sends to its own rank" if unconnected else "fails"
    rows = [json.loads(line) for line in pathlib.Path(out).read_text().splitlines()]
    return rows, ""


def summarise(times):
    """Median and fastest step."""
    return statistics.median(times[WARM_UP:]), min(times[WARM_UP:])


def show(runs):
    median, fastest = (statistics.median(column) for column in zip(*runs))
    return f"{median:.0f} / {fastest:.0f} ms"


def compare(programs, name, options):
    path = programs.make(name, 2, options.microbatches)
    ours, theirs, difference, note = [], [], 0, ""
    for _ in range(options.rounds):
        losses, times = programs.train(path, 2, options.steps)
        ours.append(summarise(times))
        rows, note = train_torch(PAIRS[name], options, programs.folder / "torch.jsonl")
        if rows is None:
            break
        theirs.append(summarise([row["ms"] for row in rows]))
        difference = max(
            [difference] + [abs(a - row["loss"]) / row["loss"] for a, row in zip(losses, rows)]
        )
    if not theirs:
        return f"| {name} | {show(ours)} | {note} | - | - |", None
    ratios = [statistics.median(a[i] / b[i] for a, b in zip(ours, theirs)) for i in (0, 1)]
    line = (f"| {name} | {show(ours)} | {show(theirs)} | {ratios[0]:.2f} / {ratios[1]:.2f} | "
            f"{difference:.1e} |")  # fmt: skip
    return line, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=120, help="seconds that a run of torch may take")
    parser.add_argument("--only", choices=PAIRS, action="append")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    lines = ["| schedule | cleave-run | torch | ratio | largest difference of losses |",
             "| --- | --- | --- | --- | --- |"]  # fmt: skip
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(options.build, folder)
        for name in options.only or PAIRS:
            line, ratio = compare(programs, name, options)
            print(line, flush=True)
            lines.append(line)
            ratios += [ratio] * (ratio is not None)
    table = "\n".join(lines)
    summary = "Nothing to compare."
    if ratios:
        middle = [statistics.median(column) for column in zip(*ratios)]
        summary = f"Ratios, the median over schedules: {middle[0]:.2f} (median steps), {middle[1]:.2f} (fastest steps)."
    text = f"""# Step time of pipeline schedules beside torch.distributed.pipelining

{datetime.date.today()}, {os.cpu_count()} cores (shared with other work: load {os.getloadavg()[0]:.1f} at the end; run at nice {os.nice(0)}), no GPU, torch 2.11.0,
Gloo, 2 ranks of one thread on one machine; a GPT of 4 layers (0.9 M parameters, 512 tokens a
microbatch, AdamW), {options.microbatches} microbatches, stages cut at the same modules.
`bench/pipeline.py --steps={options.steps} --rounds={options.rounds}`: both in one run, alternating. Median / fastest step; a ratio below 1:
cleave-run is faster.

{table}

{summary}
"""
    print(text)
    if options.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
