"""Budgets of memory for a 32-layer Llama: what is planned and measured, and what is recomputed.

At five budgets the program is partitioned, lowered and trained for two steps; at fifty, its planned peak is
compared with the budget and with that of the budget before. Then the same by rank of a pipeline, at five budgets.
Prints Markdown.

    .venv/bin/python bench/memory_budget.py [--layers 32] [--opt build/bin/cleave-opt]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from layers import ROOT, parse_options

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

MIB = 2**20


def export(layers, folder):
    """A Llama whose activations take more than its weights."""
    import huggingface

    from cleave.export import export_spec

    model = huggingface._llama(layers, width=64, vocabulary=512)
    return pathlib.Path(export_spec(huggingface._language_model(model, "llama", time=64), folder))


def partition(opt, program, memory, result="/dev/null", **options):
    """Seconds of the pass, and what it says of the budget."""
    text = " ".join(f"{name}={value}" for name, value in options.items())
    report = program.with_suffix(".json")
    timing = subprocess.run(
        [opt, program, f"--partition-joint=policy=budget memory={memory} {text} json={report}", "--mlir-timing",
         "-o", result], check=True, capture_output=True, text=True).stderr
    seconds = float(re.search(r"([\d.]+) \(\s*[\d.]+%\)\s+PartitionJoint", timing).group(1))
    return seconds, json.loads(report.read_text())["budget"]


def spread(frontier, count):
    low, high = frontier[0]["step_peak_bytes"], frontier[-1]["step_peak_bytes"]
    return [high - (high - low) * i // (count - 1) for i in range(count)]


def train(run, program, folder, *arguments):
    """Bytes that two steps measured, on the first rank."""
    data, metrics = folder / "text", folder / "metrics.jsonl"
    data.write_bytes(bytes(range(32, 127)) * 40)
    metrics.unlink(missing_ok=True)
    subprocess.run([run, program, "--steps", "2", "--data", f"text:{data}", "--metrics", metrics, *arguments],
                   check=True, capture_output=True)
    return max(json.loads(line).get("memory_bytes", 0) for line in metrics.read_text().splitlines())


def measure(layers, options, folder):
    program = export(layers, folder)
    ops = sum(" = " in line for line in program.read_text().splitlines())
    run = pathlib.Path(options.opt).with_name("cleave-run")
    seconds, whole = partition(options.opt, program, "1TiB", lowered="true")
    print(f"\n{layers} layers, {ops} ops, {len(whole['frontier'])} partitions on the frontier\n")
    print("| budget (MiB) | planned (MiB) | measured (MiB) | recomputed (MiB of traffic) | pass, wall (s) |")
    print("| --- | --- | --- | --- | --- |")
    parted, lowered = folder / "parts.mlir", folder / "lowered.mlir"
    lowered.with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    for memory in spread(whole["frontier"], 5):
        seconds, chosen = min(
            (partition(options.opt, program, memory, parted, lowered="true") for _ in range(options.runs)),
            key=lambda found: found[0])
        subprocess.run([options.opt, parted, "--lower-to-exec", "-o", lowered], check=True)
        measured = train(run, lowered, folder)
        print(f"| {memory / MIB:.2f} | {chosen['step_peak_bytes'] / MIB:.2f} | {measured / MIB:.2f} "
              f"| {chosen['recompute_bytes'] / MIB:.1f} | {seconds:.2f} |", flush=True)
    budgets = spread(partition(options.opt, program, "1TiB")[1]["frontier"], 50)
    peaks = [partition(options.opt, program, memory)[1]["step_peak_bytes"] for memory in budgets]
    assert all(peak <= memory for peak, memory in zip(peaks, budgets, strict=True))
    assert peaks == sorted(peaks, reverse=True)
    print(f"\n50 budgets from {budgets[0] / MIB:.2f} to {budgets[-1] / MIB:.2f} MiB: {len(set(peaks))} different peaks, "
          "each within its budget, none above that of a larger budget.")


PIPELINE = "schedule=1f1b ranks=4 microbatches=8"


def outline(opt, program, memory, result="/dev/null"):
    """Seconds of the pass, and by rank the planned peak and what is recomputed; or the least that a rank needs."""
    outcome = subprocess.run(
        [opt, program, f"--outline-stages=count=4 balance=cost policy=budget memory={memory} lowered=true explain=true "
         + PIPELINE, "--mlir-timing", "-o", result], capture_output=True, text=True)
    if outcome.returncode:
        return None, int(re.search(r"needs .* \((\d+) bytes\)", outcome.stderr)[1]), None
    seconds = float(re.search(r"([\d.]+) \(\s*[\d.]+%\)\s+OutlineStages", outcome.stderr).group(1))
    ranks = re.findall(r"^rank \d+: .*\((\d+) bytes\).* microbatch (.*) of traffic$", outcome.stderr, re.M)
    return seconds, [int(peak) for peak, _ in ranks], [again for _, again in ranks]


def measure_pipeline(layers, options, folder):
    program = export(layers, folder)
    run = pathlib.Path(options.opt).with_name("cleave-run")
    least = 1
    while (found := outline(options.opt, program, least))[0] is None:
        least = found[1]
    high = max(outline(options.opt, program, "1TiB")[1])
    print(f"\n{layers} layers in 4 stages, 1F1B on 4 ranks, 8 microbatches\n")
    print("| budget (MiB) | planned by rank (MiB) | measured on rank 0 (MiB) | recomputed by rank, of traffic | pass, wall (s) |")
    print("| --- | --- | --- | --- | --- |")
    staged, lowered = folder / "staged.mlir", folder / "staged-lowered.mlir"
    lowered.with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    for memory in (high - (high - least) * i // 4 for i in range(5)):
        seconds, peaks, again = min((outline(options.opt, program, memory, staged) for _ in range(options.runs)),
                                    key=lambda found: found[0])
        assert all(peak <= memory for peak in peaks)
        subprocess.run([options.opt, staged, f"--build-schedule={PIPELINE}", "--insert-p2p", "--lower-to-exec", "-o", lowered],
                       check=True)
        measured = train(run, lowered, folder, "--ranks", "4")
        print(f"| {memory / MIB:.2f} | {', '.join(f'{peak / MIB:.2f}' for peak in peaks)} | {measured / MIB:.2f} "
              f"| {', '.join(again)} | {seconds:.2f} |", flush=True)


def main():
    options = parse_options(__doc__)
    for layers in options.layers:
        with tempfile.TemporaryDirectory() as folder:
            measure(layers, options, pathlib.Path(folder))
        with tempfile.TemporaryDirectory() as folder:
            measure_pipeline(layers, options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
