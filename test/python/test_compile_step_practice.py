"""Loops as people write them, each by `cleave.compile_step` and in eager mode: losses, weights and buffers are the same bits."""

import copy
import math

import cleave_path  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from eager_steps import check_is_eager_modes
from torch import nn
from torch.optim import swa_utils

pytestmark = pytest.mark.usefixtures("one_thread")


def adversaries(compile_step):
    """Two steps, each over parameters that the other one's program uses."""
    generator = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.BatchNorm1d(32), nn.Linear(32, 16), nn.Tanh())
    critic = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(32, 1))
    judge = F.binary_cross_entropy_with_logits

    class Judged(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = critic

        def forward(self, real, made):
            return self.critic(real), self.critic(made)

    def loss(scores):
        return judge(scores[0], torch.ones_like(scores[0])) + judge(scores[1], torch.zeros_like(scores[1]))

    learn, deceive = (torch.optim.Adam(each.parameters(), 2e-4, (0.5, 0.999), fused=True) for each in (critic, generator))
    of_critic = compile_step(Judged(), loss, learn)
    of_generator = compile_step(nn.Sequential(generator, critic), lambda scores: judge(scores, torch.ones_like(scores)), deceive)
    for _ in range(5):
        with torch.no_grad():
            made = generator(torch.randn(12, 8))
        yield of_critic((torch.randn(12, 16), made)).loss
        yield of_generator(torch.randn(12, 8)).loss
    yield from (*generator.state_dict().values(), *critic.state_dict().values())


def distillation(compile_step):
    """The teacher, frozen and in evaluation mode, is a part of the module."""
    teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 5)).requires_grad_(False)
    student = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 5))

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher, self.student = teacher, student

        def forward(self, x):
            with torch.no_grad():
                taught = self.teacher(x)
            return self.student(x), taught

    def loss(outputs, targets):
        made, taught = outputs
        soft = F.kl_div(F.log_softmax(made / 2, -1), F.softmax(taught / 2, -1), reduction="batchmean")
        return 0.5 * F.cross_entropy(made, targets) + 2 * soft

    both = Both()
    teacher.eval()
    step = compile_step(both, loss, torch.optim.AdamW(student.parameters(), 1e-3, fused=True))
    for _ in range(5):
        yield step(torch.randn(16, 10), torch.randint(5, (16,))).loss
    yield from both.state_dict().values()


def towers(compile_step):
    """A contrast within the batch, a temperature that is learned and clamped, inputs by keyword."""

    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.answer = (nn.Sequential(nn.EmbeddingBag(50, 16), nn.Linear(16, 8)) for _ in range(2))
            self.temperature = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

        def forward(self, query, answer):
            return self.temperature.exp() * F.normalize(self.query(query)) @ F.normalize(self.answer(answer)).T

    def loss(scores):
        targets = torch.arange(scores.shape[0])
        return (F.cross_entropy(scores, targets) + F.cross_entropy(scores.T, targets)) / 2

    model = Towers()
    others = [*model.query.parameters(), *model.answer.parameters()]
    groups = [{"params": others}, {"params": [model.temperature], "lr": 1e-3, "weight_decay": 0.0}]
    step = compile_step(model, loss, torch.optim.AdamW(groups, 1e-2, fused=True))
    for _ in range(5):
        yield step({"query": torch.randint(50, (8, 5)), "answer": torch.randint(50, (8, 7))}).loss
        with torch.no_grad():
            model.temperature.clamp_(max=2.6)
    yield from model.state_dict().values()


