"""What people do between steps, by `cleave.compile_step` and in eager mode: the same bits."""

import copy
import functools
import io
import re

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from eager_steps import EagerStep, check_is_eager_modes
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.optim import lr_scheduler

pytestmark = pytest.mark.usefixtures("one_thread")


def net(*inner):
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), *inner, nn.Linear(32, 3))


def batch(examples=16):
    return torch.randn(examples, 10), torch.randint(3, (examples,))


def adamw(model, lr=1e-2):
    return torch.optim.AdamW(model.parameters(), lr, fused=True)


def sgd(model, lr=1e-2, **options):
    return torch.optim.SGD(model.parameters(), lr, fused=True, **options)


def rate_finder(compile_step):
    """Rates that grow until training diverges, then back to the beginning, with momentum."""
    model = net()
    optimizer = sgd(model, 1e-4, momentum=0.9)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    step = compile_step(model, F.cross_entropy, optimizer)
    for number in range(6):
        optimizer.param_groups[0]["lr"] = 1e-4 * 10**number
        yield step(*batch()).loss
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    for _ in range(2):
        yield step(*batch()).loss
    yield from model.state_dict().values()


class Both:
    """Two optimizers as one, for eager mode."""

    def __init__(self, *optimizers):
        self._optimizers = optimizers
        self.param_groups = [group for each in optimizers for group in each.param_groups]

    def zero_grad(self):
        for each in self._optimizers:
            each.zero_grad()

    def step(self):
        for each in self._optimizers:
            each.step()


def two_optimizers(compile_step):
    """Each with a scheduler of its own; gradients are clipped together."""
    model = net()
    first, second = adamw(model[0]), sgd(model[2], 0.1, momentum=0.9)
    warmup = [lr_scheduler.LinearLR(second, 0.1, total_iters=2), lr_scheduler.ExponentialLR(second, 0.9)]
    schedulers = lr_scheduler.CosineAnnealingWarmRestarts(first, 3), lr_scheduler.SequentialLR(second, warmup, [2])
    both = Both(first, second) if compile_step is EagerStep else [first, second]
    step = compile_step(model, F.cross_entropy, both, clip_norm=1.0)
    for _ in range(6):
        yield step(*batch()).loss
        for scheduler in schedulers:
            scheduler.step()
    yield from model.state_dict().values()


def resumed_within_an_epoch(compile_step):
    """In new objects, from a file, random numbers included."""

    def make():
        model = net(nn.Dropout(0.1))
        optimizer = adamw(model)
        return model, optimizer, lr_scheduler.CosineAnnealingLR(optimizer, 8)

    run, saved = make(), io.BytesIO()
    for is_resumed in (False, True):
        if is_resumed:
            run, (states, generator) = make(), torch.load(saved)
            for each, state in zip(run, states):
                each.load_state_dict(state)
            torch.set_rng_state(generator)
        model, optimizer, scheduler = run
        step = compile_step(model, F.cross_entropy, optimizer)
        for _ in range(3):
            yield step(*batch()).loss
            scheduler.step()
        if not is_resumed:
            torch.save(([each.state_dict() for each in run], torch.get_rng_state()), saved)
            saved.seek(0)
    yield from model.state_dict().values()


def generation(compile_step):
    """Samples between steps, in inference mode; the weights are tied."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(20, 16), nn.Linear(16, 20)
            self.embed.weight = self.head.weight

        def forward(self, words):
            return self.head(self.embed(words).cumsum(1))

    model = Words()
    step = compile_step(model, lambda made, t: F.cross_entropy(made.flatten(0, 1), t.flatten()), adamw(model))
    for _ in range(3):
        words = torch.randint(20, (4, 7))
        yield step(words[:, :-1], words[:, 1:]).loss
        model.eval()
        made = torch.randint(20, (1, 1))
        with torch.inference_mode():
            for _ in range(5):
                made = torch.cat([made, torch.multinomial(model(made)[:, -1].softmax(-1), 1)], 1)
        model.train()
        yield made.clone()
    yield from model.state_dict().values()


def frozen_statistics(compile_step):
    """Batch normalization goes to evaluation mode while the rest trains."""
    model = net(nn.BatchNorm1d(32))
    step = compile_step(model, F.cross_entropy, sgd(model, momentum=0.9))
    for number in range(4):
        if number == 2:
            model[2].eval()
        yield step(*batch()).loss
    yield from model.state_dict().values()


def growing_batches(compile_step):
    model = net()
    step = compile_step(model, F.cross_entropy, adamw(model))
    for size in (2, 8, 16, 2):
        yield step(*batch(size)).loss
    yield from model.state_dict().values()


def parametrized(compile_step):
    """By PyTorch's parametrizations, and a weight of which half is pruned."""
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(10, 16)), nn.ELU(), nn.Linear(16, 3))
    prune.l1_unstructured(model[2], "weight", 0.5)
    step = compile_step(model, F.cross_entropy, adamw(model))
    for _ in range(3):
        yield step(*batch()).loss
    yield from model.state_dict().values()


def slow_weights(compile_step):
    """Lookahead: weights go half the way back to those of three steps ago."""
    model = net()
    step, slow = compile_step(model, F.cross_entropy, adamw(model)), copy.deepcopy(list(model.parameters()))
    for number in range(6):
        yield step(*batch()).loss
        if number % 3 == 2:
            with torch.no_grad():
                for p, other in zip(model.parameters(), slow):
                    p.copy_(other.lerp_(p, 0.5))
    yield from model.state_dict().values()


