"""torch.optim.lr_scheduler in programs: each rate and momentum is PyTorch's, bit for bit, and so are the steps."""

import dataclasses
import json

import cleave
import pytest
import torch
import training
from cleave import testing
from combinations_cover import covered
from torch import nn
from torch.optim import lr_scheduler as schedulers

STEPS = 24


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def make_spec(schedule, optimizer="sgd", steps=None):
    """Two parameter groups, which have different rates."""
    module = Tiny()
    groups = [{"params": module.first.parameters(), "lr": 0.3}, {"params": module.second.parameters()}]
    made = {
        "sgd": lambda: torch.optim.SGD(groups, lr=0.1, momentum=0.9),
        "adam": lambda: torch.optim.AdamW(groups, lr=0.01),
    }[optimizer]()
    torch.manual_seed(4)
    return cleave.ExportSpec(
        module, (torch.randn(2, 4),), loss=nn.functional.mse_loss, targets=(torch.randn(2, 3),), optimizer=made,
        lr_schedule=schedule(made), schedule_steps=steps, name="tiny")  # fmt: skip


SCHEDULERS = {
    "LambdaLR": lambda o: schedulers.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda o: schedulers.MultiplicativeLR(o, lambda e: 0.97 if e % 3 else 1.01),
    "StepLR": lambda o: schedulers.StepLR(o, 3, 0.7),
    "MultiStepLR": lambda o: schedulers.MultiStepLR(o, [2, 5, 5, 11], 0.3),
    "ConstantLR": lambda o: schedulers.ConstantLR(o, 0.3, 7),
    "LinearLR": lambda o: schedulers.LinearLR(o, 0.1, total_iters=7),
    "ExponentialLR": lambda o: schedulers.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: schedulers.PolynomialLR(o, 9, 0.9),
    "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 9, 0.01),
    "CosineAnnealingWarmRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 4, 2),
    "CyclicLR": lambda o: schedulers.CyclicLR(o, 0.01, 0.2, 3, mode="exp_range", gamma=0.9),
    "CyclicLR of rates": lambda o: schedulers.CyclicLR(o, 0.01, 0.2, 3, cycle_momentum=False),
    "OneCycleLR": lambda o: schedulers.OneCycleLR(o, [0.2, 0.3], total_steps=STEPS),
    "SequentialLR": lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, 0.1, total_iters=4), schedulers.CosineAnnealingLR(o, 15)], [4]),
    "SequentialLR that settles": lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, 0.1, total_iters=4), schedulers.MultiStepLR(o, [2, 5])], [4]),
    "ChainedScheduler": lambda o: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(o, 0.1, 4), schedulers.ExponentialLR(o, 0.9)]),
}  # fmt: skip
# These have no last step.
ENDLESS = {"StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR", "SequentialLR that settles"}


def expected_rates(schedule, optimizer):
    spec = make_spec(schedule, optimizer)
    rates = []
    for _ in range(STEPS):
        rates.append(list(dict.fromkeys(float(group["lr"]) for group in spec.optimizer.param_groups)))
        spec.optimizer.step()
        if len(rates) < STEPS:
            spec.lr_schedule.step()
    return rates


# These write momentum or a beta, too.
CASES = [("CyclicLR", "sgd"), ("OneCycleLR", "sgd"), ("OneCycleLR", "adam"), ("CyclicLR", "adam")]


@pytest.mark.parametrize("name, optimizer", [*CASES, *((name, "sgd") for name in SCHEDULERS if (name, "sgd") not in CASES)])
def test_rates_and_steps_are_pytorchs(build_dir, tmp_path, name, optimizer):
    schedule = SCHEDULERS[name]
    spec = make_spec(schedule, optimizer, None if name in ENDLESS | {"OneCycleLR"} else STEPS)
    program = cleave.export_spec(spec, tmp_path)
    batches = training.random_batches(spec, STEPS, 1, 5)
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    run = [program, "--data", f"safetensors:{data}", "--threads", 1, "--metrics", tmp_path / "m", "--quiet"]
    training.train(build_dir, *run, "--steps", STEPS, "--checkpoint", tmp_path / "run")
    rows = training.read_metrics(tmp_path / "m")
    rates = [row["lr"] if isinstance(row["lr"], list) else [row["lr"]] for row in rows]
    assert [list(dict.fromkeys(each)) for each in rates] == expected_rates(schedule, optimizer)

    expected = testing.train(spec, batches)
    assert [row["loss"] for row in rows] == expected.losses
    found = training.checkpoint_tensors(training.newest_checkpoint(tmp_path / "run"))
    for key, tensor in training.expected_tensors(expected, spec).items():
        assert torch.equal(found[key], tensor), key

    # What has an end says so before anything is run; what settles goes on.
    more = training.run(build_dir, *run, "--steps", STEPS + 8)
    if name in ENDLESS:
        assert more.returncode == 0, more.stderr
        assert training.losses(tmp_path / "m")[:STEPS] == expected.losses
    else:
        assert more.returncode == 1
        assert f"the program's learning rates end with step {STEPS}, found step {STEPS + 8}: export it " in more.stderr
        assert len(training.read_metrics(tmp_path / "m")) == STEPS


