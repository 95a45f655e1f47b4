"""What the tests of cleave-run's training share: exported models, runs, and what a run leaves."""

import copy
import json
import os
import pathlib
import signal
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "python"))
import cleave_path  # noqa: E402,F401

import torch  # noqa: E402
from exported_models import MODELS, export_model  # noqa: E402,F401

from cleave import testing  # noqa: E402
from cleave.export.roles import State  # noqa: E402
from cleave.parts import PARTS_INDEX, read_parts  # noqa: E402
from cleave.tensor_files import load_file, save_file  # noqa: E402

# Bitwise comparisons take one thread: some sums depend on how they are divided.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


class Model:
    """A model's spec, exported: the program and its weights beside it."""

    def __init__(self, name, folder):
        self.spec, self.program = export_model(name, folder)
        self.weights = self.program.with_suffix(".safetensors")

    def for_ranks(self, build):
        """The program with gradients summed over the ranks, for any number of them."""
        path = self.program.with_name(self.program.stem + ".dp.mlir")
        if not path.exists():
            subprocess.run(
                [build / "bin" / "cleave-opt", self.program, "--sync-gradients=axis=dp",
                 "--mlir-print-debuginfo", "-o", path],
                check=True,
            )
            path.with_suffix(".safetensors").symlink_to(self.weights)
        return path


def heed_interrupts():
    """In a child: a shell's job in the background would ignore SIGINT, and so would the program."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def command(build, program, *options):
    return [str(part) for part in (build / "bin" / "cleave-run", program, *options)]


def optimize(build, program, *options):
    """Runs cleave-opt, which must succeed."""
    subprocess.run([str(part) for part in (build / "bin" / "cleave-opt", program, *options)], check=True)


def run(build, program, *options, timeout=300):
    """Runs cleave-run to its end, whatever that is."""
    return subprocess.run(
        command(build, program, *options),
        capture_output=True, text=True, errors="replace", env=ENVIRONMENT, timeout=timeout,
    )  # fmt: skip


def train(build, program, *options):
    """Runs cleave-run, which must succeed; its standard output."""
    result = run(build, program, *options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def read_metrics(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses(path):
    return [row["loss"] for row in read_metrics(path)]


def newest_checkpoint(directory):
    return max(directory.glob("step-*"))


def checkpoint_group(path, group="model"):
    """The whole tensors of a checkpoint's "model", "loss" or "optimizer", whichever ranks have written them."""
    if (path / PARTS_INDEX).exists():
        return read_parts(path / PARTS_INDEX, group)
    file = path / f"{group}.safetensors"
    return load_file(file) if file.exists() or group != "loss" else {}


def checkpoint_tensors(path):
    """A checkpoint's tensors under the names that cleave.testing.train gives them."""
    tensors = {f"state.{n}": t for n, t in checkpoint_group(path).items()}
    return tensors | {f"optim.{n}": t for n, t in checkpoint_group(path, "optimizer").items()}


def expected_tensors(training, spec):
    """What cleave.testing.train has of those, in the same form."""
    transient = State(spec).transient
    renamed = {}
    for name, tensor in training.tensors.items():
        kind, rest = name.split(".", 1)
        if rest not in transient:
            renamed[("optim." if kind == "optim" else "state.") + rest] = tensor
    return renamed


def load_strictly(spec, checkpoint):
    """The spec's module with a checkpoint's state: its own copy."""
    module = copy.deepcopy(spec.module)
    module.load_state_dict(checkpoint_group(checkpoint), strict=True)
    return module


def random_batches(spec, steps, microbatches, seed):
    generator = torch.Generator().manual_seed(seed)
    return [testing.random_batch(spec, microbatches, generator) for _ in range(steps)]


def save_batches(spec, batches, path):
    """Writes the steps' batches one after another, as --data safetensors: reads them."""
    joined = {}
    for source in testing.Signature(spec).inputs:
        values = [batch[source.name] for batch in batches]
        joined[source.name] = values[0] if source.batch is None else torch.cat(values, source.batch)
    save_file({n: t.contiguous() for n, t in joined.items()}, path)
    return path
