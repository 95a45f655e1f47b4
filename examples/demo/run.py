"""The demo: trains a small GPT on licence texts on two ranks, beside PyTorch on the same data.

    ./dev demo                          builds, then runs this
    python examples/demo/run.py --build build [--steps 120] [--out out/demo]
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

import model
from curve import as_svg, as_text

ROOT = model.ROOT
HERE = pathlib.Path(__file__).resolve().parent


def run(title, command, **options):
    """Runs a command that the reader could type, and shows it."""
    print(f"\n== {title}\n$ {shlex.join(map(shown, command))}", flush=True)
    start = time.perf_counter()
    result = subprocess.run([str(c) for c in command], cwd=ROOT, **options)
    if result.returncode:
        sys.exit(f"demo: this command failed with exit status {result.returncode}")
    print(f"   {time.perf_counter() - start:.1f} s", flush=True)
    return result


def shown(argument):
    """Paths relative to the checkout."""
    text = str(argument)
    return os.path.relpath(text, ROOT) if text.startswith(str(ROOT) + "/") else text


def read_metrics(path):
    rows = [json.loads(line) for line in open(path)]
    return [row["loss"] for row in rows], [row["ms"] for row in rows]


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=model.STEPS)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "demo")
    options = parser.parse_args()
    missing = [text for text in model.TEXTS if not pathlib.Path(text).exists()]
    if missing:
        sys.exit(f"demo: expected Debian's licence texts, found no {missing[0]}")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    binaries = options.build.resolve() / "bin"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT / "examples"), str(HERE)])
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    run("Export the training step of examples/demo/model.py",
        [sys.executable, "-m", "cleave.export", f"{HERE / 'model.py'}:demo", "-o", out])
    run("Transform: clean up, sum gradients over the ranks, in buckets",
        [binaries / "cleave-opt", out / "gpt.mlir", "--cse", "--canonicalize",
         f"--sync-gradients=axis=dp size={model.RANKS}", "--bucket-gradients", "--mlir-print-debuginfo", "-o", out / "gpt.dp.mlir"])
    run("What it will take",
        [binaries / "cleave-run", out / "gpt.dp.mlir", "--ranks", model.RANKS, "--microbatches",
         model.MICROBATCHES, "--dry-run"])
    run(f"Train on {model.RANKS} ranks",
        [binaries / "cleave-run", out / "gpt.dp.mlir", "--weights", out / "gpt.safetensors",
         "--ranks", model.RANKS, "--steps", options.steps, "--microbatches", model.MICROBATCHES,
         "--seed", model.SEED, "--data", "text:" + ",".join(model.TEXTS),
         "--metrics", out / "cleave.jsonl", "--trace", out / "trace.json"])
    run("The same with PyTorch's DistributedDataParallel",
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", model.RANKS,
         "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
         HERE / "reference.py", "--steps", options.steps, "--metrics", out / "ddp.jsonl"],
        stderr=subprocess.DEVNULL if not os.environ.get("CLEAVE_DEMO_VERBOSE") else None)

    ours, our_ms = read_metrics(out / "cleave.jsonl")
    theirs, their_ms = read_metrics(out / "ddp.jsonl")
    series = {"cleave-run, 2 ranks": ours, "PyTorch DistributedDataParallel": theirs}
    print()
    print("\n".join(as_text(series)))
    (out / "loss.svg").write_text(as_svg(series))
    difference = max(abs(a - b) / abs(b) for a, b in zip(ours[:20], theirs[:20]))
    whole = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    print(f"""
Loss {ours[0]:.4f} -> {ours[-1]:.4f}; PyTorch {theirs[0]:.4f} -> {theirs[-1]:.4f}.
Largest relative difference: {difference:.1e} in the first 20 steps (expected below 1e-5), {whole:.1e} in all.
Median step: {median(our_ms):.0f} ms, PyTorch {median(their_ms):.0f} ms (shared machine: only the ratio says something).

Where to look next:
  {shown(out / 'gpt.mlir')}       the exported step, one microbatch
  {shown(out / 'gpt.dp.mlir')}    the same after the passes: look for train.bucket
  {shown(out / 'trace.json')}     every op of every rank: open it in ui.perfetto.dev
  {shown(out / 'loss.svg')}       the curves above
  docs/ir.md               how to read a program""")
    if difference > 1e-5:
        sys.exit("demo: the losses differ by more than 1e-5")


if __name__ == "__main__":
    main()
