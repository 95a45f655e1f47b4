"""SIGTERM and SIGINT: a run with a checkpoint directory saves first, on all ranks at the same step."""

import json
import os
import re
import signal
import subprocess
import time

import pytest
import training
from combinations_cover import covered

TEXT = "/usr/share/common-licenses/GPL-3"
ENDLESS = 10**8


@pytest.fixture(scope="module")
def subject(model):
    return model("gpt_dropout")


def start(arguments, **variables):
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=training.heed_interrupts,
        env=training.ENVIRONMENT | {name: str(value) for name, value in variables.items()},
    )  # fmt: skip


def wait_for_steps(process, metrics, steps):
    deadline = time.monotonic() + 60
    while not metrics.exists() or metrics.read_text().count("\n") < steps:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def finish(*processes):
    try:
        return [process.communicate(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()


def options(tmp_path, *more, steps=ENDLESS):
    return ["--steps", steps, "--data", f"text:{TEXT}", "--seed", 4, "--batch", 8, "--threads", 1,
            "--checkpoint", tmp_path / "run", "--metrics", tmp_path / "m", "--resume", *more]  # fmt: skip


def assert_saved(tmp_path, errors, sent):
    """One line says so, and the checkpoint is of the last step that ran."""
    name = {signal.SIGTERM: "15 (Terminated)", signal.SIGINT: "2 (Interrupt)"}[sent]
    found = re.fullmatch(
        rf"error: interrupted by signal {re.escape(name)} after step (\d+); saved "
        rf"{re.escape(str(tmp_path))}/run/step-(\d+), from which --resume continues\n",
        errors,
    )
    assert found, errors
    step = int(found[1])
    checkpoint = training.newest_checkpoint(tmp_path / "run")
    assert checkpoint.name == f"step-{found[2]}"
    assert json.loads((checkpoint / "state.json").read_text())["step"] == step
    assert len(training.losses(tmp_path / "m")) == step
    return step


@covered(
    {
        "sent": {"TERM": signal.SIGTERM, "INT": signal.SIGINT},
        "how": ["one", "processes", "threads", "one rank of several", "group"],
    },
    strength=1,
)  # fmt: skip
def test_state_is_saved_first(build_dir, tmp_path, subject, how, sent):
    ranks = [] if how == "one" else ["--ranks", 2, "--ranks-as", "threads" if how == "threads" else "processes"]
    program = subject.for_ranks(build_dir)
    process = start(training.command(build_dir, program, *options(tmp_path, *ranks)))
    wait_for_steps(process, tmp_path / "m", 3)
    if how == "group":  # as a terminal's ^C
        os.killpg(process.pid, sent)
    elif how == "one rank of several":
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            os.kill(int(children.read().split()[1]), sent)
    else:
        process.send_signal(sent)
    ((_, errors),) = finish(process)
    assert process.returncode == 128 + sent, errors
    step = assert_saved(tmp_path, errors, sent)
    # Nothing is lost: the resumed run is the one that was not interrupted.
    more = step + 2
    training.train(build_dir, program, *options(tmp_path, *ranks, steps=more))
    whole = options(tmp_path / "whole", *ranks, steps=more)
    (tmp_path / "whole").mkdir()
    training.train(build_dir, program, *whole)
    assert training.losses(tmp_path / "m") == training.losses(tmp_path / "whole" / "m")


def test_ranks_of_a_launcher_agree_on_the_step(build_dir, tmp_path, subject):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = training.command(build_dir, subject.for_ranks(build_dir), *options(tmp_path))
    processes = [
        start(arguments, RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2,
              MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        for rank in range(2)
    ]  # fmt: skip
    wait_for_steps(processes[0], tmp_path / "m", 2)
    processes[1].send_signal(signal.SIGTERM)
    (_, errors), (_, nothing) = finish(*processes)
    assert [process.returncode for process in processes] == [143, 143]
    assert_saved(tmp_path, errors, signal.SIGTERM)
    assert nothing == ""


def test_second_signal_ends_at_once(build_dir, tmp_path, subject):
    # One step that takes longer than any wait.
    long = options(tmp_path)
    long[long.index("--batch") + 1] = 2 * 10**6
    process = start(training.command(build_dir, subject.program, *long))
    deadline = time.monotonic() + 60
    while not (tmp_path / "m").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    time.sleep(2.1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    ((_, errors),) = finish(process)
    assert process.returncode == -signal.SIGINT, errors
    assert not list((tmp_path / "run").glob("step-*"))


def test_trace_of_an_interrupted_run_is_whole(build_dir, tmp_path, subject):
    trace = ["--trace", tmp_path / "t.json", "--trace-steps", 10**6]
    process = start(training.command(build_dir, subject.program, *options(tmp_path, *trace)))
    wait_for_steps(process, tmp_path / "m", 2)
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert process.returncode == 143
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_without_a_directory_nothing_waits(build_dir, tmp_path, subject):
    arguments = [subject.program, "--steps", ENDLESS, "--data", f"text:{TEXT}", "--metrics", tmp_path / "m",
                 "--trace", tmp_path / "t", "--trace-steps", ENDLESS]  # fmt: skip
    process = start(training.command(build_dir, *arguments))
    wait_for_steps(process, tmp_path / "m", 1)
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert process.returncode == -signal.SIGTERM
    # What was being written is gone.
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
