"""Every numeric option of every class of torch.optim, each in an optimizer of its own, against PyTorch: bit for bit on
one rank."""

import cleave
import pytest
import torch
from cleave.export import ExportSpec
from combinations_cover import part_of_today
from test_optimizers import STEPS, compare
from torch import nn, optim

pytestmark = pytest.mark.usefixtures("one_thread")

ADAM = [{"betas": (0.8, 0.999)}, {"betas": (0.9, 0.9)}, {"eps": 1e-2}, {"weight_decay": 0.1}]
# A class, what all its optimizers have, and the options of each. ASGD averages from its t0 on, RAdam
# rectifies from step 6.
OPTIONS = {
    "adadelta": (optim.Adadelta, {"lr": 0.5}, [{"rho": 0.7}, {"eps": 1e-2}, {"weight_decay": 0.1}]),
    "adafactor": (
        optim.Adafactor, {"lr": 0.3},
        [{"beta2_decay": -0.5}, {"eps": (3.0, 1e-3)}, {"eps": (None, 3.0)}, {"d": 2.0}, {"weight_decay": 0.1}],
    ),
    "adagrad": (
        optim.Adagrad, {"lr": 0.05},
        [{"lr_decay": 0.1}, {"eps": 1e-2}, {"weight_decay": 0.1}, {"initial_accumulator_value": 0.2}],
    ),
    "adam": (optim.Adam, {"lr": 0.01, "weight_decay": 0.05}, ADAM),
    "adam-fused": (optim.Adam, {"lr": 0.01}, ADAM[:3]),
    "adamw": (optim.AdamW, {"lr": 0.01, "amsgrad": True}, ADAM),
    "adamw-fused": (optim.AdamW, {"lr": 0.01}, ADAM),
    "adamax": (optim.Adamax, {"lr": 0.01}, ADAM),
    "asgd": (optim.ASGD, {"lr": 0.05}, [{"lambd": 0.1}, {"alpha": 0.5, "lambd": 0.1}, {"t0": 8}, {"weight_decay": 0.1}]),
    "nadam": (
        optim.NAdam, {"lr": 0.01},
        [*ADAM, {"momentum_decay": 0.1}],
    ),
    "radam": (optim.RAdam, {"lr": 0.01}, [*ADAM[:1], {"betas": (0.9, 0.99)}, *ADAM[2:]]),
    "rmsprop": (
        optim.RMSprop, {"lr": 0.01},
        [{"alpha": 0.9}, {"eps": 1e-2}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.5, "centered": True}],
    ),
    "rprop": (
        optim.Rprop, {"lr": 0.01},
        [{"etas": (0.3, 1.2)}, {"etas": (0.5, 1.5)}, {"step_sizes": (5e-3, 50)}, {"step_sizes": (1e-6, 0.02)}],
    ),
    "sgd": (
        optim.SGD, {"lr": 0.1, "maximize": True},
        [{"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3}, {"weight_decay": 0.1}, {"momentum": 0.5, "nesterov": True}],
    ),
    "sgd-fused": (
        optim.SGD, {"lr": 0.1},
        [{"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3}, {"weight_decay": 0.1}, {"momentum": 0.5, "nesterov": True}],
    ),
    "muon": (
        optim.Muon, {"lr": 0.02},
        [{"weight_decay": 0.5}, {"momentum": 0.5}, {"ns_coefficients": (2.0, -1.5, 0.5)}, {"eps": 10.0}, {"ns_steps": 3},
         {"adjust_lr_fn": "match_rms_adamw"}],
    ),
}  # fmt: skip


class Parts(nn.Module):
    """A matrix and a vector for each optimizer."""

    def __init__(self, count):
        super().__init__()
        self.matrices = nn.ParameterList(nn.Parameter(torch.randn(3, 5)) for _ in range(count))
        self.vectors = nn.ParameterList(nn.Parameter(torch.randn(3)) for _ in range(count))

    def forward(self, x):
        return sum(torch.tanh(nn.functional.linear(x, *pair)) for pair in zip(self.matrices, self.vectors))


def make_optimizers(module, kind, common, options):
    if kind is optim.Muon:  # takes matrices only
        made = [kind([matrix], **common | each) for matrix, each in zip(module.matrices, options)]
        return [*made, optim.SGD(list(module.vectors), lr=0.1)]
    return [kind(pair, **common | each) for *pair, each in zip(module.matrices, module.vectors, options)]


@pytest.mark.parametrize("name", part_of_today(list(OPTIONS)))
def test_each_option_bit_for_bit(build_dir, tmp_path, name):
    kind, common, options = OPTIONS[name]
    torch.manual_seed(0)
    module = Parts(len(options))
    spec = ExportSpec(
        module, (torch.randn(4, 5),), loss=nn.functional.cross_entropy, targets=(torch.randint(3, (4,)),), name="options",
        optimizer=make_optimizers(module, kind, common, options), lr_schedule=cleave.WarmupCosine(4, STEPS, 0.1),
    )  # fmt: skip
    compare(build_dir, tmp_path, spec)
    is_fused = ("train.sgd" if kind is optim.SGD else "train.adamw") in (tmp_path / "options.mlir").read_text()
    assert is_fused == name.endswith("-fused")


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_changes_the_steps(name):
    """So the runs above would show one that is lost."""
    kind, common, options = OPTIONS[name]
    torch.manual_seed(0)
    start, gradients = torch.randn(3, 5), [torch.randn(3, 5) for _ in range(STEPS)]

    def end(**option):
        parameter = nn.Parameter(start.clone())
        optimizer = kind([parameter], **common | option)
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        return [parameter.detach(), *(value for slot, value in optimizer.state[parameter].items() if slot != "step")]

    for option in options:
        assert not all(map(torch.equal, end(**option), end())), option
