"""The schedule outside of the tree (examples/out-of-tree-schedule): loaded into cleave-opt, and as
docs/schedules.md shows it."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "examples" / "out-of-tree-schedule" / "Sequential.cpp"


def cleave_opt(build_dir, *arguments):
    return subprocess.run([build_dir / "bin" / "cleave-opt", "-", *arguments], input="module {}",
                          capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="session")
def plugin(build_dir):
    [module] = build_dir.rglob("libsequential_schedule.so")
    return f"--load-pass-plugin={module}"


def test_passes_build_complete_and_prove_it(build_dir, plugin):
    done = cleave_opt(build_dir, plugin, "--build-schedule=schedule=sequential ranks=2 microbatches=2",
                      "--insert-p2p", "--verify-schedule")
    assert done.returncode == 0, done.stderr
    assert "rank 0: recvB0.0 F0.0 sendF0.0 B0.0 recvB0.1 F0.1 sendF0.1 B0.1" in done.stdout
    assert "rank 1: recvF1.0 F1.0 recvF1.1 B1.0 sendB1.0 F1.1 B1.1 sendB1.1" in done.stdout


def test_the_simulator_knows_it(build_dir, plugin, tmp_path):
    """Four passes of each of two microbatches, nothing at the same time; and the search may use it."""
    def simulate(*arguments):
        done = subprocess.run([build_dir / "bin" / "cleave-sim", *arguments, "--ranks=2", "--microbatches=2",
                               "--costs=1,1,1,0"], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    file = tmp_path / "sequential.txt"
    status, output = simulate(plugin, "--schedule=sequential", "-o", file)
    assert status == 0 and "makespan 12.000" in output, output
    assert "rank 0: F0.0 B0.0 F0.1 B0.1" in file.read_text()
    status, output = simulate(plugin, "--compare=sequential,1f1b")
    assert status == 0 and "sequential" in output and "1f1b" in output, output
    status, output = simulate("--schedule=sequential")
    assert status == 1 and "there is no schedule or file named 'sequential'" in output
    status, output = simulate("--load-pass-plugin=none.so", "--schedule=1f1b")
    assert status == 1 and "error: --load-pass-plugin: " in output and "none.so" in output


def test_its_errors_are_those_of_every_schedule(build_dir, plugin):
    done = cleave_opt(build_dir, plugin, "--build-schedule=schedule=sequential ranks=2 microbatches=0")
    assert done.returncode != 0
    assert "microbatch" in done.stderr


def test_without_the_module_there_is_no_such_schedule(build_dir):
    done = cleave_opt(build_dir, "--build-schedule=schedule=sequential ranks=2 microbatches=2")
    assert done.returncode != 0
    assert "sequential" in done.stderr and "1f1b" in done.stderr


def test_the_page_shows_the_example():
    page = (ROOT / "docs" / "schedules.md").read_text()
    section = page[page.index("## A schedule of your own"):page.index("## Cost")]
    blocks = re.findall(r"```c\+\+\n(.*?)```", section, re.S)
    assert len(blocks) >= 3
    source = " ".join(SOURCE.read_text().split())
    for block in blocks:
        assert " ".join(block.split()) in source, block