@covered({"form": ["lowered", "ranks", "stages"], "name, optimizer": [("CyclicLR", "sgd"), ("OneCycleLR", "adam")]}, strength=1)
def test_forms_of_the_program(build_dir, tmp_path, name, optimizer, form):
    passes, options = {
        "lowered": (["--lower-to-exec"], []),
        "ranks": (["--sync-gradients=axis=dp", "--bucket-gradients"], ["--ranks", 2]),
        "stages": (["--sync-gradients=axis=dp", "--outline-stages=count=2",
                    "--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"], ["--ranks", 2]),
    }[form]  # fmt: skip
    spec = make_spec(SCHEDULERS[name], optimizer, STEPS)
    program = cleave.export_spec(spec, tmp_path)
    made = tmp_path / "made.mlir"
    training.optimize(build_dir, program, *passes, "-o", made)
    microbatches = 1 if form == "lowered" else 2
    batches = training.random_batches(spec, 8, microbatches, 5)
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    training.train(build_dir, made, "--weights", program.with_suffix(".safetensors"), "--data", f"safetensors:{data}",
                   "--steps", 8, "--threads", 1, "--metrics", tmp_path / "m", *options)  # fmt: skip
    assert training.losses(tmp_path / "m") == pytest.approx(testing.train(spec, batches, microbatches).losses, rel=1e-6)


def test_a_resumed_run_goes_on_in_the_table(build_dir, tmp_path):
    spec = make_spec(SCHEDULERS["OneCycleLR"])
    program = cleave.export_spec(spec, tmp_path)
    data = training.save_batches(spec, training.random_batches(spec, STEPS, 1, 5), tmp_path / "data.safetensors")
    run = [program, "--data", f"safetensors:{data}", "--threads", 1]
    training.train(build_dir, *run, "--steps", STEPS, "--metrics", tmp_path / "whole")
    for steps in (7, STEPS):
        training.train(build_dir, *run, "--steps", steps, "--metrics", tmp_path / "parts", "--checkpoint",
                       tmp_path / "run", "--resume")  # fmt: skip
    assert training.losses(tmp_path / "parts") == training.losses(tmp_path / "whole")


def test_the_base_of_a_table(build_dir, tmp_path):
    spec = make_spec(SCHEDULERS["CosineAnnealingLR"], steps=4)
    program = cleave.export_spec(spec, tmp_path)
    data = training.save_batches(spec, training.random_batches(spec, 4, 1, 5), tmp_path / "data.safetensors")
    run = [program, "--data", f"safetensors:{data}", "--threads", 1, "--steps", 4, "--metrics", tmp_path / "m"]
    training.train(build_dir, *run)
    rates = [row["lr"] for row in training.read_metrics(tmp_path / "m")]
    message = training.run(build_dir, *run, "--lr", 0.5).stderr
    assert "--lr: the program's learning rates are a table of the scheduler's, which one number cannot replace" in message
    training.train(build_dir, *run, "--lr-scale", 2)
    assert [row["lr"] for row in training.read_metrics(tmp_path / "m")] == [[2 * r for r in each] for each in rates]


