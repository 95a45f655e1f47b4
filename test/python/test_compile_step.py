"""`cleave.compile_step` on one rank: twenty steps of a loop in PyTorch, bit for bit those of eager mode."""

import copy
import gc
import weakref

import cleave_path  # noqa: F401
import cleave
import gpt
import llama
import pytest
import torch
import torch.nn.functional as F
import vision

STEPS = 20

pytestmark = pytest.mark.usefixtures("one_thread")


def adamw(module, **options):
    return torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True, **options)


def two_groups(module):
    """Matrices decay, and learn by another rate; one that begins as the other's."""
    matrices = [p for p in module.parameters() if p.dim() > 1]
    vectors = [p for p in module.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, fused=True)


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True, fused=True)


def batches(spec, count, seed=1):
    """Batches like the example: normal numbers, or integers from its range."""
    generator = torch.Generator().manual_seed(seed)

    def like(tensor):
        if tensor.is_floating_point():
            return torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        return torch.randint(int(tensor.min()), int(tensor.max()) + 1, tensor.shape, generator=generator)

    return [([like(t) for t in spec.args], [like(t) for t in spec.targets]) for _ in range(count)]


def train_eagerly(model, loss_fn, optimizer, data, scheduler=None, clip_norm=None):
    losses, norms = [], []
    for inputs, targets in data:
        optimizer.zero_grad()
        loss = loss_fn(model(*inputs), *targets)
        loss.backward()
        if clip_norm is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm).item())
        optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    return losses, norms


def train_compiled(step, data, scheduler=None):
    losses, norms = [], []
    for inputs, targets in data:
        out = step(tuple(inputs), *targets)
        if scheduler:
            scheduler.step()
        losses.append(out.loss.item())
        if out.grad_norm is not None:
            norms.append(out.grad_norm.item())
    return losses, norms


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")


def assert_same_optimizer_state(a, b):
    assert a.keys() == b.keys()
    for number in a:
        assert a[number].keys() == b[number].keys()
        for slot in a[number]:
            assert torch.equal(a[number][slot], b[number][slot]), (number, slot)


CASES = {
    "gpt": (gpt.tied, adamw, None),
    "gpt_dropout": (gpt.dropout, adamw, None),
    "gpt_autocast": (gpt.autocast, adamw, None),
    "gpt_groups": (
        gpt.untied, two_groups,
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(
            optimizer, [lambda step: 1 / (1 + step), lambda step: 0.5**step]
        ),
    ),  # fmt: skip
    "llama": (llama.small, adamw, lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)),
    "resnet18": (vision.resnet18, sgd, lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 5)),
}


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps_are_those_of_eager_mode(name):
    make, make_optimizer, make_scheduler = CASES[name]
    spec = make()
    model, reference = spec.module, copy.deepcopy(spec.module)
    count = 4 if name == "resnet18" else STEPS
    data = batches(spec, count)
    optimizer, other = make_optimizer(model), make_optimizer(reference)
    torch.manual_seed(7)
    expected, _ = train_eagerly(reference, spec.loss, other, data, make_scheduler and make_scheduler(other))
    random = torch.get_rng_state()
    torch.manual_seed(7)
    step = cleave.compile_step(model, spec.loss, optimizer)
    losses, _ = train_compiled(step, data, make_scheduler and make_scheduler(optimizer))
    assert losses == expected
    assert len(set(losses)) == count
    assert_same_state(model.state_dict(), reference.state_dict())
    assert_same_optimizer_state(optimizer.state_dict()["state"], other.state_dict()["state"])
    assert torch.equal(torch.get_rng_state(), random), "other random numbers come next than in eager mode"


def tagger(**options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True, **options)


