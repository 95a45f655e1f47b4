"""Passes over pipeline stages: 8 stages of Llama, split, in buckets, clipped, scheduled; time of each pass.

Several depths show how times grow. `cleave-opt` runs all passes in one process; times are its own
(--mlir-timing), the best of several runs.

    .venv/bin/python bench/staged_program.py [--layers 32,64,128] [--runs 3]
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

PASSES = {
    "outline-stages": "count=8 balance=cost",
    "split-backward": "",
    "sync-gradients": "axis=dp",
    "bucket-gradients": "",
    "clip-gradients": "max-norm=1.0",
    "overlap-communication": "",
    "build-schedule": "schedule=zbv ranks=4 microbatches=32",
    "insert-p2p": "",
    "verify-schedule": "",
}
TITLES = {
    "outline-stages": "OutlineStages", "split-backward": "SplitBackward",
    "sync-gradients": "SyncGradients", "bucket-gradients": "BucketGradients",
    "clip-gradients": "ClipGradients", "overlap-communication": "OverlapCommunication",
    "build-schedule": "BuildSchedule", "insert-p2p": "InsertP2P", "verify-schedule": "VerifySchedule",
}  # fmt: skip


def run_passes(opt, program):
    """Seconds of each pass in one run."""
    options = [f"--{name}={text}" if text else f"--{name}" for name, text in PASSES.items()]
    report = subprocess.run(
        [opt, program, *options, "--mlir-timing", "-o", "/dev/null"],
        check=True, capture_output=True, text=True).stderr  # fmt: skip
    rows = re.findall(r"([\d.]+) \(\s*[\d.]+%\)\s+(\w+)", report)
    seconds = {name: float(value) for value, name in rows}
    return {name: seconds[title] for name, title in TITLES.items()}


def measure(layers, options):
    import huggingface
    from cleave.export import export_spec

    with tempfile.TemporaryDirectory() as folder:
        spec = huggingface._language_model(
            huggingface._llama(layers, width=16, vocabulary=64), f"llama{layers}", time=8)  # fmt: skip
        program = pathlib.Path(export_spec(spec, folder))
        ops = program.read_text().count(" = aten.")
        runs = [run_passes(options.opt, program) for _ in range(options.runs)]
    return ops, {name: min(run[name] for run in runs) for name in PASSES}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", default="32,64,128")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--opt", default=str(ROOT / "build/bin/cleave-opt"))
    options = parser.parse_args()
    depths = [int(text) for text in options.layers.split(",")]
    results = {layers: measure(layers, options) for layers in depths}
    print("| pass (s) | " + " | ".join(f"{n} layers, {results[n][0]} ops" for n in depths) + " |")
    print("| --- |" + " --- |" * len(depths))
    for name in PASSES:
        print(f"| `--{name}` | " + " | ".join(f"{results[n][1][name]:.3f}" for n in depths) + " |")


if __name__ == "__main__":
    main()