def plateau_run(tmp_path, options, make):
    """The spec of a run with ReduceLROnPlateau, and its command."""
    spec = make_spec(make)
    program = cleave.export_spec(spec, tmp_path)
    data = training.save_batches(spec, training.random_batches(spec, 30, 1, 5), tmp_path / "data.safetensors")
    held_out = training.save_batches(spec, training.random_batches(spec, 3, 1, 6), tmp_path / "eval.safetensors")
    run = [program, "--data", f"safetensors:{data}", "--eval-data", f"safetensors:{held_out}", "--threads", 1,
           "--metrics", tmp_path / "m", *options]  # fmt: skip
    return spec, run


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1, "factor": 0.5},
        {"patience": 0, "factor": 0.3, "cooldown": 2, "threshold": 0.05},
        {"patience": 1, "factor": 0.1, "threshold_mode": "abs", "threshold": 0.02, "min_lr": [0.02, 0.0], "eps": 0.005},
    ],
    ids=["patience", "cooldown", "min_lr"],
)
def test_reduce_on_plateau(build_dir, tmp_path, options):
    spec, run = plateau_run(tmp_path, ["--eval-every", 2], lambda o: schedulers.ReduceLROnPlateau(o, **options))
    training.train(build_dir, *run, "--steps", 30)
    rows = training.read_metrics(tmp_path / "m")
    expected = []
    for row in rows:
        expected.append([group["lr"] for group in spec.optimizer.param_groups])
        if "eval_loss" in row:
            spec.lr_schedule.step(row["eval_loss"])
    assert [row["lr"] for row in rows] == expected
    assert len({tuple(rates) for rates in expected}) > 2  # it was reduced

    # The scheduler's state is in the checkpoint.
    for steps in (13, 22, 30):
        training.train(build_dir, *run[:-4], "--metrics", tmp_path / "parts", "--eval-every", 2, "--steps", steps,
                       "--checkpoint", tmp_path / "run", "--resume")  # fmt: skip
    parts = training.read_metrics(tmp_path / "parts")
    assert [(row["loss"], row["lr"]) for row in parts] == [(row["loss"], row["lr"]) for row in rows]
    state = json.loads((training.newest_checkpoint(tmp_path / "run") / "state.json").read_text())
    assert state["evaluations"]["plateau"]["reductions"] > 0


def test_a_plateau_needs_evaluations(build_dir, tmp_path):
    _, run = plateau_run(tmp_path, [], schedulers.ReduceLROnPlateau)
    message = training.run(build_dir, *run, "--steps", 4).stderr
    assert "its learning rate is reduced when the evaluation loss no longer improves" in message
    assert "expected --eval-data and --eval-every" in message


def test_several_plateaus_are_one(build_dir, tmp_path):
    """Evaluations are one series: plateaus of two optimizers may differ in what they make of it, not in when."""

    def export(*patience):
        module = Tiny()
        optimizers = [torch.optim.SGD(module.first.parameters(), lr=0.3), torch.optim.NAdam(module.second.parameters(), lr=0.1)]
        made = [schedulers.ReduceLROnPlateau(o, factor=f, patience=p) for o, f, p in zip(optimizers, (0.5, 0.25), patience)]
        torch.manual_seed(4)
        spec = cleave.ExportSpec(
            module, (torch.randn(2, 4),), loss=nn.functional.mse_loss, targets=(torch.randn(2, 3),), optimizer=optimizers,
            lr_schedule=made, name="tiny")  # fmt: skip
        program = cleave.export_spec(spec, tmp_path)
        for name, steps, seed in (("data", 20, 5), ("eval", 3, 6)):
            training.save_batches(spec, training.random_batches(spec, steps, 1, seed), tmp_path / f"{name}.safetensors")
        return made, training.run(
            build_dir, program, "--data", f"safetensors:{tmp_path / 'data.safetensors'}", "--eval-data",
            f"safetensors:{tmp_path / 'eval.safetensors'}", "--eval-every", 2, "--steps", 20, "--threads", 1, "--metrics",
            tmp_path / "m")  # fmt: skip

    _, result = export(0, 1)
    assert result.returncode == 1 and result.stderr.count("error") == 1
    assert "to have one threshold, patience and cooldown, found several" in result.stderr
    assert not (tmp_path / "m").exists()
    made, result = export(0, 0)
    assert result.returncode == 0, result.stderr
    rows, expected = training.read_metrics(tmp_path / "m"), []
    for row in rows:
        expected.append([each.optimizer.param_groups[0]["lr"] for each in made])
        if "eval_loss" in row:
            for each in made:
                each.step(row["eval_loss"])
    assert [row["lr"] for row in rows] == expected and len(set(map(tuple, expected))) > 1