def tagged(examples=6, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(examples, 8, generator=generator), torch.randint(4, (examples,), generator=generator)


# Without a fused kernel, or asked to do without it: their steps are traced.
TRACED = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "sgd with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.1, foreach=False),
    "sgd by Nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=False),
    "adadelta": lambda p: torch.optim.Adadelta(p, foreach=False),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1, foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2, initial_accumulator_value=0.1, foreach=False),
    "asgd": lambda p: torch.optim.ASGD(p, t0=3, foreach=False),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-2, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2, momentum=0.9, foreach=False),
    "rprop": lambda p: torch.optim.Rprop(p, foreach=False),
}


@pytest.mark.parametrize("name", TRACED)
def test_traced_optimizers_are_those_of_eager_mode(name):
    model, _ = tagger()
    reference = copy.deepcopy(model)
    optimizer, other = TRACED[name](model.parameters()), TRACED[name](reference.parameters())
    schedulers = [torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)) for o in (optimizer, other)]
    data = [([x], [y]) for x, y in (tagged(seed=i) for i in range(12))]
    expected, _ = train_eagerly(reference, F.cross_entropy, other, data[:8], schedulers[1])
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    assert train_compiled(step, data[:8], schedulers[0])[0] == expected
    assert_same_state(model.state_dict(), reference.state_dict())
    assert_same_optimizer_state(optimizer.state_dict()["state"], other.state_dict()["state"])

    # Eager mode goes on from there.
    step.close()
    losses = [train_eagerly(m, F.cross_entropy, o, data[8:])[0] for m, o in ((model, optimizer), (reference, other))]
    assert losses[0] == losses[1]


def test_clipping_is_that_of_pytorch():
    model, optimizer = tagger()
    reference = copy.deepcopy(model)
    other = torch.optim.AdamW(reference.parameters(), lr=1e-2, fused=True)
    data = [([x], [y]) for x, y in (tagged(seed=i) for i in range(STEPS))]
    expected = train_eagerly(reference, F.cross_entropy, other, data, clip_norm=0.1)
    step = cleave.compile_step(model, F.cross_entropy, optimizer, clip_norm=0.1)
    assert train_compiled(step, data) == expected


def test_microbatches_are_averaged():
    model, optimizer = tagger()
    reference = copy.deepcopy(model)
    other = torch.optim.AdamW(reference.parameters(), lr=1e-2, fused=True)
    step = cleave.compile_step(model, F.cross_entropy, optimizer, microbatches=3)
    for i in range(5):
        x, y = tagged(seed=i)
        other.zero_grad()
        losses = [F.cross_entropy(reference(a), b) for a, b in zip(x.chunk(3), y.chunk(3))]
        for loss in losses:
            (loss / 3).backward()
        other.step()
        assert abs(step(x, y).loss.item() - sum(loss.item() for loss in losses) / 3) < 1e-6
    torch.testing.assert_close(dict(model.state_dict()), dict(reference.state_dict()))


def test_parameters_stay_the_models_own():
    """No copy of weights is made: the model's tensors are what the session computes in."""
    model, optimizer = tagger()
    parameters = list(model.parameters())
    before = [p.data_ptr() for p in parameters]
    view = model[0].weight.detach()
    values = view.clone()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    x, y = tagged()
    step(x, y)
    assert [p.data_ptr() for p in parameters] == before
    assert all(p is q for p, q in zip(parameters, model.parameters()))
    assert not torch.equal(view, values), "an older view follows"
    with torch.no_grad():
        loss = F.cross_entropy(model(x), y).item()
    assert step(x, y).loss.item() == loss


def test_a_change_of_weights_between_steps_is_followed():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    x, y = tagged()
    step(x, y)
    other, _ = tagger()
    model.load_state_dict(other.state_dict())
    assert step(x, y).loss.item() == F.cross_entropy(other(x), y).item()


