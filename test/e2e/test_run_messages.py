"""Small promises of cleave-run: messages that help, output that is not lost, and what --dry-run says."""

import re
import stat
import subprocess

import pytest
import training

TEXT = "/usr/share/common-licenses/GPL-3"


@pytest.fixture(scope="module")
def subject(model):
    return model("gpt_tied")


@pytest.fixture
def staged(build_dir, subject):
    path = subject.program.with_name("messages.staged.mlir")
    training.optimize(build_dir, subject.program, "--outline-stages=count=2 balance=cost",
                      "--build-schedule=schedule=1f1b ranks=2 microbatches=4", "--insert-p2p", "-o", path)  # fmt: skip
    return path


@pytest.mark.parametrize("options, message", [
    (["--data", f"text:{TEXT}"], "expected --steps N with --data: how many steps to train for"),
    (["--steps", 3], "expected --data to train on"),
    (["--data", f"text:{TEXT}", "--steps", 0], "expected --steps of at least 1, found 0"),
    (["--data", f"text:{TEXT}", "--steps", 3, "--trace", "t", "--trace-steps", -1],
     "expected --trace-steps of at least 1, found -1"),
])  # fmt: skip
def test_numbers_that_are_missing_or_none(build_dir, subject, options, message):
    result = training.run(build_dir, subject.program, *options)
    assert result.returncode == 1 and result.stderr.endswith(f"error: {message}\n"), result.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_full_disk_at_standard_output(build_dir, subject, example, ranks):
    program = subject.for_ranks(build_dir)
    modes = [["--steps", 2, "--data", f"text:{TEXT}"], ["--inputs", example(subject.spec)]]
    # Two ranks evaluate two microbatches together.
    for mode in modes[: 3 - ranks]:
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                training.command(build_dir, program, *mode, "--ranks", ranks), stdout=full, stderr=subprocess.PIPE,
                text=True, env=training.ENVIRONMENT,
            )  # fmt: skip
        assert result.returncode == 1
        expected = r"(rank 0: )?error: cannot write to standard output: No space left on device\n"
        assert re.fullmatch(expected, result.stderr), result.stderr


@pytest.mark.parametrize("options", [["--dry-run"], ["--environment"], ["--against"]])
def test_full_disk_at_the_output_of_one_process(build_dir, subject, example, options):
    if options == ["--against"]:
        options = ["--against", subject.program, "--inputs", example(subject.spec)]
    with open("/dev/full", "w") as full:
        result = subprocess.run(training.command(build_dir, subject.program, *options), stdout=full,
                                stderr=subprocess.PIPE, text=True, env=training.ENVIRONMENT)  # fmt: skip
    assert result.returncode == 1 and "LLVM ERROR" not in result.stderr
    assert "error: cannot write to standard output: No space left on device" in result.stderr


def test_memory_of_each_rank_of_a_pipeline(build_dir, subject, staged):
    output = training.train(build_dir, staged, "--dry-run")
    section = r'^memory of rank (\d) along "(\w+)", 4 microbatches per step \(bytes\)\n((?:  .*\n)+)'
    sections = re.findall(section, output, re.MULTILINE)
    assert [(place, axis) for place, axis, _ in sections] == [("0", "pp"), ("1", "pp")]
    assert "memory of one rank" not in output
    whole = training.train(build_dir, subject.program, "--dry-run")
    parameters = re.compile(r"^\s*parameters\D+(\d+)", re.M)
    parts = [int(parameters.search(text)[1]) for _, _, text in sections]
    everything = int(parameters.search(whole)[1])
    assert all(part < everything for part in parts) and sum(parts) >= everything

    # Each computes its part of what four microbatches of the whole program do, and sends its neighbour one value each.
    def flops(text):
        return [float(number) for number in re.findall(r"floating-point operations of a step\n\s+(\S+)", text)]

    assert len(flops(output)) == 2 and min(flops(output)) > 0
    assert sum(flops(output)) == pytest.approx(4 * flops(whole)[0], rel=2e-3)
    assert re.findall(r"^  send over pp +(\d+) ", output, re.M) == ["4", "4"]
    assert "communication of a step\n  none" in whole


@pytest.mark.parametrize("umask, mode", [(0o022, 0o755), (0o077, 0o700), (0o002, 0o775)])
def test_checkpoints_follow_the_umask(build_dir, tmp_path, subject, umask, mode):
    subprocess.run(
        training.command(build_dir, subject.program, "--steps", 1, "--data", f"text:{TEXT}",
                         "--checkpoint", tmp_path / "run"),
        check=True, capture_output=True, env=training.ENVIRONMENT, umask=umask,
    )  # fmt: skip
    for directory in (tmp_path / "run", training.newest_checkpoint(tmp_path / "run")):
        assert stat.S_IMODE(directory.stat().st_mode) == mode
    for file in training.newest_checkpoint(tmp_path / "run").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == mode & 0o666


def test_directory_of_batches(build_dir, tmp_path, subject):
    """A directory is its files one after another."""
    folder = tmp_path / "batches"
    (folder / "later").mkdir(parents=True)
    batches = training.random_batches(subject.spec, 3, 1, 7)
    names = ["a.safetensors", "b.safetensors", "later/0.safetensors"]
    paths = [training.save_batches(subject.spec, [batch], folder / name) for batch, name in zip(batches, names)]
    (folder / "README").write_text("not a batch")
    losses = []
    for source in (folder, ",".join(map(str, paths))):
        output = training.train(build_dir, subject.program, "--steps", 3, "--data", f"safetensors:{source}",
                                "--metrics", tmp_path / "m")  # fmt: skip
        assert "batches for 3 steps from 3 files" in output
        losses.append(training.losses(tmp_path / "m"))
    assert losses[0] == losses[1]
