"""Time of a training step on the CPU: cleave-run beside PyTorch eager and torch.compile.

    .venv/bin/python bench/training_step.py [BUILD] [--rounds 5] [--steps 8] [--threads 1]

The demo's GPT and a Llama of Hugging Face, in fp32, with AdamW (PyTorch's fused one on all sides).
All sides begin with the same weights and read the same data; in each round each of them trains a few
steps from the beginning, so that all see the same machine. Times are medians over steps (the first
two left out), ratios medians over rounds. Losses of all steps are compared with eager's. What each
side does before its first step, compiling and exporting, is timed apart.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples"), str(ROOT / "examples" / "demo")]

import torch  # noqa: E402

import cleave  # noqa: E402
import gpt  # noqa: E402
import huggingface  # noqa: E402
import model as demo  # noqa: E402
from cleave.data import TextBatches  # noqa: E402

WARM_UP = 2
CLEAN = ["--cse", "--canonicalize"]
# cleave-run on what these passes make; the first is what the others are compared with.
PIPELINES = {
    "Cleave, op by op": CLEAN,
    "Cleave, kernels": [*CLEAN, "--fuse-kernels", "--compile-kernels"],
    "Cleave, kernels, planned memory": [
        *CLEAN, "--fuse-kernels", "--compile-kernels", "--lower-to-exec=target=cpu"],
}  # fmt: skip


def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, fused=True)


def make_gpt():
    torch.manual_seed(0)
    return gpt.GPT(demo.CONFIG), (4, demo.CONFIG.context)


def make_llama():
    return huggingface.NextToken(huggingface._llama(4, width=128)).train(), (8, 64)


MODELS = {"gpt": make_gpt, "llama": make_llama}


class Torch:
    """Training in this process, eager or compiled."""

    def __init__(self, make, batches, compile):
        self.module, _ = make()
        self.start = {k: v.clone() for k, v in self.module.state_dict().items()}
        self.batches = batches
        self.loss = lambda tokens, targets: gpt.cross_entropy(self.module(tokens), targets)
        if compile:
            self.loss = torch.compile(self.loss)

    def train(self, steps):
        """Losses and milliseconds of each step, from the first."""
        with torch.no_grad():
            self.module.load_state_dict(self.start)
        optimizer = make_optimizer(self.module.parameters())
        losses, times = [], []
        for step in range(1, steps + 1):
            tokens, targets = self.batches.microbatch(step)
            begin = time.perf_counter()
            loss = self.loss(tokens, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            times.append(1e3 * (time.perf_counter() - begin))
        return losses, times


class Cleave:
    """Training by cleave-run."""

    def __init__(self, tools, source, passes, threads):
        self.tools, self.threads, self.weights = tools, threads, source.with_suffix(".safetensors")
        self.program = source.with_suffix(f".{len(passes)}.mlirbc")
        self.metrics = self.program.with_suffix(".jsonl")
        begin = time.perf_counter()
        command = [tools / "cleave-opt", source, *passes, "--emit-bytecode", "-o", self.program]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        self.seconds = time.perf_counter() - begin

    def train(self, steps):
        command = [self.tools / "cleave-run", self.program, "--weights", self.weights,
                   "--data", "text:" + ",".join(demo.TEXTS), "--steps", str(steps), "--seed", "0",
                   "--threads", str(self.threads), "--quiet", "--metrics", self.metrics]  # fmt: skip
        subprocess.run(command, check=True)
        rows = [json.loads(line) for line in self.metrics.read_text().splitlines()]
        return [row["loss"] for row in rows], [row["ms"] for row in rows]


def compare(name, options, folder):
    make = MODELS[name]
    module, shape = make()
    tokens = torch.zeros(shape, dtype=torch.int64)
    begin = time.perf_counter()
    source = cleave.export(module, (tokens,), loss=gpt.cross_entropy, targets=(tokens,), name=name,
                           optimizer=make_optimizer, out=folder)  # fmt: skip
    exported = time.perf_counter() - begin
    batches = TextBatches(demo.TEXTS, *shape, 1, 1, 0)

    sides = {"PyTorch eager": Torch(make, batches, False), "torch.compile": Torch(make, batches, True)}
    begin = time.perf_counter()
    sides["torch.compile"].train(1)
    print(f"{name}: {sum(p.numel() for p in module.parameters()) / 1e6:.2f} M parameters, "
          f"{shape[0]} x {shape[1]} tokens a step, {options.threads} thread(s). "
          f"torch.compile's first step: {time.perf_counter() - begin:.0f} s; export: {exported:.0f} s", end="")  # fmt: skip
    tools = options.build.resolve() / "bin"
    for pipeline in options.pipelines:
        sides[pipeline] = Cleave(tools, source, PIPELINES[pipeline], options.threads)
        print(f"; {pipeline}: {sides[pipeline].seconds:.1f} s", end="")
    print(".\n")

    rounds = [{side: runner.train(options.steps) for side, runner in sides.items()}
              for _ in range(options.rounds)]  # fmt: skip
    print("| | ms a step | eager takes | torch.compile takes | largest difference of losses |")
    print("| --- | ---: | ---: | ---: | ---: |")
    middle = {side: [statistics.median(row[side][1][WARM_UP:]) for row in rounds] for side in sides}
    expected = rounds[0]["PyTorch eager"][0]
    for side in sides:
        ratios = [statistics.median(b / a for a, b in zip(middle[side], middle[other]))
                  for other in ("PyTorch eager", "torch.compile")]  # fmt: skip
        difference = max(abs(a - b) / b for row in rounds for a, b in zip(row[side][0], expected))
        print(f"| {side} | {statistics.median(middle[side]):.1f} | {ratios[0]:.2f} x | "
              f"{ratios[1]:.2f} x | {difference:.1e} |")  # fmt: skip
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--pipelines", nargs="+", choices=PIPELINES, default=list(PIPELINES))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            compare(name, options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
