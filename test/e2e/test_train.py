"""Training runs of cleave-run against PyTorch: losses, parameters and optimizer state."""

import dataclasses
import json

import pytest
import torch
from cleave import testing
from cleave.data import TextBatches
from combinations_cover import cover, name, run_all, seed
from safetensors.torch import load_file
from training import (
    MODELS, Model, checkpoint_tensors, expected_tensors, load_strictly, losses, newest_checkpoint,
    random_batches, read_metrics, run, save_batches, train,
)  # fmt: skip

TEXT = "/usr/share/common-licenses/GPL-3"
STEPS = 20
# Fewer where a step is slow, but for `./dev test --all`.
FEWER = {} if run_all() else {"minilm": 5, "resnet18": 6}
pytestmark = pytest.mark.usefixtures("one_thread")


def assert_same_state(found, expected):
    assert found.keys() >= expected.keys(), expected.keys() - found.keys()
    different = [n for n in expected if not torch.equal(found[n], expected[n])]
    assert not different, different


@pytest.mark.parametrize(
    "case", cover({"model": list(MODELS), "microbatches": [1, 2], "seed": [0, 11]}), ids=name
)
def test_steps_are_those_of_eager_mode_bit_for_bit(build_dir, tmp_path, model, case):
    subject, microbatches = model(case["model"]), case["microbatches"]
    steps = FEWER.get(case["model"], STEPS)
    batches = random_batches(subject.spec, steps, microbatches, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    train(build_dir, subject.program, "--steps", steps, "--microbatches", microbatches, "--threads", 1,
          "--seed", case["seed"], "--data", f"safetensors:{data}", "--metrics", tmp_path / "m.jsonl",
          "--checkpoint", tmp_path / "run")  # fmt: skip
    expected = testing.train(subject.spec, batches, microbatches, case["seed"])
    assert losses(tmp_path / "m.jsonl") == expected.losses
    found = checkpoint_tensors(newest_checkpoint(tmp_path / "run"))
    assert_same_state(found, expected_tensors(expected, subject.spec))
    load_strictly(subject.spec, newest_checkpoint(tmp_path / "run"))


@pytest.mark.parametrize("name", ["opt", "bart"])
def test_numbers_of_decided_branches_are_drawn_in_each_step(build_dir, tmp_path, name):
    """These models draw a number for each layer, which decides nothing, but moves what dropout draws."""
    subject = Model(name, tmp_path)
    batches = random_batches(subject.spec, 6, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    train(build_dir, subject.program, "--steps", 6, "--microbatches", 2, "--threads", 1, "--seed", 11,
          "--data", f"safetensors:{data}", "--metrics", tmp_path / "m.jsonl", "--checkpoint", tmp_path / "run")  # fmt: skip
    expected = testing.train(subject.spec, batches, 2, 11)
    assert losses(tmp_path / "m.jsonl") == expected.losses
    found = checkpoint_tensors(newest_checkpoint(tmp_path / "run"))
    assert_same_state(found, expected_tensors(expected, subject.spec))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "nesterov", "adam"])
def test_optimizers_and_schedules_are_pytorchs(build_dir, tmp_path, optimizer):
    import cleave
    import gpt

    make = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
        "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, lr=1e-3, betas=(0.8, 0.95)),
    }[optimizer]
    schedule = {
        "sgd": cleave.WarmupCosine(warmup=4, total=10, floor=0.1),
        "momentum": cleave.StepDecay(every=3, decay=0.5),
    }.get(optimizer, cleave.Constant())
    spec = gpt.tied()
    spec = dataclasses.replace(spec, optimizer=make(spec.module.parameters()), lr_schedule=schedule)
    program = cleave.export_spec(spec, tmp_path)
    batches = random_batches(spec, 12, 1, 5)
    data = save_batches(spec, batches, tmp_path / "data.safetensors")
    train(build_dir, program, "--steps", 12, "--data", f"safetensors:{data}", "--threads", 1,
          "--metrics", tmp_path / "m.jsonl", "--checkpoint", tmp_path / "run")  # fmt: skip
    expected = testing.train(spec, batches)
    assert losses(tmp_path / "m.jsonl") == expected.losses
    found = checkpoint_tensors(newest_checkpoint(tmp_path / "run"))
    assert_same_state(found, expected_tensors(expected, spec))


