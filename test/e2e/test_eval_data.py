"""--eval-data and --evaluate: the loss over an evaluation set is PyTorch's in evaluation mode, whatever the program's form
and the ranks, and training goes on as if nothing had been evaluated."""

import copy
import dataclasses

import cleave
import pytest
import torch
import training
from cleave import FSDP, Plan
from cleave.data import TextBatches
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TEXT = "/usr/share/common-licenses/GPL-3"
EVERY = ["--eval-every", 2]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A little text to evaluate on, and one for training."""
    folder = tmp_path_factory.mktemp("text")
    text = open(TEXT).read()
    (folder / "eval.txt").write_text(text[:1100])  # 17 microbatches: ranks cannot divide them evenly
    (folder / "train.txt").write_text(text[2000:9000])
    return folder


def evaluate(spec, checkpoint, text):
    """PyTorch's mean loss over all microbatches of a text, in evaluation mode."""
    module = training.load_strictly(spec, checkpoint).eval()
    rows, length = spec.args[0].shape
    batches = TextBatches([text], rows, length, shuffle=False)
    total, count = 0.0, batches.windows // rows
    with torch.no_grad():
        for step in range(1, count + 1):
            inputs, targets = batches.microbatch(step)
            total += spec.loss(module(inputs), targets).item()
    return total / count


def eval_program(name, folder):
    """The module after eval(), with its loss."""
    spec = training.MODELS[name]()
    spec.module.eval()
    return cleave.export_spec(dataclasses.replace(spec, mode="loss", optimizer=None, name="evaluated"), folder)


def run_steps(build_dir, folder, program, book, *options):
    """The metrics of four steps, and where their checkpoints are."""
    folder.mkdir(exist_ok=True)
    checkpoints = folder / "checkpoints"
    training.train(build_dir, program, "--data", f"text:{book / 'train.txt'}", "--steps", 4, "--metrics",
                   folder / "metrics", "--checkpoint", checkpoints, "--checkpoint-every", 2, "--threads", 1,
                   *options)  # fmt: skip
    return training.read_metrics(folder / "metrics"), checkpoints


def without(rows):
    return [(row["step"], row["loss"], row.get("lr")) for row in rows]


FORMS = {
    "joint": ([], []),
    "lowered": (["--lower-to-exec"], []),
    "ranks": (["--sync-gradients=axis=dp", "--bucket-gradients"], ["--ranks", 2]),
    "stages": (["--outline-stages=count=2 balance=cost",
                "--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"], ["--ranks", 2]),
    "fsdp": (["--propagate-placements", "--partition", "--split-fsdp-collectives", "--bucket-gradients"], ["--ranks", 2]),
}  # fmt: skip


def make_form(build_dir, folder, subject, form):
    passes, options = FORMS[form]
    if form == "fsdp":
        Plan({"dp": 2}, {"": FSDP("dp")}).write(folder / "plan.json")
        passes = [f"--annotate-placements=plan={folder / 'plan.json'}", *passes]
    program = folder / "program.mlir"
    training.optimize(build_dir, subject.program, *passes, "-o", program)
    program.with_suffix(".safetensors").symlink_to(subject.weights)
    return program, options


@pytest.mark.parametrize("form", FORMS)
def test_evaluation_of_the_program_itself(build_dir, tmp_path, model, book, form):
    subject = model("gpt_tied")
    program, options = make_form(build_dir, tmp_path, subject, form)
    plain, _ = run_steps(build_dir, tmp_path / "plain", program, book, *options)
    evaluation = ["--eval-data", f"text:{book / 'eval.txt'}", *EVERY, "--tensorboard", tmp_path / "events"]
    rows, checkpoints = run_steps(build_dir, tmp_path / "evaluated", program, book, *options, *evaluation)
    assert without(rows) == without(plain)
    assert [row["step"] for row in rows if "eval_loss" in row] == [2, 4]
    for step in (2, 4):
        expected = evaluate(subject.spec, checkpoints / f"step-{step:08}", book / "eval.txt")
        assert rows[step - 1]["eval_loss"] == pytest.approx(expected, rel=1e-6)
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert [event.step for event in events.Scalars("eval/loss")] == [2, 4]

    # The same number alone, from the checkpoint.
    output = training.train(build_dir, program, "--evaluate", "--data", f"text:{book / 'eval.txt'}", "--weights",
                            checkpoints / "step-00000002", *options)  # fmt: skip
    assert float(output.splitlines()[-1].removeprefix("loss ")) == pytest.approx(rows[1]["eval_loss"], rel=1e-7)
    assert "evaluation: 1,100 byte tokens from 1 file" in output


