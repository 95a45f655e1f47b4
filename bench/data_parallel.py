"""Step time of data-parallel training over Gloo: cleave-run beside DistributedDataParallel.

    .venv/bin/python bench/data_parallel.py [BUILD] [--ranks 2] [--steps 12] [--rounds 3]

The demo's GPT, with and without accumulation. Rounds of three programs alternate, so that all see
the same machine: gradients reduced one by one, gradients in buckets, and PyTorch. Times are medians
over steps (the first two left out), ratios medians over rounds; losses are compared.
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
DEMO = ROOT / "examples" / "demo"
WARM_UP = 2


def read(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row["loss"] for row in rows], statistics.median(row["ms"] for row in rows[WARM_UP:])


def train(binary, program, weights, options, microbatches, out):
    texts = subprocess.run(
        [sys.executable, "-c", "import model; print(','.join(model.TEXTS))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    subprocess.run(
        [binary, program, "--weights", weights, "--ranks", str(options.ranks), "--steps",
         str(options.steps), "--microbatches", str(microbatches), "--seed", "0", "--threads", "1",
         "--data", f"text:{texts}", "--metrics", out],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return read(out)


def train_ddp(options, microbatches, out):
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(options.ranks),
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", DEMO / "reference.py",
         "--steps", str(options.steps), "--microbatches", str(microbatches), "--metrics", out],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return read(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    binaries = options.build.resolve() / "bin"
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        map(str, (ROOT / "python", ROOT / "examples", DEMO))
    )
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run(
            [sys.executable, "-m", "cleave.export", f"{DEMO / 'model.py'}:demo", "-o", folder],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        programs = {}
        for name, passes in (("one by one", []), ("buckets", ["--bucket-gradients"])):
            programs[name] = folder / f"{name.replace(' ', '-')}.mlir"
            subprocess.run(
                [binaries / "cleave-opt", folder / "gpt.mlir", "--cse", "--canonicalize",
                 "--sync-gradients", *passes, "-o", programs[name]], check=True,
            )  # fmt: skip
        print(f"{options.ranks} ranks, milliseconds a step (median)\n")
        print("| microbatches | one by one | buckets | DDP | buckets / DDP | buckets / one by one "
              "| largest difference of losses |")  # fmt: skip
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for microbatches in (1, 4):
            rounds = []
            for _ in range(options.rounds):
                row = {}
                for name, program in programs.items():
                    row[name] = train(binaries / "cleave-run", program,
                                      folder / "gpt.safetensors", options, microbatches,
                                      folder / "metrics.jsonl")  # fmt: skip
                row["ddp"] = train_ddp(options, microbatches, folder / "ddp.jsonl")
                rounds.append(row)
            times = {name: statistics.median(row[name][1] for row in rounds) for name in rounds[0]}
            ratios = [
                statistics.median(row["buckets"][1] / row[other][1] for row in rounds)
                for other in ("ddp", "one by one")
            ]
            difference = max(
                abs(a - b) / b for row in rounds for a, b in zip(row["buckets"][0], row["ddp"][0])
            )
            print(f"| {microbatches} | {times['one by one']:.0f} | {times['buckets']:.0f} | "
                  f"{times['ddp']:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} | {difference:.1e} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
