"""A run that is continued with other data, another batch and other learning rates, while it has a scale of its loss, moving
averages, sums in float32 or several optimizers: bit for bit PyTorch that goes on with the same."""

import dataclasses

import cleave
import pytest
import test_accumulate_in
import test_loss_scaling
import torch
import training
from cleave import testing
from formed_runs import Form, FormedRun
from torch import nn, optim

STEPS, CHANGED = 8, 5  # the first step that is another
pytestmark = pytest.mark.usefixtures("one_thread")


@dataclasses.dataclass(frozen=True)
class Halved(cleave.WarmupCosine):
    """From the update `since` on."""

    since: int = 1

    def factor(self, step):
        return super().factor(step) * (0.5 if step >= self.since else 1)


def muon(parameters):
    return [optim.Muon(parameters[:1], lr=0.02), optim.AdamW(parameters[1:], lr=0.02)]


def half(make):
    torch.manual_seed(0)
    return test_loss_scaling.make_spec(test_loss_scaling.Half(), (torch.randn(4, 6),), nn.functional.cross_entropy, make)


def sums(**options):
    return dataclasses.replace(test_accumulate_in.make_spec(**options), lr_schedule=cleave.WarmupCosine(3, 10))


class Resting(torch.amp.GradScaler):
    """Out of use in the steps named."""

    def __init__(self, steps, **options):
        super().__init__("cpu", **options)
        self.steps, self.step_number = steps, 0

    def rests(self):
        return self.step_number in self.steps

    def scale(self, outputs):
        return outputs if self.rests() else super().scale(outputs)

    def unscale_(self, optimizer):
        if not self.rests():
            super().unscale_(optimizer)

    def step(self, optimizer, *args, **kwargs):
        return optimizer.step() if self.rests() else super().step(optimizer, *args, **kwargs)

    def update(self, new_scale=None):
        if not self.rests():
            super().update(new_scale)
        self.step_number += 1


SCALE = {"init-scale": 2.0**19, "growth-interval": 2}
LOWER = SCALE | {"init-scale": 2.0**17}
CASES = {
    "scale and averages": (lambda: half(lambda p: optim.AdamW(p, lr=0.02)), SCALE),
    "several, scale and averages": (lambda: half(muon), SCALE),
    "sums and averages": (lambda: sums(ema=cleave.EMA(0.8)), None),
    "sums and scale": (lambda: sums(), SCALE | {"init-scale": 1e38, "backoff-factor": 1e-20}),
}


@pytest.mark.parametrize("case", CASES)
def test_changes(build_dir, tmp_path, case):
    make, scale = CASES[case]
    run = FormedRun(build_dir, tmp_path, make(), Form(passes=[test_loss_scaling.scale_pass(scale)] if scale else []), STEPS)
    run.train(steps=CHANGED - 1)
    batches = training.random_batches(run.spec, STEPS, 3, seed=2)
    data = training.save_batches(run.spec, batches, tmp_path / "other.safetensors")
    options = run.options()
    options[options.index("--microbatches") + 1] = 3
    options[options.index("--data") + 1] = f"safetensors:{data}"
    refused = training.run(build_dir, run.program, *options, "--resume")
    assert refused.returncode == 1 and "resuming would change its results" in refused.stderr
    training.train(build_dir, run.program, *options, "--resume", "--lr-scale", 0.5, "--continue-with=batch,data,lr")

    def scaler():
        return test_loss_scaling.scaler_of(scale) if scale else None

    skipped = 0
    if scale:
        skipped = testing.train(run.spec, run.batches[: CHANGED - 1], 2, scaler=scaler()).scales[-1][1]
        assert 0 < skipped < CHANGED - 1
    spec = dataclasses.replace(run.spec, lr_schedule=Halved(3, 10, since=CHANGED - skipped))
    counts = [2] * (CHANGED - 1) + [3] * (STEPS - CHANGED + 1)
    expected = testing.train(spec, run.batches[: CHANGED - 1] + batches[CHANGED - 1 :], counts, scaler=scaler())
    rows = training.read_metrics(tmp_path / "m.jsonl")
    assert [row["loss"] for row in rows] == expected.losses
    if scale:
        assert [(row["loss_scale"], row["skipped_steps"]) for row in rows] == expected.scales
        assert expected.scales[-1][1] < STEPS - 2
    assert run.differing(expected) == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_scale_rests(build_dir, tmp_path, ranks):
    """A program without a scale goes on with a run that had one, and one with a scale with that: skipped steps stay
    skipped, for bias corrections, schedules and PyTorch's optimizers, and the scale waits in the checkpoints."""
    spec = half(lambda p: optim.AdamW(p, lr=0.02))
    sync = ["--sync-gradients=axis=dp"] if ranks > 1 else []
    scaled = Form(ranks, 2 // ranks, None, [*sync, test_loss_scaling.scale_pass(LOWER)])
    run = FormedRun(build_dir, tmp_path, spec, scaled, STEPS)
    run.train(steps=3)
    program = run.program
    run.program = tmp_path / "unscaled.mlir"
    training.optimize(build_dir, run.exported, *sync, "-o", run.program)
    for steps in (4, 5):
        run.train("--resume", steps=steps)
    module = testing._Run(spec).module
    optimizer = optim.AdamW(module.parameters(), lr=0.02)
    assert cleave.load_checkpoint(module, tmp_path / "run", optimizer=optimizer) == 5
    run.program = program
    rows = run.train("--resume")
    expected = run.expect(scaler=Resting((3, 4), **{name.replace("-", "_"): value for name, value in LOWER.items()}))
    skipped = expected.scales[2][1]
    assert 0 < skipped < 3 and {float(state["step"]) for state in optimizer.state.values()} == {5 - skipped}
    assert [row.get("loss_scale") for row in rows] == [None if n in (3, 4) else s for n, (s, _) in enumerate(expected.scales)]
    assert [row["skipped_steps"] for row in rows] == [count for _, count in expected.scales]
    # Two ranks add up what the two microbatches of one rank do.
    assert [row["loss"] for row in rows] == expected.losses
    assert run.differing(expected) == []
