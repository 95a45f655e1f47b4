"""Step time of data-parallel training over Gloo: cleave-run beside DistributedDataParallel.

    .venv/bin/python bench/data_parallel.py [BUILD] [--ranks 2] [--steps 12] [--rounds 3] [--before DIR]

The demo's GPT, with and without accumulation. Rounds of three programs alternate, so that all see
the same machine: gradients reduced one by one, gradients in buckets, and PyTorch. Times are medians
over steps (the first two left out), ratios medians over rounds; losses are compared. A traced step
says how much of the buckets' reductions computation covers. With --before, buckets as an older
checkout (with its build) exports and makes them run in the same rounds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
from cleave import overlap  # noqa: E402

DEMO = ROOT / "examples" / "demo"
WARM_UP = 2


def set_environment():
    """One thread a rank, and the demo's modules for every process that is started."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        map(str, (ROOT / "python", ROOT / "examples", DEMO))
    )


def read(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row["loss"] for row in rows], statistics.median(row["ms"] for row in rows[WARM_UP:])


def train(binary, program, weights, options, microbatches, out, *more):
    texts = subprocess.run(
        [sys.executable, "-c", "import model; print(','.join(model.TEXTS))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    subprocess.run(
        [binary, program, "--weights", weights, "--ranks", str(options.ranks), "--steps",
         str(options.steps), "--microbatches", str(microbatches), "--seed", "0", "--threads", "1",
         "--data", f"text:{texts}", "--metrics", out, *map(str, more)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return read(out)


def train_ddp(options, microbatches, out):
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(options.ranks),
         "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
         DEMO / "reference.py", "--steps", str(options.steps), "--microbatches", str(microbatches), "--metrics", out],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return read(out)


def export(checkout, folder):
    """The demo's program, by the exporter of `checkout`."""
    path = os.pathsep.join(map(str, (checkout / "python", ROOT / "examples", DEMO)))
    subprocess.run(
        [sys.executable, "-m", "cleave.export", f"{DEMO / 'model.py'}:demo", "-o", folder],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    return folder / "gpt.mlir"


def covered(binary, program, weights, options, microbatches, folder):
    """The share of the reductions' time in traced steps that overlaps computation: the mean over ranks."""
    trace = folder / "trace.json"
    train(binary, program, weights, options, microbatches, folder / "traced.jsonl", "--trace", trace,
          "--trace-steps", options.steps)  # fmt: skip
    ranks = overlap.measure(json.loads(trace.read_text())["traceEvents"]).values()
    return statistics.mean(rank.share for rank in ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bucket-size-mb", type=float, default=25)
    parser.add_argument("--before", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    binaries = options.build.resolve() / "bin"
    set_environment()
    buckets = f"--bucket-gradients=bucket-size-mb={options.bucket_size_mb}"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        ways = {"one by one": (ROOT, binaries, []), "buckets": (ROOT, binaries, [buckets])}
        if options.before:
            before = options.before.resolve()
            ways["before"] = (before, before / "build" / "bin", [buckets])
        runs = {}
        for name, (checkout, tools, passes) in ways.items():
            own = folder / name.replace(" ", "-")
            own.mkdir()
            program = own / "dp.mlir"
            subprocess.run(
                [tools / "cleave-opt", export(checkout, own), "--cse", "--canonicalize",
                 "--sync-gradients", *passes, "-o", program], check=True,
            )  # fmt: skip
            runs[name] = (tools / "cleave-run", program, own / "gpt.safetensors")
        others = ["ddp", "one by one", *(["before"] if options.before else [])]
        columns = ["microbatches", *runs, "ddp", *(f"buckets / {other}" for other in others),
                   "reductions covered", "largest difference of losses"]  # fmt: skip
        print(f"{options.ranks} ranks, milliseconds a step (median)\n")
        print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
        for microbatches in (1, 4):
            rounds = []
            for _ in range(options.rounds):
                row = {}
                for name, run in runs.items():
                    row[name] = train(*run, options, microbatches, folder / "metrics.jsonl")
                row["ddp"] = train_ddp(options, microbatches, folder / "ddp.jsonl")
                rounds.append(row)
            times = [statistics.median(row[name][1] for row in rounds) for name in (*runs, "ddp")]
            ratios = [
                statistics.median(row["buckets"][1] / row[other][1] for row in rounds)
                for other in others
            ]
            difference = max(
                abs(a - b) / b for row in rounds for a, b in zip(row["buckets"][0], row["ddp"][0])
            )
            share = covered(*runs["buckets"], options, microbatches, folder)
            cells = [str(microbatches), *(f"{time:.0f}" for time in times),
                     *(f"{ratio:.2f}" for ratio in ratios), f"{100 * share:.0f} %",
                     f"{difference:.1e}"]  # fmt: skip
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
