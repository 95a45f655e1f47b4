"""Optimizer state of checkpoints goes back to PyTorch's optimizers: eager mode continues from it, bit for bit."""

import copy

import cleave
import pytest
import torch
import training
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, testing
from combinations_cover import part_of_today
from own_optimizers import Grouped, Lion, Lookahead, Numbers
from test_optimizers import OPTIMIZERS, STEPS, make_spec
from torch import nn, optim

HALF = STEPS // 2
pytestmark = pytest.mark.usefixtures("one_thread")
OWN = {"grouped": Grouped, "lion": Lion, "lookahead": Lookahead, "numbers": Numbers}
FUSED = {
    "adam-fused": lambda p: optim.Adam(p, lr=0.01),
    "adamw-fused": lambda p: optim.AdamW(p, lr=0.01),
    "sgd-fused": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd-plain": lambda p: optim.SGD(p, lr=0.1),
}


def run_half(build_dir, folder, spec, *passes, options=()):
    """A run of half of the steps, and the batches of all."""
    program = cleave.export_spec(spec, folder)
    batches = training.random_batches(spec, STEPS, 2, seed=1)
    data = training.save_batches(spec, batches, folder / "data.safetensors")
    path = folder / "form.mlir"
    training.optimize(build_dir, program, *passes, "-o", path)
    training.train(build_dir, path, "--weights", program.with_suffix(".safetensors"), "--steps", HALF, "--microbatches", 2,
                   "--threads", 1, "--data", f"safetensors:{data}", "--checkpoint", folder / "run", *options)  # fmt: skip
    return batches


def continue_in_eager_mode(spec, run, batches):
    """The losses of the other half, and the parameters and states at the end."""
    going = testing._Run(spec)
    optimizers = going.make_optimizers()
    rates = [[group["lr"] for group in each.param_groups] for each in optimizers]
    assert cleave.load_checkpoint(going.module, run, optimizer=optimizers if len(optimizers) > 1 else optimizers[0]) == HALF
    losses = []
    for step in range(HALF + 1, STEPS + 1):
        for each, base in zip(optimizers, rates):
            each.zero_grad()
            for group, rate in zip(each.param_groups, base):
                group["lr"] = rate * spec.lr_schedules[0].factor(step)
        total = [going.microbatch(part, 0.5)["loss"] for part in testing.split_batch(going.spec, batches[step - 1], 2)]
        going.step(optimizers)
        losses.append(sum(float(loss) for loss in total) / 2)
    return losses, going.module, optimizers


@pytest.mark.parametrize("name", part_of_today([*OPTIMIZERS, *FUSED, *OWN], 3))
def test_eager_mode_continues_bit_for_bit(build_dir, tmp_path, name):
    spec = make_spec((OPTIMIZERS | FUSED | OWN)[name], name)
    batches = run_half(build_dir, tmp_path, spec)
    losses, module, _ = continue_in_eager_mode(spec, tmp_path / "run", batches)
    expected = testing.train(spec, batches, 2)
    assert losses == expected.losses[HALF:]
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, expected.tensors[f"param.{name}"]), name


LAYOUTS = {
    "fsdp-tp": (
        Plan({"dp": 2, "tp": 2}, {"": FSDP("dp"), "0": ColwiseParallel("tp"), "3": RowwiseParallel("tp")}),
        ["--propagate-placements", "--partition"], ["--ranks", 4],
    ),
    "1f1b": (
        None, ["--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=2",
               "--insert-p2p"], ["--ranks", 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_state_that_several_ranks_have_written(build_dir, tmp_path, layout):
    torch.set_default_dtype(torch.float64)
    try:
        plan, passes, options = LAYOUTS[layout]
        if plan:
            plan.write(tmp_path / "plan.json")
            passes = [f"--annotate-placements=plan={tmp_path / 'plan.json'}", *passes]
        spec = make_spec(OPTIMIZERS["radam"], "parts")
        spec.args = tuple(each.double() for each in spec.args)
        batches = run_half(build_dir, tmp_path, spec, *passes, options=options)
        losses, module, _ = continue_in_eager_mode(spec, tmp_path / "run", batches)
        expected = testing.train(spec, batches, 2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert losses == pytest.approx(expected.losses[HALF:], rel=1e-10)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected.tensors[f"param.{name}"], rtol=1e-10, atol=1e-10)


@pytest.fixture(scope="module")
def saved(build_dir, tmp_path_factory):
    """A run with AdamW."""
    folder = tmp_path_factory.mktemp("saved")
    spec = make_spec(FUSED["adamw-fused"], "saved")
    run_half(build_dir, folder, spec)
    return spec, folder / "run"


def test_the_state_dict_of_the_optimizer(saved):
    """PyTorch's own state_dict and load_state_dict take it from there; groups stay as they were."""
    spec, run = saved
    module = copy.deepcopy(spec.module)
    optimizer = optim.AdamW(module.parameters(), lr=0.125, foreach=True)
    before = copy.deepcopy(optimizer.state_dict()["param_groups"])
    cleave.load_checkpoint(module, run, optimizer=optimizer)
    state = optimizer.state_dict()
    assert state["param_groups"] == before and len(state["state"]) == len(list(module.parameters()))
    stored = training.checkpoint_group(training.newest_checkpoint(run), "optimizer")
    for number, (name, _) in enumerate(module.named_parameters()):
        assert state["state"][number].keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert state["state"][number]["step"].item() == HALF
        assert torch.equal(state["state"][number]["exp_avg"], stored[f"{name}.exp_avg"])
    other = optim.AdamW(module.parameters(), lr=0.125)
    other.load_state_dict(state)


def test_what_does_not_fit_sets_nothing(saved, tmp_path):
    spec, run = saved
    module = copy.deepcopy(spec.module)
    before = copy.deepcopy(module.state_dict())

    def refuse(optimizer, where=run):
        with pytest.raises(ValueError) as error:
            cleave.load_checkpoint(module, where, optimizer=optimizer)
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
        return str(error.value)

    message = refuse(optim.SGD(module.parameters(), lr=0.1, momentum=0.9))
    assert "the state does not match the optimizer:" in message and "extra: '0.bias.exp_avg'" in message
    assert "'0.weight': expected momentum_buffer, found other state" in message
    message = refuse(optim.AdamW(module.parameters(), amsgrad=True))
    assert "missing: '0.weight.max_exp_avg_sq'" in message and "extra" not in message
    message = refuse(optim.AdamW(list(module.parameters())[:2]))
    assert "extra: '2.weight.exp_avg'" in message and "missing" not in message
    assert "has a parameter that is not the model's" in refuse(optim.AdamW(nn.Linear(2, 2).parameters()))
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    assert "which has the state of a loss or optimizer, found none" in refuse(optim.AdamW(module.parameters()), tmp_path)
