"""What would wait for ever ends by --timeout, or is refused at once."""

import os
import socket
import time

import pytest
import training

TEXT = "/usr/share/common-licenses/GPL-3"


@pytest.fixture(scope="module")
def subject(model):
    return model("gpt_tied")


def run(build_dir, *arguments, **variables):
    """The status, errors and seconds of a run that must not take long."""
    begin = time.monotonic()
    result = training.subprocess.run(
        training.command(build_dir, *arguments), capture_output=True, text=True, timeout=30,
        env=training.ENVIRONMENT | {name: str(value) for name, value in variables.items()},
    )  # fmt: skip
    return result.returncode, result.stderr, time.monotonic() - begin


def test_silent_stranger_on_the_port(build_dir, subject):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        status, errors, seconds = run(
            build_dir, subject.for_ranks(build_dir), "--steps", 1, "--data", f"text:{TEXT}", "--timeout", 2,
            RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
        )  # fmt: skip
    assert status == 76 and seconds < 15
    assert errors == (
        f"rank 1: error: 127.0.0.1:{port} accepts connections but did not respond as the ranks' rendezvous "
        "within 2 s: another program may be using the port\n"
    )


@pytest.mark.parametrize("option", ["--data=text:", "--data=u16:", "--data=safetensors:", "--weights="])
def test_named_pipe_that_nobody_writes_to(build_dir, subject, tmp_path, option):
    os.mkfifo(tmp_path / "pipe")
    data = [] if option.startswith("--data") else ["--data", f"text:{TEXT}"]
    status, errors, seconds = run(build_dir, subject.program, "--steps", 1, *data, f"{option}{tmp_path}/pipe")
    assert status == 1 and seconds < 15
    assert f"error: {tmp_path}/pipe: expected a file, found something that is not a regular file" in errors


@pytest.mark.parametrize("threads", [100000, 0, -1])
@pytest.mark.parametrize("ranks", [1, 2])
def test_threads_that_no_machine_has(build_dir, subject, threads, ranks):
    status, errors, seconds = run(
        build_dir, subject.for_ranks(build_dir), "--steps", 1, "--data", f"text:{TEXT}", "--ranks", ranks,
        f"--threads={threads}",
    )  # fmt: skip
    assert status == 1 and seconds < 15
    assert errors.endswith(f"error: --threads: expected a number from 1 to 1024, found {threads}\n")
    assert errors.count("\n") == 1