def test_transposed_frozen_and_tied_parameters():
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Parameter(torch.randn(16, 8).t())
            self.frozen = torch.nn.Parameter(torch.randn(16), requires_grad=False)
            self.tied = self.inner = torch.nn.Parameter(torch.randn(16, 16))
            self.last = torch.nn.Linear(16, 4)

        def forward(self, x):
            x = torch.tanh(x @ self.first + self.frozen)
            return self.last(torch.tanh(x @ self.tied) @ self.inner)

    torch.manual_seed(0)
    model = Odd()
    reference = copy.deepcopy(model)
    reference.first.data = reference.first.data.contiguous()
    optimizer, other = adamw(model), adamw(reference)
    assert not model.first.is_contiguous()
    first = model.first
    data = [([x], [y]) for x, y in (tagged(seed=i) for i in range(STEPS))]
    expected = train_eagerly(reference, F.cross_entropy, other, data)
    assert train_compiled(cleave.compile_step(model, F.cross_entropy, optimizer), data) == expected
    assert model.first is first and model.tied is model.inner
    assert_same_state(model.state_dict(), reference.state_dict())


def test_another_batch_size_compiles_once():
    model, optimizer = tagger()
    reference = copy.deepcopy(model)
    other = torch.optim.AdamW(reference.parameters(), lr=1e-2, fused=True)
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    data = [([x], [y]) for x, y in (tagged(n, seed=i) for i, n in enumerate([6, 6, 2, 6, 2]))]
    assert train_compiled(step, data) == train_eagerly(reference, F.cross_entropy, other, data)
    assert len(step._programs) == 2


def test_a_saved_optimizer_goes_on_where_it_was():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    data = [([x], [y]) for x, y in (tagged(seed=i) for i in range(10))]
    train_compiled(step, data[:5])
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    expected = train_compiled(step, data[5:])
    # Into the step that is there, ...
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    assert train_compiled(step, data[5:]) == expected
    # ... into another one, and into eager mode.
    step.close()
    for compiled in (True, False):
        fresh, restored = tagger()
        fresh.load_state_dict(saved[0])
        restored.load_state_dict(copy.deepcopy(saved[1]))
        if compiled:
            assert train_compiled(cleave.compile_step(fresh, F.cross_entropy, restored), data[5:]) == expected
        else:
            assert train_eagerly(fresh, F.cross_entropy, restored, data[5:]) == expected


def test_inputs_by_keyword_and_the_models_own_loss():
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=64, n_positions=8, n_embd=16, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    reference = copy.deepcopy(model)
    optimizer, other = adamw(model), adamw(reference)
    step = cleave.compile_step(model, None, optimizer)
    for i in range(3):
        tokens = torch.randint(64, (2, 8), generator=torch.Generator().manual_seed(i))
        other.zero_grad()
        loss = reference(input_ids=tokens, labels=tokens).loss
        loss.backward()
        other.step()
        assert step({"input_ids": tokens, "labels": tokens}).loss.item() == loss.item()


def test_fused_kernels_and_planned_memory():
    model, optimizer = tagger()
    reference = copy.deepcopy(model)
    other = torch.optim.AdamW(reference.parameters(), lr=1e-2, fused=True)
    step = cleave.compile_step(model, F.cross_entropy, optimizer, passes="--canonicalize --cse --lower-to-exec")
    data = [([x], [y]) for x, y in (tagged(seed=i) for i in range(5))]
    expected, _ = train_eagerly(reference, F.cross_entropy, other, data)
    assert train_compiled(step, data)[0] == expected
    assert "exec." in str(step.program)


def test_a_step_can_be_collected():
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*tagged())
    reference = weakref.ref(step)
    del step
    assert reference() is None
    cleave.compile_step(model, F.cross_entropy, optimizer)(*tagged())


def test_a_model_can_be_collected():
    """With its step: what traced it is forgotten, too, which holds parameters."""
    model, optimizer = tagger()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*tagged())
    references = [weakref.ref(each) for each in (model, model[0].weight, optimizer.state[model[0].weight]["exp_avg"])]
    del step, model, optimizer
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
