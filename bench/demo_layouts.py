"""Step time of the demo's training by its layout, beside DistributedDataParallel.

    .venv/bin/python bench/demo_layouts.py [BUILD] [--steps 16] [--rounds 5]

The same examples in every step: the demo's two pipelines of two stages (4 ranks), its program in
two and in four data-parallel ranks, and PyTorch on two and on four ranks. Rounds alternate, so that
all see the same machine. Times are medians over steps (the first two left out) and then over rounds;
ratios are taken by round. "ms of processor" is what all processes of a run took, start-up left out:
the difference between a run of all steps and a run of two, divided by the steps between them.
"""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import types

import data_parallel
from data_parallel import DEMO, ROOT, WARM_UP

sys.path.insert(0, str(DEMO))
import model  # noqa: E402

KERNELS = ["--fuse-kernels", "--compile-kernels", "--lower-to-exec"]
SUMS = ["--sync-gradients", "--bucket-gradients"]
PIPELINES = [
    f"--outline-stages=count={model.STAGES} balance=cost",
    f"--sync-gradients=axis=dp size={model.REPLICAS}", "--bucket-gradients",
    f"--build-schedule=schedule=1f1b ranks={model.STAGES} microbatches={model.MICROBATCHES}",
    "--insert-p2p", "--verify-schedule",
]  # fmt: skip
# Rows of a step: replicas x microbatches x rows of a microbatch, equal in every layout.
LAYOUTS = {
    "pipelines, 4 ranks": (PIPELINES, model.STAGES * model.REPLICAS, model.MICROBATCHES),
    "data-parallel, 2 ranks": (SUMS, model.REPLICAS, model.MICROBATCHES),
    "data-parallel, 4 ranks": (SUMS, 2 * model.REPLICAS, model.MICROBATCHES // 2),
}
PEERS = {
    "DDP, 2 ranks": (model.REPLICAS, model.MICROBATCHES),
    "DDP, 4 ranks": (2 * model.REPLICAS, model.MICROBATCHES // 2),
}


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(run, steps):
    """Losses, median ms of a step, and ms of processor a step, of `run(steps)`."""
    start = processor_seconds()
    run(WARM_UP + 1)
    short = processor_seconds() - start
    losses, milliseconds = run(steps)
    whole = processor_seconds() - start - short
    return losses, milliseconds, 1e3 * (whole - short) / (steps - WARM_UP - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    binaries = options.build.resolve() / "bin"
    data_parallel.set_environment()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        exported, metrics = data_parallel.export(ROOT, folder), folder / "metrics.jsonl"
        runs = {}
        for number, (name, (passes, ranks, microbatches)) in enumerate(LAYOUTS.items()):
            program = folder / f"{number}.mlir"
            subprocess.run(
                [binaries / "cleave-opt", exported, "--cse", "--canonicalize", *passes, *KERNELS,
                 "-o", program], check=True,
            )  # fmt: skip
            weights = folder / "gpt.safetensors"

            def train(steps, program=program, ranks=ranks, microbatches=microbatches):
                return data_parallel.train(
                    binaries / "cleave-run", program, weights,
                    types.SimpleNamespace(ranks=ranks, steps=steps), microbatches, metrics,
                )  # fmt: skip

            runs[name] = train
        for name, (ranks, microbatches) in PEERS.items():

            def train(steps, ranks=ranks, microbatches=microbatches):
                return data_parallel.train_ddp(
                    types.SimpleNamespace(ranks=ranks, steps=steps), microbatches, metrics
                )

            runs[name] = train
        rounds = [
            {name: measure(run, options.steps) for name, run in runs.items()}
            for _ in range(options.rounds)
        ]
    base = next(iter(PEERS))
    print(f"{os.cpu_count()} cores, {options.rounds} rounds of {options.steps} steps\n")
    print(f"| layout | ms a step | beside {base} | ms of processor a step | beside {base} "
          "| largest difference of losses |\n|" + " --- |" * 6)  # fmt: skip
    for name in runs:
        cells = [name]
        for column in (1, 2):
            cells.append(f"{statistics.median(row[name][column] for row in rounds):.0f}")
            ratio = statistics.median(row[name][column] / row[base][column] for row in rounds)
            cells.append(f"{ratio:.2f}")
        difference = max(
            abs(a - b) / b for row in rounds for a, b in zip(row[name][0], row[base][0])
        )
        print(f"| {' | '.join([*cells, f'{difference:.1e}'])} |")


if __name__ == "__main__":
    main()
