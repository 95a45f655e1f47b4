"""A rank that is killed or stopped between steps, or within one: the other one's step is one exception, and no hang."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import cleave_path  # noqa: F401
import pytest
import stopped_ranks

SCRIPT = pathlib.Path(__file__).with_name("stopped_ranks.py")


def run(mode, folder):
    """What rank 0 ends in."""
    ranks = subprocess.Popen([sys.executable, SCRIPT, mode, folder], stderr=subprocess.PIPE, start_new_session=True)
    try:
        _, said = ranks.communicate(timeout=240)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(ranks.pid, signal.SIGKILL)
        ranks.wait()
    assert ranks.returncode == 0, said.decode()[-4000:]
    return json.loads((folder / "found.json").read_text())


def test_a_rank_that_is_killed_within_a_step(tmp_path):
    """Of a pipeline. Its connections are closed, which the other one sees at once; test_compile_step_ranks.py: between steps."""
    found, seconds = run("pipeline-killed", tmp_path)
    assert found.startswith("Error: ") and "failed on rank 0: " in found and "\n  File" not in found
    assert seconds < stopped_ranks.TIMEOUT


@pytest.mark.parametrize("mode", ["fsdp-stopped", "pipeline-stopped"])
def test_a_rank_that_is_stopped(tmp_path, mode):
    """Its connections stay: the other one waits for its timeout, and not for much longer."""
    found, seconds = run(mode, tmp_path)
    assert found.startswith("Error: rank 0 has lost another rank before a step: ")
    assert f"it did not complete within {stopped_ranks.TIMEOUT} s; a rank is lost, stuck or in another operation" in found
    assert seconds < 3 * stopped_ranks.TIMEOUT


def test_an_interrupt_while_a_rank_is_stopped(tmp_path):
    """Ctrl-C comes after a second, and is raised within two."""
    found, seconds = run("pipeline-stopped-interrupted", tmp_path)
    assert found.startswith("KeyboardInterrupt") and seconds < 3


@pytest.mark.parametrize("layout", ["data", "pipeline"])
def test_no_thread_of_a_group_is_left_when_python_ends(tmp_path, layout):
    """One that gives back a tensor of Python's then would abort the process."""
    command = [sys.executable, SCRIPT.with_name("ending_ranks.py")]
    ranks = [subprocess.Popen([*command, str(rank), layout, tmp_path], stderr=subprocess.PIPE) for rank in range(2)]
    for rank, process in enumerate(ranks):
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said.decode()[-4000:]
        during, after = json.loads((tmp_path / f"{rank}.json").read_text())
        assert during > 0 and after == 0
