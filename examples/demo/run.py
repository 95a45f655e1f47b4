"""The demo: trains a small GPT on licence texts, beside PyTorch on the same data.

Four ranks: two pipelines of two stages side by side. Predicts a step's timeline and measures it.

    ./dev demo                          builds, then runs this
    python examples/demo/run.py --build build [--steps 60] [--out out/demo]
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
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


def train_by_wheel(out, build):
    """A loop in Python, by the wheel alone: in an environment of its own, beside the packages of this one."""
    wheels, environment = out / "wheel", out / "environment"
    for folder in (wheels, environment):
        shutil.rmtree(folder, ignore_errors=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run("A wheel of Cleave for Python", [*pip, "wheel", ROOT / "python", "--no-deps", "--no-build-isolation", "-w", wheels],
        env={**clean, "CLEAVE_BUILD": str(build)})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "rest.pth").write_text(sysconfig.get_paths()["purelib"])
    (wheel,) = wheels.iterdir()
    python = environment / "bin" / "python"
    run("Installed", [*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], env=clean)
    run("In a training loop of your own: cleave.compile_step", [python, HERE / "loop.py"], env=clean)


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
    scheduled, program = out / "gpt.pp.mlir", out / "gpt.exec.mlir"
    ranks = model.STAGES * model.REPLICAS
    data = "text:" + ",".join(model.TEXTS)
    run("Transform: clean up, cut into stages, sum gradients over the replicas, in buckets",
        [binaries / "cleave-opt", out / "gpt.mlir", "--cse", "--canonicalize",
         f"--outline-stages=count={model.STAGES} balance=cost explain=true",
         f"--sync-gradients=axis=dp size={model.REPLICAS}", "--bucket-gradients", "--mlir-print-debuginfo",
         "-o", out / "gpt.stages.mlir"])
    run("Schedule: 1F1B with sends and receives, proved free of deadlock",
        [binaries / "cleave-opt", out / "gpt.stages.mlir",
         f"--build-schedule=schedule=1f1b ranks={model.STAGES} microbatches={model.MICROBATCHES}",
         "--insert-p2p", "--verify-schedule", "--mlir-print-debuginfo", "-o", scheduled])
    run("Compile: fused kernels in machine code, planned memory",
        [binaries / "cleave-opt", scheduled, "--fuse-kernels", "--compile-kernels", "--lower-to-exec",
         "--mlir-print-debuginfo", "-o", program])
    run("What it will take",
        [binaries / "cleave-run", program, "--ranks", ranks, "--dry-run"])
    run(f"Train on {ranks} ranks: {model.REPLICAS} pipelines of {model.STAGES} stages",
        [binaries / "cleave-run", program, "--weights", out / "gpt.safetensors",
         "--ranks", ranks, "--steps", options.steps, "--seed", model.SEED, "--data", data,
         "--metrics", out / "cleave.jsonl", "--profile", out / "profile.json", "--trace", out / "trace.json"])
    run("Predict the step from the measured costs, beside the measured one",
        [binaries / "cleave-sim", program, f"--profile={out / 'profile.json'}",
         f"--measured={out / 'profile.json'}", f"--html={out / 'timeline.html'}"])
    run("The same with PyTorch's DistributedDataParallel",
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", model.REPLICAS,
         "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
         HERE / "reference.py", "--steps", options.steps, "--metrics", out / "ddp.jsonl"],
        stderr=subprocess.DEVNULL if not os.environ.get("CLEAVE_DEMO_VERBOSE") else None)

    train_by_wheel(out, options.build.resolve())

    ours, our_ms = read_metrics(out / "cleave.jsonl")
    theirs, their_ms = read_metrics(out / "ddp.jsonl")
    series = {f"cleave-run, {ranks} ranks": ours, "PyTorch DistributedDataParallel": theirs}
    print()
    print("\n".join(as_text(series)))
    (out / "loss.svg").write_text(as_svg(series))
    difference = max(abs(a - b) / abs(b) for a, b in zip(ours[:20], theirs[:20]))
    whole = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    print(f"""
Loss {ours[0]:.4f} -> {ours[-1]:.4f}; PyTorch {theirs[0]:.4f} -> {theirs[-1]:.4f}.
Largest relative difference: {difference:.1e} in the first 20 steps (expected below 1e-5), {whole:.1e} in all.
Median step: {median(our_ms):.0f} ms, PyTorch {median(their_ms):.0f} ms (shared machine: only the ratio says something).
PyTorch has a rank for each pipeline, {model.REPLICAS} in all; the pipelines' {ranks} do the same work, and share the cores where there
are fewer than {ranks}. Data-parallel ranks are faster for a model as small as this one (bench/results/demo_layouts.md compares
the layouts). Pipelines are for models that do not fit one device: here they show schedules, transfers and overlap at work.

Where to look next:
  {shown(out / 'gpt.mlir')}       the exported step, one microbatch
  {shown(out / 'gpt.pp.mlir')}    the same in stages: look for pipeline.schedule and train.bucket
  {shown(out / 'gpt.exec.mlir')}  the same as it runs: look for exec.launch
  {shown(out / 'timeline.html')}  a step of the pipeline, predicted and measured: open it in a browser
  {shown(out / 'trace.json')}     every op of every rank: open it in ui.perfetto.dev
  {shown(out / 'loss.svg')}       the curves above
  docs/ir.md               how to read a program""")
    if difference > 1e-5:
        sys.exit("demo: the losses differ by more than 1e-5")


if __name__ == "__main__":
    main()
