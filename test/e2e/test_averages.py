"""Moving averages of the parameters, against torch.optim.swa_utils.AveragedModel: bit for bit on one rank, in float64 on several."""

import copy
import dataclasses

import cleave
import pytest
import torch
import training
from cleave import testing
from cleave.convert import convert
from cleave.export import ExportError
from formed_runs import FSDP2, PLACED, TP2, Form, FormedRun, pipeline
from own_optimizers import Lookahead
from safetensors.torch import load_file
from torch import nn, optim

STEPS, TOLERANCE = 6, 1e-10
pytestmark = pytest.mark.usefixtures("one_thread")


class Tied(nn.Module):
    """Has a weight under two names, one that is frozen, and a buffer."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(12, 8), nn.Linear(8, 8), nn.Linear(8, 12, bias=False)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head.weight = self.embed.weight
        self.mix.bias.requires_grad_(False)
        self.register_buffer("scale", torch.rand(8))

    def forward(self, tokens):
        x = torch.tanh(self.mix(self.embed(tokens))) * self.scale
        return self.head(x + self.down(torch.relu(self.up(x))))


def make_spec(make=lambda p: optim.AdamW(p, lr=0.02), decay=0.8, name="tied", dtype=torch.float64):
    torch.manual_seed(0)
    module = Tied().to(dtype)
    tokens = torch.randint(12, (4, 6))
    return cleave.ExportSpec(
        module, (tokens,), targets=(tokens.clone(),), name=name, ema=cleave.EMA(decay),
        loss=lambda out, target: nn.functional.cross_entropy(out.flatten(0, 1), target.flatten()),
        optimizer=make([p for p in module.parameters() if p.requires_grad]), lr_schedule=cleave.WarmupCosine(3, 10),
    )  # fmt: skip


# One rank ------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "adamw": lambda p: optim.AdamW(p, lr=0.02),
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "radam": lambda p: optim.RAdam(p, lr=0.02),
    "own": Lookahead,
    "muon": lambda p: [
        optim.Muon([each for each in p if each.dim() == 2], lr=0.02),
        optim.AdamW([each for each in p if each.dim() != 2], lr=0.01),
    ],
}


def expect_bits(run):
    rows, expected = run.train(), run.expect()
    assert [row["loss"] for row in rows] == expected.losses
    assert any(name.endswith(".ema") for name in expected.tensors)
    assert run.differing(expected) == []


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_averages_are_those_of_averaged_model_bit_for_bit(build_dir, tmp_path, name):
    expect_bits(FormedRun(build_dir, tmp_path, make_spec(OPTIMIZERS[name], name=name, dtype=torch.float32)))


@pytest.mark.parametrize("name", ["gpt_tied", "resnet18"])
def test_averages_of_models_bit_for_bit(build_dir, tmp_path, name):
    expect_bits(FormedRun(build_dir, tmp_path, dataclasses.replace(training.MODELS[name](), ema=cleave.EMA(0.9), name=name)))


# Ranks ---------------------------------------------------------------------------------------------

FORMS = {
    "data": Form(2, 1, None, ["--sync-gradients=axis=dp", "--bucket-gradients", "--clip-gradients"]),
    "fsdp": Form(2, 2, FSDP2, [*PLACED, "--split-fsdp-collectives", "--bucket-gradients"]),
    "tp": Form(2, 2, TP2, PLACED),
    "pipeline": Form(2, 2, None, pipeline()),
    "lowered": Form(passes=["--canonicalize", "--cse", "--lower-to-exec"]),
    "fsdp-lowered": Form(2, 2, FSDP2, [*PLACED, "--lower-to-exec"]),
}


def averaged_loss(spec, checkpoint, batches):
    """The mean loss of the averaged module, in PyTorch."""
    module = copy.deepcopy(spec.module)
    cleave.load_checkpoint(module, checkpoint, averages=True)
    parts = [part for batch in batches for part in testing.split_batch(spec, batch, 2)]
    names = [source.name for source in testing.Signature(spec).inputs]
    with torch.no_grad():
        return sum(spec.loss(module(part[names[0]]), part[names[1]]).item() for part in parts) / len(parts)


@pytest.mark.parametrize("form", FORMS)
def test_averages_on_ranks_are_those_of_one(build_dir, tmp_path, form):
    """And evaluations of them are those of the averaged module, after which training goes on with the parameters."""
    run = FormedRun(build_dir, tmp_path, make_spec(), FORMS[form])
    evaluate = ["--eval-data", run.data, "--eval-every", 3, "--eval-with", "ema"]
    run.train(*evaluate, steps=3)
    rows = run.train(*evaluate, "--resume")
    for step in (3, STEPS):
        wanted = averaged_loss(run.spec, tmp_path / "run" / f"step-{step:08}", run.batches)
        assert rows[step - 1]["eval_loss"] == pytest.approx(wanted, rel=TOLERANCE)
    expected = run.expect(max_norm=1.0 if form == "data" else None)
    assert [row["loss"] for row in rows] == pytest.approx(expected.losses, rel=TOLERANCE)
    assert run.far(expected, TOLERANCE) == []
    found = run.tensors()
    assert found["optim.head.weight.ema"].equal(found["optim.embed.weight.ema"])


# Back to PyTorch, and errors -----------------------------------------------------------------------


def test_averages_in_pytorch(build_dir, tmp_path):
    run = FormedRun(build_dir, tmp_path, make_spec())
    run.train()
    spec = run.spec
    module, plain = copy.deepcopy(spec.module), copy.deepcopy(spec.module)
    cleave.load_checkpoint(module, tmp_path / "run", averages=True)
    cleave.load_checkpoint(plain, tmp_path / "run")
    expected = run.expect().tensors
    assert torch.allclose(module.embed.weight, expected["optim.embed.weight.ema"], rtol=0, atol=1e-12)
    assert module.head.weight is module.embed.weight and not torch.equal(module.up.weight, plain.up.weight)
    # What has no average has its value.
    assert torch.equal(module.mix.bias, plain.mix.bias) and torch.equal(module.scale, plain.scale)
    convert(tmp_path / "run", tmp_path / "averaged.safetensors", "safetensors", averages=True)
    state = load_file(tmp_path / "averaged.safetensors")
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def test_errors(build_dir, tmp_path):
    for decay in (-0.1, 1.5, float("nan"), "0.9", True):
        with pytest.raises(ExportError, match="expected a decay from 0 to 1 of the moving average, found"):
            cleave.EMA(decay)
    spec = make_spec()
    with pytest.raises(ExportError, match=r"expected cleave.EMA\(decay\) as ema, found a value of type builtins.float"):
        dataclasses.replace(spec, ema=0.9)
    with pytest.raises(ExportError, match="found ema without an optimizer"):
        dataclasses.replace(spec, optimizer=None, lr_schedule=None)

    class Averaging(Lookahead):
        def step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    average = self.state[parameter].setdefault("ema", torch.zeros_like(parameter)).add_(parameter.grad)
                    parameter.data.sub_(average)

    with pytest.raises(ExportError, match="the optimizer has a state 'ema' of 'embed.weight', which is the moving"):
        cleave.export_spec(make_spec(Averaging), tmp_path)
    plain = dataclasses.replace(make_spec(name="plain"), ema=None)
    case = FormedRun(build_dir, tmp_path, plain, steps=1)
    data = case.data
    run = [case.program, *case.options()]
    message = training.run(build_dir, *run, "--eval-data", data, "--eval-with", "ema").stderr
    assert "--eval-with ema expects moving averages of the parameters, found none: export it with ema=cleave.EMA" in message
    assert "--eval-with need --eval-data" in training.run(build_dir, *run, "--eval-with", "ema").stderr
    training.train(build_dir, *run)
    for read in (lambda: cleave.load_checkpoint(copy.deepcopy(plain.module), tmp_path / "run", averages=True),
                 lambda: convert(tmp_path / "run", tmp_path / "out", "safetensors", averages=True)):  # fmt: skip
        with pytest.raises(ValueError, match="expected moving averages of the parameters"):
            read()
