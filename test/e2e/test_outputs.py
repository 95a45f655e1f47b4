"""What cleave-run writes: devices, pipes and links stay what they are, inputs and earlier results are
safe, and what cannot be written is refused before anything else changes."""

import json
import os
import stat
import threading

import pytest
import training
from safetensors.torch import load_file

TEXT = "/usr/share/common-licenses/GPL-3"


@pytest.fixture(scope="module")
def subject(model):
    return model("gpt_tied")


@pytest.fixture(scope="module")
def staged(build_dir, subject):
    """The program in two stages with a schedule, for --profile."""
    path = subject.program.with_name("outputs.staged.mlir")
    training.optimize(build_dir, subject.program, "--outline-stages=count=2 balance=cost",
                      "--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p", "-o", path)  # fmt: skip
    path.with_suffix(".safetensors").symlink_to(subject.weights)
    return path


@pytest.fixture
def batch(subject, example):
    return example(subject.spec)


def options_for(option, subject, staged, batch):
    """A short run that writes by `option`, without its value: the program and the rest."""
    if option == "--dump":
        return [subject.program, "--inputs", batch, option]
    program = staged if option == "--profile" else subject.program
    return [program, "--steps", 3, "--data", f"text:{TEXT}", "--quiet", option]


ALL = ["--dump", "--trace", "--metrics", "--profile"]


@pytest.mark.parametrize("option", ALL)
def test_devices_and_pipes_are_written_to(build_dir, tmp_path, subject, staged, batch, option):
    command = options_for(option, subject, staged, batch)
    device = tmp_path / "device"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        open(device, "wb").close()
        devices = [device]
    except PermissionError:  # not root
        devices = []
    for path in [*devices, "/dev/null"]:
        training.train(build_dir, *command, path)
        assert stat.S_ISCHR(os.stat(path).st_mode)
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    result = training.run(build_dir, *command, pipe)
    assert result.returncode == 1 and f"error: {pipe}: cannot write: no process is reading from it" in result.stderr
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    descriptor = os.open(pipe, os.O_WRONLY)  # the reader is there
    try:
        training.train(build_dir, *command, pipe)
    finally:
        os.close(descriptor)
        reader.join()
    assert stat.S_ISFIFO(os.stat(pipe).st_mode) and len(found[0]) > 100


@pytest.mark.parametrize("option", ALL)
def test_links_are_followed(build_dir, tmp_path, subject, staged, batch, option):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    training.train(build_dir, *options_for(option, subject, staged, batch), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "real").read_bytes()) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_standard_output_takes_the_dump(build_dir, subject, batch, tmp_path):
    link = os.readlink("/dev/stdout")
    command = training.command(build_dir, *options_for("--dump", subject, None, batch), "/dev/stdout")
    with open(tmp_path / "out", "wb") as out:
        assert training.subprocess.run(command, stdout=out, env=training.ENVIRONMENT).returncode == 0
    assert os.readlink("/dev/stdout") == link
    whole = (tmp_path / "out").read_bytes()
    tensors, loss = whole[: whole.rindex(b"loss ")], whole[whole.rindex(b"loss ") :]
    (tmp_path / "t.safetensors").write_bytes(tensors)
    dumped = load_file(tmp_path / "t.safetensors")
    assert float(loss.split()[1]) == pytest.approx(float(dumped["loss"]))


