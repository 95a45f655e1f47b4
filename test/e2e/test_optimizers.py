"""Optimizers whose steps are traced, against PyTorch's ordinary ones: bit for bit on one rank."""

import dataclasses

import cleave
import pytest
import torch
from cleave import testing
from cleave.export import ExportSpec, export_spec
from combinations_cover import part_of_today
from own_optimizers import Grouped, Lion, Lookahead, NormalizedSGD, Numbers
from torch import nn, optim
from torch.optim import lr_scheduler
from training import (
    checkpoint_tensors, expected_tensors, losses, newest_checkpoint, random_batches, save_batches, train,
)  # fmt: skip

STEPS = 20
pytestmark = pytest.mark.usefixtures("one_thread")

# Each class with each of its options; ASGD averages from step 8 on.
OPTIMIZERS = {
    "adadelta": lambda p: optim.Adadelta(p, lr=0.5, weight_decay=0.01, maximize=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.1),
    "adagrad-maximize": lambda p: optim.Adagrad(p, lr=0.05, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adam-amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, maximize=True, decoupled_weight_decay=True),
    "adamw-amsgrad": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True, maximize=True),
    "adamax": lambda p: optim.Adamax(p, lr=0.01, weight_decay=0.01, maximize=True),
    "asgd": lambda p: optim.ASGD(p, lr=0.05, lambd=0.01, t0=8, weight_decay=0.01, maximize=True),
    "nadam": lambda p: optim.NAdam(p, lr=0.01, weight_decay=0.01),
    "nadam-decoupled": lambda p: optim.NAdam(p, lr=0.01, weight_decay=0.01, decoupled_weight_decay=True, maximize=True),
    "radam": lambda p: optim.RAdam(p, lr=0.01, weight_decay=0.01),
    "radam-decoupled": lambda p: optim.RAdam(p, lr=0.01, weight_decay=0.01, decoupled_weight_decay=True, maximize=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, weight_decay=0.01),
    "rmsprop-centered": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True, maximize=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.01, maximize=True),
    "adamw-ordinary": lambda p: optim.AdamW(p, lr=0.01, foreach=False),
    "sgd-ordinary": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, foreach=False),
    "sgd-maximize": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, maximize=True),
    "sgd-nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.3, weight_decay=0.01, maximize=True),
    "muon": lambda p: [
        optim.Muon([each for each in p if each.dim() == 2], lr=0.02),
        optim.AdamW([each for each in p if each.dim() != 2], lr=0.01),
    ],
    "muon-plain": lambda p: [
        optim.Muon([each for each in p if each.dim() == 2], lr=0.02, nesterov=False, adjust_lr_fn="match_rms_adamw"),
        optim.NAdam([each for each in p if each.dim() != 2], lr=0.01),
    ],
}


def make_spec(make, name, schedule=lambda optimizer: cleave.WarmupCosine(4, STEPS, 0.1)):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))
    optimizer = make(list(module.parameters()))
    return ExportSpec(
        module, (torch.randn(4, 5),), loss=nn.functional.cross_entropy, targets=(torch.randint(3, (4,)),), name=name,
        optimizer=optimizer, lr_schedule=schedule(optimizer), schedule_steps=STEPS,
    )  # fmt: skip


def compare(build_dir, folder, spec, *options, steps=STEPS):
    program = export_spec(spec, folder)
    batches = random_batches(spec, steps, 2, seed=1)
    data = save_batches(spec, batches, folder / "data.safetensors")
    train(build_dir, program, "--steps", steps, "--microbatches", 2, "--threads", 1, "--data", f"safetensors:{data}",
          "--metrics", folder / "m.jsonl", "--checkpoint", folder / "run", *options)  # fmt: skip
    expected = testing.train(spec, batches, 2)
    assert losses(folder / "m.jsonl") == expected.losses
    found = checkpoint_tensors(newest_checkpoint(folder / "run"))
    wanted = expected_tensors(expected, spec)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []


