"""How long cleave-sim takes to predict a step of Llama 3 405B on 16,384 devices: 16 pipeline ranks of 8 chunks.

    .venv/bin/python bench/whole_step.py [--build build] [--program SCHEDULED.mlirbc] [--cluster B200] [--out DIRECTORY]

The program is exported and partitioned as bench/large_models.py does it (some minutes), then cut into 128 stages with an
interleaved schedule of 256 microbatches. --program takes one that is there already. Prints seconds, the least of five
runs: to read and verify the program, to look at its ops, for one prediction (the cost of a further schedule or number of
microbatches), and for all with sensitivities.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from large_models import MODELS, phases
from layers import ROOT

sys.path[:0] = [str(ROOT / "python")]
from cleave import Plan  # noqa: E402

KEY = "llama3-405b"
PASSES = ["--outline-stages=count=128 balance=cost", "--split-fsdp-collectives", "--bucket-gradients=bucket-size-mb=512",
          "--overlap-communication", "--build-schedule=schedule=interleaved-1f1b ranks=16 microbatches=256",
          "--insert-p2p"]  # fmt: skip


def make_program(build, folder):
    model = MODELS[KEY]
    script = pathlib.Path(__file__).with_name("large_models.py")
    subprocess.run([sys.executable, script, "--export", KEY, "--layers", str(model.layers), "--out", folder], check=True)
    plan = folder / "plan.json"
    Plan(model.mesh, model.plan).write(plan)
    layout = phases(model, plan)
    passes = [f"--{each}" for name in ("annotate", "propagate", "partition") for each in layout[name]]
    target = folder / "scheduled.mlirbc"
    subprocess.run([build / "bin/cleave-opt", folder / "program.mlir", *passes, *PASSES, "-o", target], check=True)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--cluster", default="B200")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or pathlib.Path(scratch)
        program = options.program or make_program(options.build, folder)
        runs = []
        for _ in range(5):
            start = time.perf_counter()
            done = subprocess.run([options.build / "bin/cleave-sim", program, f"--cluster={options.cluster}", "--json"],
                                  capture_output=True, text=True, check=True)  # fmt: skip
            step = json.loads(done.stdout)["step"]
            runs.append([step["read_seconds"], step["measure_seconds"], step["predict_seconds"],
                         time.perf_counter() - start])  # fmt: skip
    best = [min(column) for column in zip(*runs)]
    print("| reading and verifying | looking at ops | one prediction | all, with sensitivities |")
    print("| ---: | ---: | ---: | ---: |")
    print("| " + " | ".join(f"{seconds:.3f} s" for seconds in best) + " |")


if __name__ == "__main__":
    main()
