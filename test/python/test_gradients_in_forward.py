"""What forward differentiates by itself: penalties on gradients, forces, differential equations."""

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
from exported_models import export
from torch import nn
from torch._dynamo.variables import TensorVariable

pytestmark = pytest.mark.usefixtures("one_thread")


class Differentiated(nn.Module):
    """A network and a loss made of its derivatives."""

    def __init__(self, loss):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.loss = loss

    def forward(self, x):
        return self.loss(self.net, x)


def penalty(net, x):
    """Of WGAN-GP: the gradient at points that are drawn."""
    between = (torch.rand(len(x), 1) * x).requires_grad_(True)
    (slope,) = torch.autograd.grad(net(between).sum(), between, create_graph=True)
    return net(x).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()


def equation(net, x):
    """Of a physics-informed network: u' and u''."""
    x = x.detach().requires_grad_()
    u = net(x)
    (first,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
    return (second[:, 0] + u[:, 0]).square().mean()


def forces(net, x):
    """Of a potential: what it is of is the input itself."""
    x.requires_grad_()
    energy = net(x).sum()
    (slope,) = torch.autograd.grad(energy, x, create_graph=True)
    return (slope + 1).square().mean() + energy.square()


def constants(net, x):
    """Weights of a loss, through which no gradient goes."""
    loss = net(x).square().mean()
    (slope,) = torch.autograd.grad(loss, net[2].weight, retain_graph=True)
    return loss * slope.norm().detach()


@pytest.mark.parametrize("loss", [penalty, equation, forces, constants])
def test_gradients_in_forward_are_eager_modes(loss, tmp_path):
    torch.manual_seed(0)
    before = TensorVariable.method_requires_grad_
    x = torch.randn(5, 3)
    export(tmp_path, Differentiated(loss), (x,), mode="joint")
    assert TensorVariable.method_requires_grad_ is before
    assert not x.requires_grad


def test_a_graph_that_is_used_up_is_refused(tmp_path):
    def once(net, x):
        loss = net(x).square().mean()
        torch.autograd.grad(loss, net[2].weight)
        return loss

    with pytest.raises(cleave.ExportError) as error:
        cleave.export(Differentiated(once), (torch.randn(5, 3),), mode="joint", out=tmp_path)
    assert "backward through graph a second time" in str(error.value) and not list(tmp_path.iterdir())


def test_exports_without_gradients_refuse_them(tmp_path):
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    with pytest.raises(cleave.ExportError, match=r"torch.autograd.grad at .*test_gradients_in_forward.py:\d+ in forward"):
        cleave.export(
            Differentiated(equation), (torch.randn(5, 3),), gradients=False, optimizer=optimizer, out=tmp_path
        )