@pytest.mark.parametrize("option", ALL)
def test_full_device_is_an_error(build_dir, subject, staged, batch, option):
    result = training.run(build_dir, *options_for(option, subject, staged, batch), "/dev/full")
    assert result.returncode == 1
    assert "error: /dev/full: cannot write: No space left on device" in result.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_inputs_are_not_overwritten(build_dir, tmp_path, subject, batch):
    program, weights, inputs = (tmp_path / name for name in ("p.mlir", "w.safetensors", "i.safetensors"))
    program.write_bytes(subject.program.read_bytes())
    weights.write_bytes(subject.weights.read_bytes())
    inputs.write_bytes(batch.read_bytes())
    text = tmp_path / "texts" / "a.txt"
    text.parent.mkdir()
    text.write_text("some text " * 1000)
    (tmp_path / "link").symlink_to(weights)
    evaluate = [program, "--weights", weights, "--inputs", inputs]
    train = [program, "--weights", weights, "--steps", 2, "--data", f"text:{text.parent}"]
    before = {path: path.read_bytes() for path in (program, weights, inputs, text)}
    for command, option, output, read in [
        (evaluate, "--dump", weights, f"would overwrite --weights {weights}"),
        (evaluate, "--dump", tmp_path / "link", f"would overwrite --weights {weights}"),
        (evaluate, "--dump", inputs, f"would overwrite --inputs {inputs}"),
        (evaluate, "--dump", program, f"would overwrite program {program}"),
        (train, "--trace", weights, f"would overwrite --weights {weights}"),
        (train, "--metrics", program, f"would overwrite program {program}"),
        (train, "--profile", program, f"would overwrite program {program}"),
        (train, "--metrics", text, f"is in --data {text.parent}"),
        (train, "--checkpoint", text.parent / "run", f"is in --data {text.parent}"),
    ]:
        result = training.run(build_dir, *command, option, output)
        assert result.returncode == 1, (option, output)
        assert f"error: {option} {output} {read}" in result.stderr
        assert {path: path.read_bytes() for path in before} == before
    result = training.run(build_dir, *train, "--metrics", tmp_path / "m", "--trace", tmp_path / "m")
    assert result.returncode == 1 and "are the same file" in result.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["i.safetensors", "link", "p.mlir", "texts", "w.safetensors"]


def test_refused_run_leaves_earlier_results_alone(build_dir, tmp_path, subject):
    run = [subject.program, "--steps", 2, "--data", f"text:{TEXT}", "--quiet",
           "--checkpoint", tmp_path / "run", "--metrics", tmp_path / "m", "--trace", tmp_path / "t"]  # fmt: skip
    training.train(build_dir, *run)
    before = {path: path.read_bytes() for path in (tmp_path / "m", tmp_path / "t")}
    for more, message in [
        ([], "already has checkpoints"),
        (["--resume", "--seed", 5], "the run was started with --seed 0, found 5"),
        (["--resume", "--weights", tmp_path / "none"], "none: cannot open"),
        (["--resume", "--profile", tmp_path / "no" / "p"], "--profile expects a program in stages"),
    ]:
        result = training.run(build_dir, *run, *more)
        assert result.returncode == 1 and message in result.stderr, (more, result.stderr)
        assert {path: path.read_bytes() for path in before} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "run", "t"]


@pytest.mark.parametrize("option", [*ALL, "--checkpoint", "--tensorboard"])
def test_what_cannot_be_written_is_refused_before_the_weights_are_read(
    build_dir, tmp_path, subject, staged, batch, option
):
    command = options_for(option, subject, staged, batch)
    (tmp_path / "file").write_text("x")
    target = tmp_path / "file" / "x" if option in ("--checkpoint", "--tensorboard") else tmp_path / "no" / "x"
    result = training.run(build_dir, *command, target, "--weights", tmp_path / "no-weights")
    assert result.returncode == 1
    assert str(target) in result.stderr and "no-weights" not in result.stderr


def test_ranks_join_their_traces_in_a_file(build_dir, tmp_path, subject):
    program = subject.for_ranks(build_dir)
    (tmp_path / "link").symlink_to("trace.json")
    run = [program, "--ranks", 2, "--steps", 1, "--data", f"text:{TEXT}", "--quiet", "--trace"]
    training.train(build_dir, *run, tmp_path / "link")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    result = training.run(build_dir, *run, "/dev/null")
    assert result.returncode == 1
    assert "/dev/null: expected a regular file, since several ranks merge their traces into it" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "trace.json"]
