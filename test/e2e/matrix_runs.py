"""What the standing matrix and the table of models share: a program through a documented command, trained, and
held against the same training on one rank."""

import json
import math
import pathlib
import re
import shutil
import statistics
import subprocess

import torch
from cleave_run import CleaveRun
from training import checkpoint_group

PLACING = ("--annotate-placements", "--propagate-placements", "--partition")
ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, TOLERANCE = 2, 1e-9


class ToolFailed(AssertionError):
    """A tool did not succeed."""

    def __init__(self, result):
        self.returncode, self.stderr = result.returncode, result.stderr
        super().__init__(f"{' '.join(map(str, result.args))}\n{result.stderr[:4000]}")


def placed(options, plan):
    """The options with the placing ones naming this plan, and in front where the command has none."""
    # The mesh is the plan's as well.
    named = {option.split("=")[0]: re.sub(r" mesh=\S+", "", option) for option in options if option.split("=")[0] in PLACING}
    steps = [f"{PLACING[0]}=plan={plan}", *(named.get(pass_, pass_) for pass_ in PLACING[1:])]
    at = next((i for i, option in enumerate(options) if option.split("=")[0] in named), options.count("--autodiff"))
    others = [option for option in options if option.split("=")[0] not in named]
    return [*others[:at], *steps, *others[at:]]


class Tools:
    """cleave-opt and cleave-run of a build; each call ends within so many seconds."""

    def __init__(self, build, timeout=120):
        self.build, self.timeout = build, timeout
        self.run = CleaveRun(build)

    def opt(self, source, output, options):
        # Documents name files from the root.
        options = [str(option).replace("=examples/", f"={ROOT}/examples/") for option in options]
        command = [self.build / "bin" / "cleave-opt", source, "--mlir-print-debuginfo", *options, "-o", output]
        result = subprocess.run(command, capture_output=True, text=True, cwd=output.parent, timeout=self.timeout)
        if result.returncode:
            raise ToolFailed(result)
        weights = output.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(source.with_suffix(".safetensors"))
        return output

    def train(self, program, data, *options):
        """Losses, and the tensors of the checkpoint."""
        metrics, checkpoint = program.with_suffix(".jsonl"), program.with_suffix(".checkpoint")
        result = self.run(
            program, "--steps", STEPS, "--seed", 3, "--threads", 1, "--quiet", "--metrics", metrics,
            "--checkpoint", checkpoint, "--data", f"safetensors:{data}", *options, timeout=self.timeout,
        )  # fmt: skip
        if result.returncode:
            raise ToolFailed(result)
        newest, tensors = max(checkpoint.glob("step-*")), {}
        for group in ("model", "loss", "optimizer"):
            tensors |= {f"{group}.{name}": tensor for name, tensor in checkpoint_group(newest, group).items()}
        shutil.rmtree(checkpoint)
        losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
        return [math.nan if loss is None else loss for loss in losses], tensors


def on_ranks(ranks):
    """Options of cleave-run."""
    return ["--ranks", ranks, "--ranks-as", "threads", "--timeout", 60] if ranks > 1 else []


def without_running_statistics(tensors):
    """What ranks have in common that share gradients alone, without types."""
    return {name: t for name, t in tensors.items() if not re.search(r"\.(running_|num_batches)", name)}


def difference(found, expected):
    """The largest relative difference of two checkpoints' tensors, and its name; as `--against` measures it: what is
    far below the median of its file (a mean that is 0 but for rounding) is measured by that. What is no number
    differs without bound."""
    assert found.keys() == expected.keys()
    found, expected = ({name: _real(t) for name, t in tensors.items()} for tensors in (found, expected))
    floats = {name: t.double() for name, t in expected.items() if t.is_floating_point() and t.numel()}
    sizes = {name: t.abs().max().item() for name, t in floats.items()}
    files = {name.split(".")[0] for name in floats}
    floors = {f: 1e-3 * statistics.median(s for n, s in sizes.items() if n.split(".")[0] == f) for f in files}
    distances = {}
    for name, tensor in floats.items():
        unit = max(sizes[name], floors[name.split(".")[0]])
        distance = (found[name].double() - tensor).abs().max().item()
        distance = distance / unit if unit else distance
        distances[name] = math.inf if math.isnan(distance) else distance
    for name in expected.keys() - floats.keys():
        assert found[name].equal(expected[name]), name
    worst = max(distances, key=distances.get)
    return distances[worst], worst


def _real(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
