"""Loops of practitioners around `cleave.compile_step`: what changes from step to step, and several steps at once."""

import copy
import subprocess
import sys
import threading
import time

import cleave_path
import cleave
import pytest
import torch
import torch.nn.functional as F
from combinations_cover import covered
from torch.optim import lr_scheduler

pytestmark = pytest.mark.usefixtures("one_thread")


def batch(seed, examples=6):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(examples, 8, generator=generator), torch.randint(4, (examples,), generator=generator)


def pair():
    """A model, and its twin for eager mode."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    return model, copy.deepcopy(model)


def same(model, reference):
    return all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), reference.state_dict().values(), strict=True))


def step_eagerly(model, optimizer, x, y, loss=F.cross_entropy):
    optimizer.zero_grad()
    value = loss(model(x), y)
    value.backward()
    optimizer.step()
    return value.item()


CYCLES = {
    "one cycle, adamw": (
        lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
        lambda o: lr_scheduler.OneCycleLR(o, 0.05, total_steps=12),
    ),
    "one cycle, sgd of two groups": (
        lambda p: torch.optim.SGD(
            [{"params": (p := list(p))[:1]}, {"params": p[1:], "weight_decay": 0.1}], lr=1e-2, momentum=0.9, fused=True
        ),
        lambda o: lr_scheduler.OneCycleLR(o, [0.05, 0.1], total_steps=12, base_momentum=[0.7, 0.8], max_momentum=[0.9, 0.95]),
    ),
    "cycles, sgd": (
        lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True, fused=True),
        lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 3),
    ),
    "cycles, sgd, ordinary": (
        lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, foreach=False),
        lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 3),
    ),
    "cycles, adam, traced": (
        lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1, foreach=False),
        lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 3),
    ),
}  # fmt: skip


@covered({"passes": ["", "--lower-to-exec"], "name": list(CYCLES)}, strength=1)
def test_schedulers_that_write_momentum(name, passes):
    make_optimizer, make_scheduler = CYCLES[name]
    model, reference = pair()
    optimizer, other = make_optimizer(model.parameters()), make_optimizer(reference.parameters())
    schedulers = make_scheduler(optimizer), make_scheduler(other)
    step = cleave.compile_step(model, F.cross_entropy, optimizer, passes=passes)
    found, expected, programs = [], [], []
    for number in range(10):
        found.append(step(*batch(number)).loss.item())
        expected.append(step_eagerly(reference, other, *batch(number)))
        programs.append(step.program)
        for scheduler in schedulers:
            scheduler.step()
    assert found == expected and same(model, reference)
    assert str(programs[-1]).count("train.hyperparameter") == len(optimizer.param_groups)
    # The schedulers say so in the groups, before anything is compiled.
    assert all(program is programs[0] for program in programs)


def test_betas_that_are_written_by_hand():
    model, reference = pair()
    optimizer, other = (torch.optim.AdamW(m.parameters(), lr=1e-2, fused=True) for m in (model, reference))
    step, programs = cleave.compile_step(model, F.cross_entropy, optimizer), []
    for number, betas in enumerate([(0.9, 0.999), (0.9, 0.999), (0.8, 0.999), (0.5, 0.999)]):
        optimizer.param_groups[0]["betas"] = other.param_groups[0]["betas"] = betas
        assert step(*batch(number)).loss.item() == step_eagerly(reference, other, *batch(number))
        programs.append(step.program)
    assert programs[0] is programs[1] is not programs[2] is programs[3]
    for betas, text in (
        ((0.5, 0.9), r"expected betas = \(0.999,\), as when the step was compiled, found \(0.9,\): only lr, momentum and"),
        ((1.0, 0.999), r"expected beta1 above 0 and below 1, found betas = \(1.0, 0.999\)"),
    ):
        optimizer.param_groups[0]["betas"] = betas
        with pytest.raises(cleave.Error, match=text):
            step(*batch(4))
    optimizer.param_groups[0]["betas"] = other.param_groups[0]["betas"] = (0.4, 0.999)
    assert step(*batch(5)).loss.item() == step_eagerly(reference, other, *batch(5))
    assert same(model, reference)


def test_a_replaced_parameter_is_seen_beside_other_betas():
    model, _ = pair()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*batch(0))
    model[0].bias = torch.nn.Parameter(torch.zeros(16))
    optimizer.param_groups[0]["betas"] = (0.8, 0.999)
    with pytest.raises(cleave.Error, match="'0.bias' was replaced"):
        step(*batch(1))


class Both(torch.nn.Module):
    def __init__(self, generator, judge):
        super().__init__()
        self.generator, self.judge = generator, judge

    def forward(self, noise):
        return self.judge(self.generator(noise))


def test_two_steps_that_train_different_parameters():
    """As of a GAN: the generator learns through the judge, which learns beside it."""

    def make():
        torch.manual_seed(0)
        generator, judge = torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ELU(), torch.nn.Linear(8, 1))
        optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2, fused=True) for m in (generator, judge)]
        return generator, judge, Both(generator, judge), optimizers

    def loss(scores, are_real):
        return F.binary_cross_entropy_with_logits(scores, are_real)

    generator, judge, both, optimizers = make()
    generates = cleave.compile_step(both, loss, optimizers[0])
    judges = cleave.compile_step(judge, loss, optimizers[1])
    *_, reference, others = make()
    for number in range(6):
        noise, real = torch.randn(5, 4, generator=torch.Generator().manual_seed(number)), batch(number, 5)[0]
        for trained, g in ((judges, generator), (None, reference.generator)):
            with torch.no_grad():
                examples, labels = torch.cat([real, g(noise)]), torch.cat([torch.ones(5, 1), torch.zeros(5, 1)])
            if trained is not None:
                losses = [trained(examples, labels).loss.item(), generates(noise, torch.ones(5, 1)).loss.item()]
                continue
            expected = [
                step_eagerly(reference.judge, others[1], examples, labels, loss),
                step_eagerly(reference, others[0], noise, torch.ones(5, 1), loss),
            ]
        assert losses == expected
    assert same(both, reference)
    with pytest.raises(cleave.Error, match="another step trains parameters of this Both"):
        cleave.compile_step(both, loss, torch.optim.SGD(both.parameters(), lr=0.1))


def test_averages_and_values_that_are_set_between_steps():
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    models = pair()
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2, fused=True) for m in models]
    averages = [AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9)) for m in models]
    step = cleave.compile_step(models[0], F.cross_entropy, optimizers[0])
    for number in range(6):
        assert step(*batch(number)).loss.item() == step_eagerly(models[1], optimizers[1], *batch(number))
        for model, average in zip(models, averages):
            average.update_parameters(model)
            with torch.no_grad():
                model[0].weight.clamp_(-0.2, 0.2)
    assert same(*models) and same(*averages)


class Long(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(1200))

    def forward(self, x):
        return (self.weight @ self.weight @ x).mean()


def test_other_threads_run_while_a_step_does():
    model = Long()
    step = cleave.compile_step(model, None, torch.optim.SGD(model.parameters(), lr=0.0, fused=True))
    x, ticks, stop = torch.ones(1200, 600), [], threading.Event()
    step(x)

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    step(x)
    end = time.perf_counter()
    stop.set()
    thread.join()
    assert end - begin > 0.05
    assert sum(begin < at < end for at in ticks) > 10


MEMORY = """
import pathlib, cleave, cleave.native, torch
def peak():  # ru_maxrss begins with that of the process which started this one
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
cleave.native.native()
def train(model, x):
    step = cleave.compile_step(model, lambda y: y.square().mean(), torch.optim.SGD(model.parameters(), lr=0.0, fused=True))
    return step(x)
train(torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)), torch.randn(1, 8))
model = torch.nn.Sequential(torch.nn.Linear(4096, 4096, bias=False), torch.nn.Linear(4096, 4096, bias=False))
if TRANSPOSED:
    for layer in model:
        layer.weight.data = layer.weight.data.t()
size, before = model[0].weight.nbytes, peak()
train(model, torch.randn(1, 4096))
print((peak() - before) / size)
"""


@pytest.mark.parametrize("transposed", [False, True])
def test_no_second_copy_of_weights(transposed):
    """Over two weights: their two gradients, or before it, while it compiles, one weight that is made contiguous."""
    code = f"TRANSPOSED = {transposed}\n" + MEMORY
    path = str(cleave_path.SOURCE / "python")
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{code}"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert 1.5 < float(ran.stdout) < 2.6
