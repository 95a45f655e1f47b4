"""Schedules run on several ranks train as one rank does."""

import subprocess

import pytest
import training


@pytest.fixture(scope="module")
def scheduled(build_dir, model):
    """A model's program in stages with a schedule, beside its weights."""

    def make(name, schedule, ranks, microbatches, chunks=1, split=False):
        source = model(name).program
        path = source.with_name(f"{name}.{schedule}.{ranks}.{chunks}.mlir")
        if not path.exists():
            passes = [f"--outline-stages=count={ranks * chunks} balance=cost"]
            passes += ["--split-backward"] * split
            passes += [
                f"--build-schedule=schedule={schedule} ranks={ranks} microbatches={microbatches}",
                "--insert-p2p", "--verify-schedule"]  # fmt: skip
            command = [build_dir / "bin" / "cleave-opt", source, *passes, "-o", path]
            subprocess.run(command, check=True)
            path.with_suffix(".safetensors").symlink_to(source.with_suffix(".safetensors"))
        return path

    return make


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "text"
    path.write_bytes(bytes(range(32, 127)) * 40)
    return f"text:{path}"


def test_tied_weights_stay_tied(build_dir, model, scheduled, text, tmp_path):
    """The first stage's rank updates the embedding, the last stage's reads it: 20 steps, bitwise."""
    options = ["--steps", 20, "--data", text, "--seed", 3, "--quiet"]
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    source = model("gpt_tied").program
    training.train(build_dir, source, *options, "--microbatches", 4, "--metrics", one)
    path = scheduled("gpt_tied", "1f1b", 2, 4)
    training.train(build_dir, path, *options, "--ranks", 2, "--metrics", two)
    assert training.losses(one) == training.losses(two)
