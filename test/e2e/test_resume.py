"""Checkpoints: a run that is killed at any moment and resumed is the run that was not."""

import os
import random
import signal
import subprocess
import time

import pytest
import torch
from combinations_cover import seed
from safetensors.torch import load_file
from training import (
    ENVIRONMENT, Model, checkpoint_tensors, command, losses, newest_checkpoint, run, train,
)  # fmt: skip

TEXT = "/usr/share/common-licenses/GPL-3"


@pytest.fixture(scope="module")
def dropout(tmp_path_factory):
    """A model that draws random numbers, so that their state matters too."""
    return Model("gpt_dropout", tmp_path_factory.mktemp("gpt_dropout"))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """A model with buffers and momentum."""
    return Model("resnet18", tmp_path_factory.mktemp("resnet18"))


def kill_after(seconds, arguments):
    """Starts the run and kills it and its ranks, unless it ends before; whether it was killed."""
    process = subprocess.Popen(
        arguments, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True, text=True,
    )  # fmt: skip
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0, errors
    return False


@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_at_random_moments(build_dir, tmp_path, dropout, ranks):
    generator = random.Random(seed() * 10 + ranks)
    program = dropout.for_ranks(build_dir)
    every = generator.choice([1, 2, 7])
    options = ["--ranks", ranks, "--steps", 150, "--microbatches", 2, "--seed", 5, "--threads", 1,
               "--data", f"text:{TEXT}"]  # fmt: skip
    start = time.monotonic()
    train(build_dir, program, *options, "--metrics", tmp_path / "whole", "--checkpoint", tmp_path / "w",
          "--checkpoint-every", 50)  # fmt: skip
    whole = time.monotonic() - start
    resumed = [*options, "--metrics", tmp_path / "killed", "--checkpoint", tmp_path / "k",
               "--checkpoint-every", every, "--keep-last", 2, "--resume"]  # fmt: skip
    kills = []
    for _ in range(5):
        moment = generator.uniform(0.1, 1.2) * whole
        if not kill_after(moment, command(build_dir, program, *resumed)):
            break
        kills.append(round(moment, 3))
        checkpoints = sorted((tmp_path / "k").glob("step-*"))
        for checkpoint in checkpoints[-1:]:  # whole, as the package reads it
            assert load_file(checkpoint / "model.safetensors")
            assert load_file(checkpoint / "optimizer.safetensors")
        # One more may stand while the oldest is being removed.
        assert len(checkpoints) <= 3
    print(f"every {every} steps, killed after {kills} s")
    train(build_dir, program, *resumed)
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    found = checkpoint_tensors(newest_checkpoint(tmp_path / "k"))
    expected = checkpoint_tensors(newest_checkpoint(tmp_path / "w"))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[n], expected[n]) for n in expected)
    assert not list((tmp_path / "k").glob(".step-*"))


def test_buffers_and_momentum_continue(build_dir, tmp_path, resnet):
    from training import random_batches, save_batches

    batches = random_batches(resnet.spec, 2, 1, seed())
    data = save_batches(resnet.spec, batches, tmp_path / "data.safetensors")
    options = ["--data", f"safetensors:{data}", "--threads", 1]
    train(build_dir, resnet.program, *options, "--steps", 4, "--metrics", tmp_path / "whole")
    for steps in (2, 4):
        output = train(build_dir, resnet.program, *options, "--steps", steps, "--metrics",
                       tmp_path / "parts", "--checkpoint", tmp_path / "c", "--resume")  # fmt: skip
    assert "resuming after step 2" in output
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


def test_other_number_of_ranks_continues_the_same_batches(build_dir, tmp_path, dropout):
    program = dropout.for_ranks(build_dir)
    options = ["--batch", 8, "--data", f"text:{TEXT}", "--threads", 1]
    train(build_dir, program, *options, "--steps", 8, "--metrics", tmp_path / "whole")
    for ranks, steps in ((2, 4), (1, 6), (4, 8)):
        train(build_dir, program, *options, "--ranks", ranks, "--steps", steps, "--metrics",
              tmp_path / "parts", "--checkpoint", tmp_path / "c", "--resume")  # fmt: skip
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=1e-5)


def test_finished_run_has_nothing_to_do(build_dir, tmp_path, dropout):
    options = ["--steps", 3, "--data", f"text:{TEXT}", "--checkpoint", tmp_path / "c", "--resume",
               "--metrics", tmp_path / "m"]  # fmt: skip
    train(build_dir, dropout.program, *options)
    before = (tmp_path / "m").read_text()
    assert "nothing to do" in train(build_dir, dropout.program, *options)
    assert (tmp_path / "m").read_text() == before


def test_second_run_in_the_directory_is_refused(build_dir, tmp_path, dropout):
    options = ["--data", f"text:{TEXT}", "--checkpoint", tmp_path / "c"]
    first = subprocess.Popen(
        command(build_dir, dropout.program, *options, "--steps", 1_000_000, "--quiet"),
        env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        while not (tmp_path / "c" / ".lock").exists():
            assert first.poll() is None, first.stderr.read()
            time.sleep(0.05)
        time.sleep(0.2)
        second = run(build_dir, dropout.program, *options, "--steps", 1)
    finally:
        first.kill()
        first.communicate()
    assert second.returncode == 1
    assert "another run is writing its checkpoints to this directory" in second.stderr


def test_a_mixture_resumes(build_dir, tmp_path, model):
    """Its order depends on the step alone; other weights are other data."""
    subject = model("gpt_tied")
    text = open(TEXT).read()
    (tmp_path / "a.txt").write_text(text[:9000])
    (tmp_path / "b.txt").write_text(text[9000:12000])

    def options(weight):
        return ["--data", f"mix:{weight}=text:{tmp_path / 'a*'};1=text:{tmp_path / 'b.txt'}", "--seed", 3]

    train(build_dir, subject.program, *options(2), "--steps", 6, "--metrics", tmp_path / "whole")
    resumed = ["--checkpoint", tmp_path / "run", "--resume", "--metrics", tmp_path / "resumed"]
    train(build_dir, subject.program, *options(2), *resumed, "--steps", 3)
    train(build_dir, subject.program, *options(2), *resumed, "--steps", 6)
    assert losses(tmp_path / "resumed") == losses(tmp_path / "whole")
    result = run(build_dir, subject.program, *options(3), *resumed, "--steps", 9)
    assert result.returncode == 1 and "different data or a different order" in result.stderr
    text = run(build_dir, subject.program, *options(2), "--steps", 1, "--metrics", tmp_path / "a.txt")
    assert text.returncode == 1 and "a.txt" in text.stderr  # an input that the pattern stands for
