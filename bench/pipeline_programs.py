"""Exports the pipeline benchmarks' model and makes its scheduled programs."""

import json
import os
import pathlib
import subprocess
import sys

import pipeline_model

ROOT = pipeline_model.ROOT
# Name, stages on a rank, whether its backward is in halves.
SCHEDULES = {
    "gpipe": (1, False),
    "1f1b": (1, False),
    "zb-h1": (1, True),
    "zb-h2": (1, True),
    "looped-bfs": (2, False),
    "interleaved-1f1b": (2, False),
    "interleaved-zero-bubble": (2, True),
    "zbv": (2, True),
    "dualpipev": (2, True),
    "v-half": (2, True),
    "v-min": (2, True),
    "offline": (1, False),
}


class Programs:
    """Makes programs in `folder` with the tools of `build`."""

    def __init__(self, build, folder):
        self.binaries = build.resolve() / "bin"
        self.folder = pathlib.Path(folder)
        os.environ["OMP_NUM_THREADS"] = "1"
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT / "python"), str(ROOT / "examples"), str(ROOT / "bench")]
        )
        subprocess.run(
            [sys.executable, "-m", "cleave.export", f"{ROOT / 'bench' / 'pipeline_model.py'}:step",
             "-o", self.folder],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.source = self.folder / "gpt.mlir"

    def make(self, schedule, ranks, microbatches):
        chunks, split = SCHEDULES[schedule]
        if schedule == "offline":
            ranks, chunks = 1, 2
        cuts = ",".join(pipeline_model.CUTS[ranks * chunks])
        path = self.folder / f"{schedule}.{ranks}.mlir"
        passes = ["--cse", "--canonicalize", f"--outline-stages=at={cuts}"]
        passes += ["--split-backward"] * split
        passes += [
            f"--build-schedule=schedule={schedule} ranks={ranks} microbatches={microbatches}",
            "--insert-p2p", "--verify-schedule",
        ]  # fmt: skip
        subprocess.run(
            [self.binaries / "cleave-opt", self.source, *passes, "-o", path], check=True
        )
        return path

    def train(self, program, ranks, steps, *options):
        """Trains, and gives loss and milliseconds of each step."""
        metrics = self.folder / "metrics.jsonl"
        subprocess.run(
            [self.binaries / "cleave-run", program, "--weights", self.source.with_suffix(".safetensors"),
             "--ranks", str(ranks), "--steps", str(steps), "--threads", "1", "--seed", "0",
             "--data", "text:" + ",".join(pipeline_model.TEXTS), "--metrics", metrics, "--quiet", *options],
            check=True,
        )  # fmt: skip
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [row["loss"] for row in rows], [row["ms"] for row in rows]

    def simulate(self, program, profile):
        output = subprocess.run(
            [self.binaries / "cleave-sim", program, f"--profile={profile}", "--transfers=gloo", "--json"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        return json.loads(output)