@pytest.mark.parametrize("name", part_of_today(list(OPTIMIZERS)))
def test_steps_are_those_of_the_ordinary_optimizer_bit_for_bit(build_dir, tmp_path, name):
    compare(build_dir, tmp_path, make_spec(OPTIMIZERS[name], name))


@pytest.mark.parametrize(
    "make, implementation",
    [(optim.RAdam, "foreach"), (optim.Rprop, "foreach"), (optim.Adagrad, "fused"), (optim.AdamW, "fused"), (optim.SGD, "foreach")],
)
def test_the_implementation_does_not_matter(tmp_path, make, implementation):
    texts = [
        export_spec(make_spec(lambda p, o=options: make(p, lr=0.01, **o), "made"), tmp_path).read_text()
        for options in ({}, {implementation: True})
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", [Lion, Lookahead, NormalizedSGD, Numbers, Grouped])
def test_steps_of_a_users_own_optimizer_bit_for_bit(build_dir, tmp_path, kind):
    compare(build_dir, tmp_path, make_spec(kind, "own"))


def test_groups_frozen_parameters_and_a_part_without_decay(build_dir, tmp_path):
    def make(parameters):
        parameters[0].requires_grad_(False)
        matrices, vectors = parameters[4:5], parameters[1:4]
        return [
            optim.RAdam([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "lr": 0.02}], lr=0.01),
            optim.SGD(parameters[5:], lr=0.1, momentum=0.9),
        ]

    compare(build_dir, tmp_path, make_spec(make, "groups"))


SCHEDULES = {
    "a traced one": ("radam", lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch)),
    "one for each": (
        "muon",
        lambda o: [lr_scheduler.CosineAnnealingLR(o[0], STEPS), lr_scheduler.OneCycleLR(o[1], 0.02, total_steps=STEPS)],
    ),
    "of the second alone": ("muon-plain", lambda o: lr_scheduler.StepLR(o[1], 3, 0.5)),
    "a function": ("muon-plain", lambda o: lambda each: lr_scheduler.LinearLR(each, 0.1, total_iters=7)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedulers_of_several_optimizers(build_dir, tmp_path, name):
    optimizer, schedule = SCHEDULES[name]
    compare(build_dir, tmp_path, make_spec(OPTIMIZERS[optimizer], "scheduled", schedule))


def test_what_schedulers_of_several_optimizers_cannot_do(tmp_path):
    def refuse(optimizer, schedule):
        with pytest.raises(cleave.ExportError) as error:
            export_spec(make_spec(OPTIMIZERS[optimizer], "refused", schedule), tmp_path)
        return str(error.value)

    assert refuse("muon", lambda o: [cleave.Constant()]) == "expected an lr_schedule for each of 2 optimizers, found 1"
    assert "one of another optimizer" in refuse("muon", lambda o: list(reversed(
        [lr_scheduler.StepLR(each, 3) for each in o])))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("optimizer", [optim.NAdam, lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9)])
def test_a_scheduler_that_writes_momentum_too(build_dir, tmp_path, optimizer):
    def schedule(made):
        return optim.lr_scheduler.OneCycleLR(made, max_lr=0.1, total_steps=STEPS)

    compare(build_dir, tmp_path, dataclasses.replace(make_spec(optimizer, "cycle"), lr_schedule=schedule))


def test_a_momentum_of_zero_is_refused(tmp_path):
    def schedule(made):
        return optim.lr_scheduler.OneCycleLR(made, max_lr=0.1, total_steps=STEPS, base_momentum=0.0, max_momentum=0.5)

    spec = dataclasses.replace(
        make_spec(lambda p: optim.RMSprop(p, momentum=0.9), "zero"), lr_schedule=schedule
    )
    with pytest.raises(cleave.ExportError, match="momentum above 0 in all steps"):
        export_spec(spec, tmp_path)