@pytest.mark.parametrize("ranks, microbatches", [(1, 4), (2, 2), (4, 1)])
def test_text_on_any_number_of_ranks_is_one_sequence_of_batches(
    build_dir, tmp_path, model, ranks, microbatches
):
    subject = model("gpt_dropout")
    rows, length = subject.spec.args[0].shape
    text = TextBatches([TEXT], rows, length, microbatches, ranks, seed=3)
    batches = []
    for step in range(1, STEPS + 1):
        parts = [text.microbatch(step, r, m) for r in range(ranks) for m in range(microbatches)]
        batches.append({
            source.name: torch.cat([part[int(source.name != "tokens")] for part in parts])
            for source in testing.Signature(subject.spec).inputs
        })  # fmt: skip
    program = subject.for_ranks(build_dir)
    train(build_dir, program, "--ranks", ranks, "--batch", 4 * rows, "--steps", STEPS, "--seed", 3,
          "--data", f"text:{TEXT}", "--metrics", tmp_path / "m.jsonl")  # fmt: skip
    expected = testing.train(subject.spec, batches, 4, seed=3).losses
    found = losses(tmp_path / "m.jsonl")
    if ranks == 1:
        assert found == expected
    else:
        # The all-reduce adds in another order than one rank does.
        assert found == pytest.approx(expected, rel=1e-5)
        assert found[0] == expected[0]


