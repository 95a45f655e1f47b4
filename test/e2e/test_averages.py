"""Moving averages of the parameters, against torch.optim.swa_utils.AveragedModel: bit for bit on one rank, in float64 on several."""

import copy
import dataclasses

import cleave
import pytest
import torch
import training
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, testing
from cleave.export import ExportError
from own_optimizers import Lookahead
from torch import nn, optim

STEPS, TOLERANCE = 6, 1e-10


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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


def save(spec, folder, microbatches=2):
    batches = training.random_batches(spec, STEPS, microbatches, seed=1)
    return batches, f"safetensors:{training.save_batches(spec, batches, folder / 'data.safetensors')}"


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


def expect_bits(build_dir, folder, spec, program):
    batches, data = save(spec, folder)
    training.train(build_dir, program, "--steps", STEPS, "--microbatches", 2, "--threads", 1, "--data", data,
                   "--metrics", folder / "m.jsonl", "--checkpoint", folder / "run")  # fmt: skip
    expected = testing.train(spec, batches, 2)
    assert training.losses(folder / "m.jsonl") == expected.losses
    found = training.checkpoint_tensors(training.newest_checkpoint(folder / "run"))
    wanted = training.expected_tensors(expected, spec)
    assert any(name.endswith(".ema") for name in wanted)
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_averages_are_those_of_averaged_model_bit_for_bit(build_dir, tmp_path, name):
    spec = make_spec(OPTIMIZERS[name], name=name, dtype=torch.float32)
    expect_bits(build_dir, tmp_path, spec, cleave.export_spec(spec, tmp_path))


@pytest.mark.parametrize("name", ["gpt_tied", "resnet18"])
def test_averages_of_models_bit_for_bit(build_dir, tmp_path, name):
    spec = dataclasses.replace(training.MODELS[name](), ema=cleave.EMA(0.9), name=name)
    expect_bits(build_dir, tmp_path, spec, cleave.export_spec(spec, tmp_path))