def truncated_sequences(compile_step):
    """The state of a recurrent network goes from step to step, by outputs."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.rnn, self.head = nn.Embedding(20, 16), nn.RNN(16, 24, batch_first=True), nn.Linear(24, 20)

        def forward(self, words, state):
            made, state = self.rnn(self.embed(words), state)
            return self.head(made), state

    def loss(outputs, targets):
        return F.cross_entropy(outputs[0].flatten(0, 1), targets.flatten())

    model, state = Words(), torch.zeros(1, 4, 24)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2, fused=True)
    step = compile_step(model, loss, optimizer, clip_norm=0.25, outputs=True, batch_dims={"state": 1})
    for _ in range(5):
        words = torch.randint(20, (4, 9))
        out = step((words[:, :-1], state), words[:, 1:])
        state = out.outputs[1].detach()
        yield from (out.loss, out.grad_norm)
    yield from model.state_dict().values()


def variational(compile_step):
    """A model that draws, and a weight of the loss that grows: a tensor, as numbers are a part of the program."""

    class Coder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(16, 8), nn.Linear(4, 16)

        def forward(self, x):
            mean, log_variance = self.encode(x).chunk(2, -1)
            return self.decode(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance

    def loss(outputs, x, weight):
        made, mean, log_variance = outputs
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
        return F.binary_cross_entropy_with_logits(made, x, reduction="sum") / x.shape[0] + weight * divergence

    model = Coder()
    step = compile_step(model, loss, torch.optim.Adam(model.parameters(), 1e-2, fused=True))
    for number in range(5):
        x = (torch.rand(8, 16) > 0.5).float()
        yield step(x, x, torch.tensor(number / 5)).loss
    yield from model.state_dict().values()


def diffusion(compile_step):
    """The model draws times and noise and returns its loss; the rate warms up."""

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.first, self.last = nn.Embedding(100, 8), nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 1, 3, padding=1)
            self.register_buffer("kept", torch.linspace(0.999, 0.01, 100))

        def forward(self, x):
            time, noise = torch.randint(100, (x.shape[0],)), torch.randn_like(x)
            kept = self.kept[time].view(-1, 1, 1, 1)
            hidden = F.silu(self.first(kept.sqrt() * x + (1 - kept).sqrt() * noise) + self.time(time)[:, :, None, None])
            return F.mse_loss(self.last(hidden), noise)

    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 3))
    step = compile_step(model, None, optimizer, clip_norm=1.0)
    for _ in range(5):
        yield step(torch.randn(4, 1, 8, 8)).loss
        scheduler.step()
    yield from model.state_dict().values()


def values_of_actions(compile_step):
    """Targets by another network, which follows the trained one slowly."""

    class Values(nn.Module):
        def __init__(self):
            super().__init__()
            self.of_all = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))

        def forward(self, x, action):
            return self.of_all(x).gather(1, action[:, None]).squeeze(1)

    model = Values()
    target = copy.deepcopy(model).requires_grad_(False)
    step = compile_step(model, F.smooth_l1_loss, torch.optim.Adam(model.parameters(), 1e-3, fused=True), clip_norm=10.0)
    for _ in range(5):
        with torch.no_grad():
            worth = torch.randn(16) + 0.99 * target.of_all(torch.randn(16, 4)).max(1).values
        yield step((torch.randn(16, 4), torch.randint(2, (16,))), worth).loss
        with torch.no_grad():
            for p, other in zip(model.parameters(), target.parameters()):
                other.lerp_(p, 0.05)
    yield from (*model.state_dict().values(), *target.state_dict().values())


def averaged_weights(compile_step):
    """SWA, whose average gets its batch statistics at the end; batches of several sizes."""
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, fused=True)
    averaged, scheduler = swa_utils.AveragedModel(model), swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    step = compile_step(model, F.cross_entropy, optimizer)
    data = [(torch.randn(size, 10), torch.randint(3, (size,))) for size in (8, 8, 5)]
    for _ in range(3):
        for x, y in data:
            yield step(x, y).loss
        averaged.update_parameters(model)
        scheduler.step()
    swa_utils.update_bn([x for x, _ in data], averaged)
    yield from averaged.state_dict().values()


def early_stop(compile_step):
    """Goes back to the best weights and state, more than once, with a rate that a plateau reduces."""
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), 5e-2, fused=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    step = compile_step(model, F.cross_entropy, optimizer)
    x, y = torch.randn(20, 10), torch.randint(3, (20,))
    best, returns = None, 0
    for _ in range(6):
        for _ in range(2):
            yield step(torch.randn(16, 10), torch.randint(3, (16,))).loss
        model.eval()
        with torch.no_grad():
            found = F.cross_entropy(model(x), y).item()
        model.train()
        scheduler.step(found)
        if best is None or found < best[0]:
            best = found, copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
        else:
            model.load_state_dict(best[1])
            # Eager mode goes on in the memory of what it loads.
            optimizer.load_state_dict(copy.deepcopy(best[2]))
            returns += 1
    assert returns > 1
    yield from model.state_dict().values()


def thawed_later(compile_step):
    """Layers that begin to train later, in a group of their own."""
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True)
    step = compile_step(model, F.cross_entropy, optimizer)
    for number in range(6):
        if number == 3:
            model[0].requires_grad_(True)
            optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 1e-2})
            step.close()
            step = compile_step(model, F.cross_entropy, optimizer)
        yield step(torch.randn(16, 10), torch.randint(3, (16,))).loss
    yield from model.state_dict().values()


def hooked(compile_step):
    """Gradients that hooks on parameters change: one is clamped, of one a part is masked, twice."""
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    mask = torch.rand(32, 10) > 0.5
    model[0].weight.register_hook(lambda gradient: gradient * mask)
    model[0].weight.register_hook(lambda gradient: gradient - gradient.mean(1, keepdim=True))
    model[2].weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
    step = compile_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), 0.1, fused=True))
    for size in (16, 16, 8):
        yield step(torch.randn(size, 10), torch.randint(3, (size,))).loss
    yield from model.state_dict().values()


def own_criterion(compile_step):
    """A loss with weights of its own, in the optimizer, and activations that a forward hook collects."""

    class Margin(nn.Module):
        def __init__(self):
            super().__init__()
            self.centres = nn.Parameter(torch.randn(5, 8))

        def forward(self, made, targets):
            return F.cross_entropy(8 * F.normalize(made) @ F.normalize(self.centres).T, targets) + 1e-3 * seen.pop().pow(2).mean()

    seen = []
    model, criterion = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 8)), Margin()
    model[1].register_forward_hook(lambda module, inputs, output: seen.append(output))
    step = compile_step(model, criterion, torch.optim.AdamW([*model.parameters(), *criterion.parameters()], 1e-2, fused=True))
    for _ in range(5):
        yield step(torch.randn(16, 10), torch.randint(5, (16,))).loss
    yield from (*model.state_dict().values(), *criterion.state_dict().values())


LOOPS = [
    adversaries, distillation, towers, truncated_sequences, variational, diffusion, values_of_actions, averaged_weights,
    early_stop, thawed_later, hooked, own_criterion,
]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_is_eager_modes(loop):
    check_is_eager_modes(loop)
