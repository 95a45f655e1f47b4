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


SCALE = {"init-scale": 2.0**19, "growth-interval": 2}
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
