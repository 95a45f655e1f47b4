"""Every class of torch.optim, each option once, in f32 on 2 and 4 ranks under FSDP and TP, against PyTorch on one: sums in
another order make a difference of an ulp, which steps must not magnify."""

import cleave
import combinations_cover
import pytest
import torch
import training
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, testing
from test_optimizers import OPTIMIZERS, STEPS, make_spec
from torch import optim

TOLERANCE = 1e-6
pytestmark = pytest.mark.usefixtures("one_thread")
# Ascent with momentum at test_optimizers.py's rate goes to infinity, and differences with it; Adafactor's steps are large, too.
OPTIMIZERS = OPTIMIZERS | {
    "adafactor": lambda p: optim.Adafactor(p, lr=0.03, weight_decay=0.01, maximize=True),
    "sgd-maximize": lambda p: optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.1, weight_decay=0.01, maximize=True),
    "sgd-nesterov": lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, maximize=True),
}
# What no order of sums can keep to 1e-6, of losses and of parameters and states: a centered RMSprop divides by the root of
# the difference of two nearly equal averages, of which few bits are left; Muon rounds its matrices to bfloat16, where an
# ulp is 4e-3, five times over.
BOUNDS = {"rmsprop-centered": (1e-5, 1e-3), "muon": (1e-2, 0.1), "muon-plain": (1e-2, 0.1)}
# Averages of squares differ twice as much as what is squared; the parameters that they lead to do not.
STATE_BOUNDS = {"adadelta": 5e-6, "adafactor": 5e-6}
TP = {"0": ColwiseParallel("tp"), "3": RowwiseParallel("tp")}
LAYOUTS = {
    "fsdp2": Plan({"dp": 2}, {"": FSDP("dp")}),
    "tp2": Plan({"tp": 2}, TP),
    "fsdp2 x tp2": Plan({"dp": 2, "tp": 2}, {"": FSDP("dp"), **TP}),
    "fsdp4": Plan({"dp": 4}, {"": FSDP("dp")}),
}


def cases():
    """All classes under all layouts, or half of the classes, each under one of the day's."""
    if combinations_cover.run_all():
        return [(name, layout) for name in OPTIMIZERS for layout in LAYOUTS]
    layouts, day = list(LAYOUTS), combinations_cover.seed()
    # Two days have all classes, and the next two have them under other layouts.
    names = combinations_cover.part_of_today(list(OPTIMIZERS))
    return [(name, layouts[(number + day // 2) % len(layouts)]) for number, name in enumerate(names)]


@pytest.mark.parametrize("name, layout", cases())
def test_steps_are_those_of_one_rank(build_dir, tmp_path, name, layout):
    spec = make_spec(OPTIMIZERS[name], name)
    program = cleave.export_spec(spec, tmp_path)
    batches = training.random_batches(spec, STEPS, 2, seed=1)
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    LAYOUTS[layout].write(tmp_path / "plan.json")
    path = tmp_path / "placed.mlir"
    training.optimize(build_dir, program, f"--annotate-placements=plan={tmp_path / 'plan.json'}",
                      "--propagate-placements", "--partition", "-o", path)  # fmt: skip
    training.train(build_dir, path, "--weights", program.with_suffix(".safetensors"), "--ranks",
                   4 if "4" in layout or "x" in layout else 2, "--ranks-as", "threads", "--steps", STEPS, "--microbatches", 2,
                   "--threads", 1, "--data", f"safetensors:{data}", "--metrics", tmp_path / "m", "--checkpoint",
                   tmp_path / "run")  # fmt: skip
    expected = testing.train(spec, batches, 2)
    found = training.checkpoint_tensors(training.newest_checkpoint(tmp_path / "run"))
    wanted = training.expected_tensors(expected, spec)
    assert found.keys() == wanted.keys()
    loss_bound, bound = BOUNDS.get(name, (TOLERANCE, TOLERANCE))
    state_bound = STATE_BOUNDS.get(name, bound)
    assert training.losses(tmp_path / "m") == pytest.approx(expected.losses, rel=loss_bound)
    # Of a tensor's largest element: small ones are differences of large ones.
    far = {n: float((found[n] - w).abs().max() / w.abs().max()) for n, w in wanted.items() if not torch.equal(found[n], w)}
    bounds = {n: state_bound if n.startswith("optim.") else bound for n in far}
    assert {n: difference for n, difference in far.items() if not difference <= bounds[n]} == {}