@pytest.mark.parametrize("form", ["joint", "ranks", "fsdp"])
def test_evaluation_of_another_program(build_dir, tmp_path, model, book, form):
    """Dropout is off in it. Without a mesh, it runs on each rank for a part of the data."""
    subject = model("gpt_dropout")
    program, options = make_form(build_dir, tmp_path, subject, form)
    evaluated = eval_program("gpt_dropout", tmp_path)
    plain, _ = run_steps(build_dir, tmp_path / "plain", program, book, *options)
    rows, checkpoints = run_steps(
        build_dir, tmp_path / "evaluated", program, book, *options, "--eval-data", f"text:{book / 'eval.txt'}",
        "--eval-program", evaluated)  # fmt: skip
    assert without(rows) == without(plain)
    assert ["eval_loss" in row for row in rows] == [False, False, False, True]
    expected = evaluate(subject.spec, checkpoints / "step-00000004", book / "eval.txt")
    assert rows[-1]["eval_loss"] == pytest.approx(expected, rel=1e-6)
    output = training.train(build_dir, evaluated, "--evaluate", "--data", f"text:{book / 'eval.txt'}", "--weights",
                            checkpoints / "step-00000004", "--quiet")  # fmt: skip
    assert output == f"loss {float(output.split()[1]):.9g}\n"
    assert float(output.split()[1]) == pytest.approx(expected, rel=1e-6)


def test_running_statistics(build_dir, tmp_path, model):
    """Those of the training's batch norm are used as they are at that step."""
    subject = model("resnet18")
    batches = training.random_batches(subject.spec, 3, 1, 0)
    data = training.save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    run = ["--data", f"safetensors:{data}", "--steps", 3, "--metrics", tmp_path / "metrics",
           "--checkpoint", tmp_path / "run", "--eval-data", f"safetensors:{data}"]  # fmt: skip
    message = training.run(build_dir, subject.program, *run).stderr
    assert "the program changes the buffer" in message and "--eval-program" in message
    training.train(build_dir, subject.program, *run, "--eval-program", eval_program("resnet18", tmp_path))
    module = training.load_strictly(subject.spec, training.newest_checkpoint(tmp_path / "run")).eval()
    names = [source.name for source in cleave.testing.Signature(subject.spec).inputs]
    with torch.no_grad():
        losses = [subject.spec.loss(module(batch[names[0]]), batch[names[1]]).item() for batch in batches]
    assert training.read_metrics(tmp_path / "metrics")[-1]["eval_loss"] == pytest.approx(sum(losses) / 3, rel=1e-6)


def test_errors(build_dir, tmp_path, model, book):
    subject, dropout = model("gpt_tied"), model("gpt_dropout")
    train = ["--data", f"text:{book / 'train.txt'}", "--steps", 1]
    data = ["--eval-data", f"text:{book / 'eval.txt'}"]

    def refuse(program, *options):
        result = training.run(build_dir, program, *options)
        assert result.returncode == 1 and result.stderr.count("error: ") == 1, result.stderr
        return result.stderr

    message = refuse(dropout.program, *train, *data)
    assert "draws random numbers (dropout), so its loss is that of training: expected --eval-program FILE" in message
    message = refuse(subject.program, *train, *data, "--eval-program", dropout.program)
    assert "draws random numbers (dropout), so its loss is that of training: expected the module exported" in message
    assert "--eval-every, --eval-program and --eval-with need --eval-data" in refuse(subject.program, *train, *EVERY)
    assert "expected --eval-every of at least 0, found -1" in refuse(subject.program, *train, *data, "--eval-every", -1)
    assert "none.mlir" in refuse(subject.program, *train, *data, "--eval-program", tmp_path / "none.mlir")
    (tmp_path / "short.txt").write_text("short")
    assert "expected at least" in refuse(subject.program, *train, "--eval-data", f"text:{tmp_path / 'short.txt'}")
    rows, length = subject.spec.args[0].shape
    (tmp_path / "short.txt").write_text("x" * (length + 1))
    message = refuse(subject.program, *train, "--eval-data", f"text:{tmp_path / 'short.txt'}")
    assert f"expected at least a microbatch of {rows} examples to evaluate on, found less" in message
    other = eval_program("moe", tmp_path)
    assert "the training's program has no '" in refuse(subject.program, *train, *data, "--eval-program", other)
    assert "expected --data with --evaluate" in refuse(subject.program, "--evaluate")
    assert "expected --evaluate without --steps" in refuse(subject.program, "--evaluate", *train)
    message = refuse(subject.program, "--evaluate", *train[:2], "--checkpoint", tmp_path / "run")
    assert "expected --evaluate without --checkpoint, which is for training" in message
    forward = copy.copy(subject.spec)
    forward = cleave.export_spec(dataclasses.replace(
        forward, mode="forward", loss=None, targets=(), optimizer=None, name="forward"), tmp_path)  # fmt: skip
    assert "expected a program with a loss to evaluate" in refuse(forward, "--evaluate", *train[:2])
