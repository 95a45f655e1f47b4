"""What the exporter says of optimizers whose step it cannot trace."""

import cleave
import pytest
import torch
from torch import nn


class Own(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr, "decay": 0.9})
        self.factor = 1.0

    def parameters(self):
        return [p for group in self.param_groups for p in group["params"]]


class Closure(Own):
    def step(self, closure):
        closure()


class Draws(Own):
    def step(self):
        for p in self.parameters():
            p.data.add_(torch.randn_like(p))


class Branches(Own):
    def step(self):
        for p in self.parameters():
            if (p.grad > 0).all():
                p.data.zero_()


class Reads(Own):
    def step(self):
        for p in self.parameters():
            p.data.mul_(float(format(p.grad.norm().item(), "f")))


class Rounds(Own):
    def step(self):
        for p in self.parameters():
            p.data.mul_(round(p.grad.norm().item()))


class ChangesItself(Own):
    def step(self):
        self.factor *= 0.5
        for p in self.parameters():
            p.data.mul_(self.factor)


class ChangesItsGroup(Own):
    def step(self):
        for group in self.param_groups:
            group["decay"] *= 0.5


class KeepsLists(Own):
    def step(self):
        for p in self.parameters():
            self.state[p].setdefault("last", []).append(p.grad)


class Raises(Own):
    def step(self):
        raise ValueError("no step today")


class Manifold(Own):
    def step(self):
        for p in self.parameters():
            p.data.copy_(torch.linalg.qr(p.data + p.grad * torch.tensor([[1.0, 2.0]]).T)[0])


@pytest.mark.parametrize(
    "optimizer, expected",
    [
        (Closure, ["its step needs 'closure'", "step() without arguments"]),
        (Draws, ["draws random numbers"]),
        (Branches, ["a branch on the values of a tensor"]),
        (Reads, ["needs the value of a number", "format()"]),
        (Rounds, ["needs the value of a number", "round()"]),
        (ChangesItself, ["changes its attribute 'factor'"]),
        (ChangesItsGroup, ["changes 'decay' of a parameter group"]),
        (KeepsLists, ["keeps a list as state"]),
        (Raises, ["ValueError: no step today"]),
        (Manifold, ["constant tensor of shape (1, 2)", "expected equal elements"]),
        (torch.optim.LBFGS, ["LBFGS calls a closure"]),
        (torch.optim.SparseAdam, ["SparseAdam takes sparse gradients"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_cannot_be_traced_is_one_clear_error(tmp_path, optimizer, expected):
    module = nn.Linear(4, 2, bias=False)
    with pytest.raises(cleave.ExportError) as raised:
        cleave.export(module, (torch.ones(3, 4),), loss=torch.sum, optimizer=optimizer(module.parameters()), out=tmp_path)
    for part in expected:
        assert part in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_an_optimizer_that_has_taken_steps(tmp_path):
    module = nn.Linear(4, 2)
    optimizer = torch.optim.RMSprop(module.parameters())
    module(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    with pytest.raises(cleave.ExportError, match="has taken steps already"):
        cleave.export(module, (torch.ones(3, 4),), loss=torch.sum, optimizer=optimizer, out=tmp_path)


def test_a_step_without_branches_is_traced_without_selections(tmp_path):
    """State that begins with zeros is what programs begin with; only what does not is chosen in step 1."""
    for optimizer, selections in ((torch.optim.NAdam, 2), (torch.optim.Adamax, 0), (torch.optim.Rprop, 2)):
        module = nn.Linear(4, 2)
        program = cleave.export(
            module, (torch.ones(3, 4),), loss=torch.sum, optimizer=optimizer(module.parameters()), out=tmp_path
        )
        assert program.read_text().count("aten.where(") == selections, optimizer