def test_long_tables_are_bits(tmp_path):
    """Of 10,000 steps unless a spec says otherwise."""
    text = cleave.export_spec(make_spec(SCHEDULERS["CosineAnnealingLR"]), tmp_path).read_text()
    assert text.count('values = dense<"0x') == 2 and text.count("> : tensor<10000xf64>, end = 10000>") == 2


def refused(schedule, **options):
    with pytest.raises(cleave.ExportError) as caught:
        cleave.export_spec(make_spec(schedule, **options), "unused")
    return str(caught.value)


def test_schedulers_that_do_not_depend_on_the_step_alone(tmp_path):
    assert "LambdaLR gives other numbers when it is run again; expected a scheduler that depends on the step alone" in (
        refused(lambda o: schedulers.LambdaLR(o, lambda e: torch.rand([]).item()), steps=5))  # fmt: skip

    class Decay(schedulers.LRScheduler):
        def get_lr(self):
            for group in self.optimizer.param_groups:
                group["weight_decay"] = 0.1 * self.last_epoch
            return [group["lr"] for group in self.optimizer.param_groups]

    assert "Decay changes weight_decay in step 2; expected a scheduler of the learning rate" in refused(Decay, steps=5)

    class Norm(schedulers.LRScheduler):
        def get_lr(self):
            return [g["lr"] * (1.0 if self.last_epoch == 0 else float(g["params"][0].norm())) for g in self.optimizer.param_groups]

    message = refused(Norm, steps=5)
    assert "Norm has no numbers for step 2 of 5 (schedule_steps)" in message and "the step alone" in message
    assert "gives lr = inf in step 2; expected a finite number" in refused(
        lambda o: schedulers.LambdaLR(o, lambda e: 1.0 if e == 0 else float("inf")), steps=5)  # fmt: skip

    class OnLoss(schedulers.LRScheduler):
        def get_lr(self):
            return [group["lr"] for group in self.optimizer.param_groups]

        def _initial_step(self):
            pass

        def step(self, loss):
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.5 if loss > 1 else 1.0

    message = "OnLoss.step takes 'loss'; expected a scheduler that depends on the step alone, or ReduceLROnPlateau"
    assert message in refused(OnLoss, steps=5) and message in refused(lambda o: lambda p: OnLoss(p), steps=5)

    class Doubled(schedulers.ReduceLROnPlateau):
        def step(self, metrics, epoch=None):
            super().step(2 * metrics, epoch)

    assert "Doubled has a step of its own, which looks at a loss" in refused(Doubled)
    assert "expected ReduceLROnPlateau with mode='min', found 'max'" in refused(
        lambda o: schedulers.ReduceLROnPlateau(o, mode="max"))  # fmt: skip


def test_schedulers_of_another_optimizer_or_step():
    def stepped(optimizer):
        made = schedulers.StepLR(optimizer, 3)
        optimizer.step()
        made.step()
        return made

    assert "lr_schedule has taken steps already; export with a fresh one" in refused(stepped)
    other = torch.optim.SGD(Tiny().parameters(), lr=0.1)
    assert "expected lr_schedule to be of the spec's optimizer" in refused(lambda o: schedulers.StepLR(other, 3))
    assert "expected lr_schedule to return a torch.optim.lr_scheduler, found int" in refused(lambda o: lambda p: 3)
    assert "found a value of type builtins.str" in refused(lambda o: "cosine")
    spec = make_spec(SCHEDULERS["LambdaLR"])
    with pytest.raises(cleave.ExportError, match="expected a positive number of steps as schedule_steps, found 0"):
        dataclasses.replace(spec, schedule_steps=0)


def test_a_function_makes_the_scheduler(tmp_path):
    """The user's optimizer stays as it is, though OneCycleLR writes rates and momentum when it is made."""
    spec = make_spec(lambda o: lambda optimizer: SCHEDULERS["OneCycleLR"](optimizer))
    program = cleave.export_spec(spec, tmp_path).read_text()
    assert [group["lr"] for group in spec.optimizer.param_groups] == [0.3, 0.1]
    (tmp_path / "made").mkdir()
    assert program == cleave.export_spec(make_spec(SCHEDULERS["OneCycleLR"]), tmp_path / "made").read_text()
