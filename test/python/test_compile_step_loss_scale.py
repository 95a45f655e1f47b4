"""`cleave.compile_step(scaler=)`: torch.amp.GradScaler around a compiled step, bit for bit as in eager mode."""

import copy
import json
import math
import re

import cleave_path  # noqa: F401
import cleave
import forked_ranks
import pytest
import scaler_ranks
import torch
import torch.nn.functional as F
from combinations_cover import covered

pytestmark = pytest.mark.usefixtures("one_thread")


class Half(torch.nn.Module):
    """Computes in float16, whose numbers end at 65504."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

    def forward(self, x):
        with torch.autocast("cpu", torch.float16):
            return self.layers(x)


def pair(make_optimizer, **options):
    """A model, its optimizer and scaler, and their twins for eager mode."""
    torch.manual_seed(0)
    model = Half()
    models = model, copy.deepcopy(model)
    scalers = [torch.amp.GradScaler("cpu", **options) for _ in models]
    return list(zip(models, [make_optimizer(m.parameters()) for m in models], scalers))


def step_eagerly(model, optimizer, scaler, x, y, clip_norm):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    norm = math.nan
    if clip_norm is not None:
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm).item()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return loss.item(), norm


def batch(number):
    """Of three sizes; the fourth is so large that its gradients are not numbers of float16."""
    size = (8, 6, 5)[number % 3]
    return torch.randn(size, 8) * (1e3 if number == 3 else 1), torch.randint(4, (size,))


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-1, momentum=0.9, fused=True),
    "adam, traced": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1, foreach=False),
}
# That of PyTorch's fused SGD would leave momentum uninitialised where its first step is skipped.
SCALES = {"adamw": 2.0**19, "sgd": 2.0**12, "adam, traced": 2.0**19}


@covered({"clip_norm": [None, 0.5], "name": list(OPTIMIZERS)}, strength=1)
def test_steps_are_those_of_a_scaler_in_eager_mode(name, clip_norm):
    """Some are skipped, the first too where the scale is large; it shrinks and grows. Batches of three sizes have programs."""
    (model, optimizer, scaler), twin = pair(OPTIMIZERS[name], init_scale=SCALES[name], growth_interval=2)
    step = cleave.compile_step(model, F.cross_entropy, optimizer, clip_norm=clip_norm, scaler=scaler)
    scales = []
    for number in range(9):
        x, y = batch(number)
        out = step(x, y)
        loss, norm = step_eagerly(*twin, x, y, clip_norm)
        assert out.loss.item() == loss
        assert out.grad_norm is None if clip_norm is None else out.grad_norm.item() == norm or not math.isfinite(norm)
        assert scaler.state_dict() == twin[2].state_dict()
        scales.append(scaler.get_scale())
        assert all(torch.equal(p, other) for p, other in zip(model.parameters(), twin[0].parameters()))
    pairs = list(zip([SCALES[name], *scales], scales))
    assert any(after < before for before, after in pairs) and any(after > before for before, after in pairs)
    # Steps that were taken are counted, skipped ones not.
    for p, other in zip(model.parameters(), twin[0].parameters()):
        for key, value in twin[1].state[other].items():
            assert value is None or torch.equal(optimizer.state[p][key], value), key


def test_a_saved_scaler_goes_on_in_eager_mode_and_back():
    (model, optimizer, scaler), twin = pair(OPTIMIZERS["adamw"], init_scale=2.0**17, growth_interval=2)
    step = cleave.compile_step(model, F.cross_entropy, optimizer, scaler=scaler)
    for number in (0, 1, 2, 3):
        x, y = batch(number)
        assert step(x, y).loss.item() == step_eagerly(*twin, x, y, None)[0]
    mine, other = (model, optimizer, scaler), twin
    for target, source in zip(mine, other):
        target.load_state_dict(copy.deepcopy(source.state_dict()))
    for number in (4, 5):
        x, y = batch(number)
        assert step(x, y).loss.item() == step_eagerly(*twin, x, y, None)[0]
    assert scaler.state_dict() == twin[2].state_dict()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), twin[0].parameters()))


def test_a_scaler_that_is_not_enabled_scales_nothing():
    (model, optimizer, _), _ = pair(OPTIMIZERS["adamw"])
    step = cleave.compile_step(model, F.cross_entropy, optimizer, scaler=torch.amp.GradScaler("cpu", enabled=False))
    step(*batch(0))
    assert "loss_scaling" not in str(step.program)


def test_what_is_no_scaler_or_another_rule():
    (model, optimizer, scaler), _ = pair(OPTIMIZERS["adamw"])
    with pytest.raises(cleave.ExportError, match="expected a torch.amp.GradScaler, found a value of type int"):
        cleave.compile_step(model, F.cross_entropy, optimizer, scaler=1024)
    step = cleave.compile_step(model, F.cross_entropy, optimizer, passes="scale-loss")
    text = "found a pass that scales the loss, without the scaler whose scale it is: expected compile_step(scaler="
    with pytest.raises(cleave.ExportError, match=re.escape(text)):
        step(*batch(0))
    step.close()
    step = cleave.compile_step(model, F.cross_entropy, optimizer, scaler=scaler)
    step(*batch(0))
    scaler.set_growth_interval(7)
    with pytest.raises(cleave.Error, match="GradScaler's rule: expected .*'growth-interval': 2000}.* found .*interval': 7}"):
        step(*batch(0))


def test_on_ranks_as_on_one(tmp_path):
    """Data parallel, fully sharded and in a pipeline: losses, norms and scales of float64."""
    file = tmp_path / "results.json"
    ran = forked_ranks.run(2, scaler_ranks.__file__, file)
    assert ran.returncode == 0, ran.stderr[-4000:]
    results = json.loads(file.read_text())

    # One rank in eager mode.
    model, scaler = scaler_ranks.model(), scaler_ranks.scaler()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    expected = []
    for number in range(scaler_ranks.STEPS):
        x, y = scaler_ranks.batch(number)
        optimizer.zero_grad()
        loss, before = scaler_ranks.loss(model(x), y), scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        expected.append((loss.item(), norm.item(), before, scaler.get_scale()))
    assert 0 < sum(after < before for *_, before, after in expected) < scaler_ranks.STEPS - 2
    for name in scaler_ranks.LAYOUTS:
        for (loss, norm, *scales), (other, other_norm, *others) in zip(results[name], expected, strict=True):
            assert loss == pytest.approx(other, rel=1e-12) and scales == others, name
            assert norm == pytest.approx(other_norm, rel=1e-9) if math.isfinite(other_norm) else not math.isfinite(norm)