def sharpness(compile_step):
    """SAM: the step's gradients are those of weights that are moved before it, and moved back after."""
    model = net()
    step = compile_step(model, F.cross_entropy, sgd(model))
    for _ in range(3):
        x, y = batch()
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
        for sign in (1, -1):
            with torch.no_grad():
                for p, gradient in zip(model.parameters(), gradients):
                    p.add_(gradient, alpha=0.05 * sign)
            if sign == 1:
                yield step(x, y).loss
    yield from model.state_dict().values()


def hostile_examples(compile_step):
    """Made by gradients of the model's inputs, between steps; mixed with others by a number that is drawn."""
    model = net()

    def loss(made, first, second, share):
        return share * F.cross_entropy(made, first) + (1 - share) * F.cross_entropy(made, second)

    step = compile_step(model, loss, adamw(model))
    for _ in range(3):
        (x, y), share, order = batch(), torch.rand(()), torch.randperm(16)
        moved = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(moved), y), moved)
        x = x + 0.1 * gradient.sign()
        yield step(share * x + (1 - share) * x[order], y, y[order], share).loss
    yield from model.state_dict().values()


def rates_from_zero(compile_step):
    """Layers wait with lr=0; some values and a state are set by hand."""
    model = net()
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}]
    optimizer = torch.optim.AdamW(groups, 1e-2, fused=True)
    step = compile_step(model, F.cross_entropy, optimizer)
    for number in range(4):
        if number == 2:
            optimizer.param_groups[0]["lr"] = 1e-2
            model.load_state_dict({"0.bias": torch.ones(32)}, strict=False)
            nn.init.zeros_(model[2].bias)
            optimizer.state[model[0].weight]["exp_avg"].zero_()
        yield step(*batch()).loss
    yield from model.state_dict().values()


def modes_around_it(compile_step):
    """Anomaly detection, a generator that is set aside, and no_grad(), which does not concern a compiled step."""
    model = net(nn.Dropout(0.5))
    step = compile_step(model, F.cross_entropy, sgd(model))
    with torch.autograd.set_detect_anomaly(True), torch.random.fork_rng():
        yield step(*batch()).loss
    for size in (16, 8):
        with torch.set_grad_enabled(compile_step is EagerStep):
            yield step(*batch(size)).loss
    yield from model.state_dict().values()


def compiled_already(compile_step):
    """By torch.compile, as a wrapper and in place: the step is of the module."""
    for wrap in (lambda model: torch.compile(model, backend="eager"), lambda model: model.compile(backend="eager") or model):
        model = net()
        step = compile_step(model if compile_step is EagerStep else wrap(model), F.cross_entropy, sgd(model))
        for _ in range(2):
            yield step(*batch()).loss
        yield from model.state_dict().values()


def views_as_batches(compile_step):
    """Expanded, transposed and strided."""
    model = net()
    step = compile_step(model, F.cross_entropy, sgd(model))
    yield step(torch.randn(1, 10).expand(8, 10), torch.randint(3, (8,))).loss
    yield step(torch.randn(10, 8).t(), torch.randint(3, (16,))[::2]).loss
    yield from model.state_dict().values()


LOOPS = [
    rate_finder, two_optimizers, resumed_within_an_epoch, generation, frozen_statistics, growing_batches, parametrized,
    slow_weights, sharpness, hostile_examples, rates_from_zero, modes_around_it, compiled_already, views_as_batches,
]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_is_eager_modes(loop):
    check_is_eager_modes(loop)


def test_a_loss_that_pytorch_traces_in_another_order():
    """Weighted, smoothed and ignoring a target, cross_entropy adds up the weights of targets as its trace does: with zeros
    for those that are ignored, where eager mode leaves them out."""

    def loop(compile_step, wrap=lambda loss: loss):
        model = net()
        loss = nn.CrossEntropyLoss(weight=torch.rand(3), label_smoothing=0.1, ignore_index=-1)
        step = compile_step(model, wrap(loss), adamw(model))
        for number in range(5):
            x, y = batch()
            y[number] = -1
            yield step(x, y).loss
        yield from model.state_dict().values()

    def traced_loop(compile_step):
        trace = functools.partial(torch.compile, backend="aot_eager")
        return loop(compile_step, trace if compile_step is EagerStep else lambda loss: loss)

    check_is_eager_modes(traced_loop)
    torch.manual_seed(0)
    eager = next(iter(loop(EagerStep))).item()
    torch.manual_seed(0)
    # Two sums of the same n positive numbers differ by 2 (n - 1) roundings at most; the division adds one to each.
    assert abs(next(iter(loop(cleave.compile_step))).item() - eager) <= 2 * 16 * 2.0**-24 * eager


def test_what_gives_a_model_other_tensors_is_refused():
    model = net()
    step = cleave.compile_step(model, F.cross_entropy, adamw(model))
    step(*batch())
    model.double()
    with pytest.raises(cleave.Error, match=re.escape("param.0.bias: expected F32 [32], found F64 [32]")):
        step(*batch())
    model.float()
    with pytest.raises(cleave.Error, match="param.0.bias: it lies in other memory"):
        step(*batch())
    step.close()
    step = cleave.compile_step(model, F.cross_entropy, adamw(model))
    step(*batch())
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    with pytest.raises(cleave.Error, match="'0.weight' was replaced since the step was compiled"):
        step(*batch())