def test_reports(build_dir, tmp_path, model):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    program = model("gpt_tied").for_ranks(build_dir)
    output = train(
        build_dir, program, "--ranks", 2, "--steps", 6, "--data", f"text:{TEXT}",
        "--metrics", tmp_path / "m.jsonl", "--tensorboard", tmp_path / "tb",
        "--trace", tmp_path / "trace.json", "--trace-steps", 2,
    )  # fmt: skip
    assert "35,149 byte tokens" in output and "2 ranks" in output
    assert "step 1/6  loss 5.5" in output and "step 6/6" in output
    assert " tokens/s  ETA 0:00" in output

    rows = read_metrics(tmp_path / "m.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(row["tokens_per_s"] > 0 and row["ms"] > 0 for row in rows)

    assert {row["lr"] for row in rows} == {1e-3}  # a constant schedule
    assert "  lr 0.001  " in output

    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert [e.value for e in events.Scalars("train/lr")] == [pytest.approx(1e-3)] * 6
    assert [e.value for e in events.Scalars("train/loss")] == pytest.approx(losses(tmp_path / "m.jsonl"))

    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in slices} == {0, 1}
    for rank in (0, 1):
        names = [e["name"] for e in slices if e["pid"] == rank]
        assert names.count("step 1") == names.count("step 2") == 1 and "step 3" not in names
        assert names.count("microbatch 0") == 2
        assert any(n.startswith("dist.all_reduce") for n in names)
    located = [e for e in slices if "gpt.py" in e.get("args", {}).get("location", "")]
    assert any("attn" in e["args"]["location"] for e in located)
    # Slices of one track nest: no two of a rank overlap without one holding the other.
    for rank in (0, 1):
        open_until = []
        for e in sorted((e for e in slices if e["pid"] == rank), key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"] + 1e-3:
                open_until.pop()
            end = e["ts"] + e["dur"]
            assert not open_until or end <= open_until[-1] + 1e-3, e
            open_until.append(end)
    assert not list(tmp_path.glob("trace.json.rank*"))


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A program whose parameter groups have rates of their own, and a schedule."""
    import cleave
    import gpt

    spec = gpt.tied()
    first, *others = spec.module.parameters()
    optimizer = torch.optim.SGD([{"params": [first], "lr": 1e-3}, {"params": others, "lr": 2e-3}])
    spec = dataclasses.replace(spec, optimizer=optimizer, lr_schedule=cleave.WarmupCosine(warmup=2, total=6))
    return spec, cleave.export_spec(spec, tmp_path_factory.mktemp("grouped"))


def test_rates_are_reported_as_the_schedule_gives_them(build_dir, tmp_path, grouped):
    spec, program = grouped
    output = train(build_dir, program, "--steps", 6, "--data", f"text:{TEXT}", "--metrics", tmp_path / "m")
    expected = [[rate * spec.lr_schedule.factor(step) for rate in (1e-3, 2e-3)] for step in range(1, 7)]
    assert [row["lr"] for row in read_metrics(tmp_path / "m")] == [pytest.approx(rates) for rates in expected]
    assert "  lr 0.0005, 0.001  " in output


def test_rates_of_several_groups(build_dir, tmp_path, grouped):
    _, program = grouped
    arguments = [program, "--steps", 2, "--data", f"text:{TEXT}", "--metrics", tmp_path / "m"]
    message = run(build_dir, *arguments, "--lr", 0.1)
    assert message.returncode == 1
    assert (
        "--lr: the program's parameter groups have the learning rates 0.001, 0.002, which one number cannot replace; use --lr-scale to scale them"
    ) in message.stderr
    train(build_dir, *arguments, "--lr-scale", 4)
    assert read_metrics(tmp_path / "m")[1]["lr"] == pytest.approx([4e-3, 8e-3])
    # A run at rate 0 evaluates.
    train(build_dir, *arguments, "--lr", 0, "--checkpoint", tmp_path / "c")
    assert read_metrics(tmp_path / "m")[1]["lr"] == 0
    before, after = load_file(program.with_suffix(".safetensors")), newest_checkpoint(tmp_path / "c")
    assert all(t.equal(before[n]) for n, t in load_file(after / "model.safetensors").items() if n in before)
    for option in ("--lr", "--lr-scale"):
        for number in ("nan", "-1", "inf"):
            result = run(build_dir, *arguments, f"{option}={number}")
            assert f"{option}: expected a number that is finite and not negative" in result.stderr


def test_learning_rate_option_replaces_the_base(build_dir, tmp_path, model):
    import cleave
    import gpt

    spec = gpt.tied()
    spec = dataclasses.replace(spec, optimizer=torch.optim.AdamW(spec.module.parameters(), lr=5e-3))
    other = cleave.export_spec(spec, tmp_path)
    for file, program, options in (("a", other, ()), ("b", model("gpt_tied").program, ("--lr", 5e-3))):
        train(build_dir, program, "--steps", 5, "--data", f"text:{TEXT}", "--threads", 1,
              "--metrics", tmp_path / file, *options)  # fmt: skip
    assert losses(tmp_path / "a") == losses(tmp_path / "b")


def test_order_of_the_data(build_dir, tmp_path, model):
    program = model("gpt_tied").program
    found = {}
    for file, options in {"0": (), "1": ("--seed", 1), "file": ("--shuffle=false",)}.items():
        train(build_dir, program, "--steps", 2, "--data", f"text:{TEXT}", "--metrics", tmp_path / file,
              *options)  # fmt: skip
        found[file] = losses(tmp_path / file)[0]
    assert len(set(found.values())) == 3
    spec = model("gpt_tied").spec
    rows, length = spec.args[0].shape
    inputs, targets = TextBatches([TEXT], rows, length, shuffle=False).microbatch(1)
    names = [source.name for source in testing.Signature(spec).inputs]
    expected = testing.evaluate(spec, dict(zip(names, (inputs, targets))))["loss"]
    assert found["file"] == float(expected)
