"""What the tests of pipeline execution share: scheduled programs, and the data that they read."""

import json
import re
import subprocess

import pytest
import torch
from cleave import testing
from safetensors.torch import save_file

MICROBATCHES = 4
# Those of several ranks.
SCHEDULES = [
    "gpipe", "looped-bfs", "1f1b", "interleaved-1f1b", "interleaved-zero-bubble", "zb-h1", "zb-h2", "zbv", "dualpipev",
    "v-half", "v-min",
]  # fmt: skip
# Those that part the backward, and those with two stages a rank.
SPLIT = {"interleaved-zero-bubble", "zb-h1", "zb-h2", "zbv", "dualpipev", "v-half", "v-min"}
CHUNKED = {"looped-bfs", "interleaved-1f1b", "interleaved-zero-bubble"} | {
    "zbv", "dualpipev", "v-half", "v-min"}  # fmt: skip


def schedule_passes(schedule, ranks, microbatches=MICROBATCHES, stages=None, more=()):
    """Options of cleave-opt that put a program into stages and give it a schedule."""
    stages = stages or f"count={ranks * (2 if schedule in CHUNKED else 1)} balance=cost"
    passes = [f"--outline-stages={stages}"]
    passes += ["--split-backward"] * (schedule in SPLIT)
    return [
        *passes, *more,
        f"--build-schedule=schedule={schedule} ranks={ranks} microbatches={microbatches}",
        "--insert-p2p", "--verify-schedule"]  # fmt: skip


class Pipelines:
    """Makes scheduled programs beside their weights, each once."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def make(self, source, name, *passes):
        path = self.folder / f"{name}.mlir"
        if not path.exists():
            command = [self.build / "bin" / "cleave-opt", source, *passes, "-o", path]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
            path.with_suffix(".safetensors").symlink_to(source.with_suffix(".safetensors"))
        return path

    def schedule(self, source, schedule, ranks, **options):
        name = f"{source.stem}.{schedule}.{ranks}.{options.get('microbatches', MICROBATCHES)}"
        return self.make(source, name, *schedule_passes(schedule, ranks, **options))

    def edited(self, path, name, edit):
        """A copy of a program, with its text changed."""
        copy = path.with_name(f"{name}.mlir")
        text = path.read_text()
        changed = edit(text)
        assert changed != text
        copy.write_text(changed)
        weights = copy.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(path.with_suffix(".safetensors").resolve())
        return copy


@pytest.fixture(scope="module")
def pipelines(build_dir, tmp_path_factory):
    return Pipelines(build_dir, tmp_path_factory.mktemp("pipelines"))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "text"
    path.write_bytes(bytes(range(32, 127)) * 40)
    return f"text:{path}"


def check_sequence(trace, program):
    """In the one step of a trace, each rank did what its schedule says, in that order."""
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    events.sort(key=lambda event: event["ts"])
    written = program.read_text()
    lists = re.findall(r"rank \d+: ((?:(?!rank \d+:)[^}])*)", written[written.index("pipeline.schedule"):])
    assert len(lists) > 1
    for rank, actions in enumerate(each.split() for each in lists):
        names = [event["name"] for event in events if event["pid"] == rank]
        assert [name for name in names if name in set(actions)] == actions
        assert any(name.startswith("recv") for name in actions)


def write_batch(spec, path, microbatches=MICROBATCHES, seed=1):
    """A file with the examples of some microbatches, for --inputs."""
    generator = torch.Generator().manual_seed(seed)
    batch = testing.random_batch(spec, microbatches, generator)
    save_file({name: tensor.contiguous() for name, tensor in batch.items()}, path)
    return path
