"""What a run shows on a terminal: progress on a line of its own, cut to the width, and errors once."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest
import training

TEXT = "/usr/share/common-licenses/GPL-3"


@pytest.fixture(scope="module")
def subject(model):
    return model("gpt_tied")


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, arguments, columns=80):
        self.main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(arguments, stdin=other, stdout=other, stderr=other,
                                        env=training.ENVIRONMENT, start_new_session=True,
                                        preexec_fn=training.heed_interrupts)  # fmt: skip
        os.close(other)
        self.text = ""

    def read(self, until=None, timeout=60):
        """Reads to the end, or until the text has been seen."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not (until and until in self.text):
            try:
                part = os.read(self.main, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            self.text += part.decode(errors="replace")
        return self

    def finish(self):
        self.read()
        status = self.process.wait(timeout=60)
        os.close(self.main)
        return status

    def lines(self):
        """What the terminal shows in the end, a line each; a rewritten line as it was last."""
        shown = []
        for line in self.text.replace("\r\n", "\n").split("\n"):
            shown.append(line.split("\r")[-1].replace("\x1b[K", ""))
        return shown

    def assert_apart(self):
        for line in self.lines():
            assert line.startswith("step ") or not re.search(r"step \d+/", line), self.lines()
            assert not re.search(r"ETA \d+:\d+[^\d:]", line), self.lines()


def command(build, program, *options):
    return training.command(build, program, "--data", f"text:{TEXT}", *options)


def test_last_line_of_a_lowered_program_stands_alone(build_dir, subject):
    path = subject.program.with_name("shown.mlir")
    training.optimize(build_dir, subject.program, "--lower-to-exec", "-o", path)
    terminal = Terminal(command(build_dir, path, "--weights", subject.weights, "--steps", 5), columns=100)
    assert terminal.finish() == 0
    terminal.assert_apart()
    assert [line for line in terminal.lines() if line.startswith("memory: ")], terminal.text
    assert [line for line in terminal.lines() if line.startswith("step 5/5  loss ")], terminal.text


@pytest.mark.parametrize("columns", [40, 20])
def test_narrow_terminal_has_one_line(build_dir, subject, columns):
    terminal = Terminal(command(build_dir, subject.program, "--steps", 20), columns=columns)
    assert terminal.finish() == 0
    shown = [part for part in re.split(r"[\r\n]+", terminal.text) if part.startswith("step ")]
    assert len(shown) == 20
    assert all(len(part.replace("\x1b[K", "")) < columns for part in shown)
    assert sum(line.startswith("step ") for line in terminal.lines()) == 1


def test_warning_stands_alone(build_dir, subject):
    terminal = Terminal(command(build_dir, subject.program, "--steps", 4, "--lr", 1e30), columns=100)
    assert terminal.finish() == 0
    terminal.assert_apart()
    assert any(re.match(r"warning: step \d: the loss is (nan|inf)", line) for line in terminal.lines()), terminal.text


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("saves", [False, True])
def test_interrupt_stands_alone(build_dir, tmp_path, subject, ranks, saves):
    more = ["--checkpoint", tmp_path / "run"] if saves else []
    terminal = Terminal(command(build_dir, subject.for_ranks(build_dir), "--steps", 10**8, "--ranks", ranks, *more),
                        columns=100)  # fmt: skip
    terminal.read(until="step 2/")
    os.killpg(terminal.process.pid, signal.SIGINT)
    status = terminal.finish()
    if saves:
        assert status == 130
    else:
        assert status == (130 if ranks > 1 else -signal.SIGINT)
    terminal.assert_apart()
    said = [line for line in terminal.lines() if line.startswith("error: interrupted by signal 2 (Interrupt)")]
    assert len(said) == (1 if saves or ranks > 1 else 0), terminal.text


def test_killed_rank_stands_alone(build_dir, subject):
    terminal = Terminal(command(build_dir, subject.for_ranks(build_dir), "--steps", 10**8, "--ranks", 3), columns=100)
    terminal.read(until="step 2/")
    with open(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children") as children:
        os.kill(int(children.read().split()[2]), signal.SIGKILL)
    assert terminal.finish() == 137
    terminal.assert_apart()
    errors = [line for line in terminal.lines() if "error" in line]
    assert len(errors) == 1 and errors[0].startswith("error: rank 2 was killed by signal 9 (Killed)"), errors


@pytest.mark.parametrize("stopped", [0, 1, 2])
def test_stopped_rank_alone_is_accused(build_dir, tmp_path, subject, stopped):
    process = subprocess.Popen(
        command(build_dir, subject.for_ranks(build_dir), "--steps", 10**8, "--ranks", 3, "--timeout", 2,
                "--metrics", tmp_path / "m"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=training.ENVIRONMENT,
    )  # fmt: skip
    try:
        while not (tmp_path / "m").exists() or not (tmp_path / "m").stat().st_size:
            assert process.poll() is None
            time.sleep(0.02)
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            os.kill(int(children.read().split()[stopped]), signal.SIGSTOP)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 76
    [accused] = errors.splitlines()
    assert accused.endswith(f"; stopped rank {stopped}, still running")
    blamed = re.findall(r"rank (\d) (does not respond|has not reached|is lost|has not taken)", accused)
    assert blamed == [(str(stopped), "does not respond")], errors


@pytest.mark.parametrize("passes, ranks, expected", [
    ([], 1, "1 rank x 3 microbatches of 2"),
    (["--sync-gradients=axis=dp"], 2, "2 ranks x 3 microbatches of 2"),
    (["--sync-gradients=axis=dp size=2", "--outline-stages=count=2 balance=cost",
      "--build-schedule=schedule=1f1b ranks=2 microbatches=3", "--insert-p2p"], 4,
     "4 ranks in 2 groups x 3 microbatches of 2"),
    (["--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=3",
      "--insert-p2p"], 2, "2 ranks together, 3 microbatches of 2"),
])  # fmt: skip
def test_ranks_are_counted(build_dir, tmp_path, subject, passes, ranks, expected):
    path = tmp_path / "p.mlir"
    training.optimize(build_dir, subject.program, *passes, "-o", path)
    output = training.train(build_dir, path, "--weights", subject.weights, "--ranks", ranks, "--steps", 1,
                            "--microbatches", 3, "--data", f"text:{TEXT}")  # fmt: skip
    assert f"; {expected}\n" in output


def test_errors_of_ranks_have_one_line(build_dir, tmp_path, subject):
    path = tmp_path / "two.mlir"
    training.optimize(build_dir, subject.program, "--sync-gradients=axis=dp size=2", "-o", path)
    run = [path, "--weights", subject.weights, "--steps", 1, "--data", f"text:{TEXT}"]
    mesh = training.run(build_dir, *run, "--ranks", 3)
    assert mesh.returncode == 1
    assert mesh.stderr == f"error: {path}: the program's mesh [\"dp\" = 2] expects 2 ranks, found 3\n" or re.fullmatch(
        r'error: .*the program\'s mesh \["dp" = 2\] expects 2 ranks, found 3\n', mesh.stderr), mesh.stderr
    (tmp_path / "file").write_text("x")
    only = training.run(build_dir, *run, "--ranks", 2, "--checkpoint", tmp_path / "file" / "run")
    assert only.returncode == 1
    assert re.fullmatch(r"error: rank 0: \S+/file/run: cannot create the directory: .*\n", only.stderr), only.stderr
