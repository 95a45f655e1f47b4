"""What losses, activations and image models are made of has sharding rules: nothing runs replicated for want of
one, and ranks compute what one does."""

import re
import subprocess

import cleave_run  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from cleave import ColwiseParallel, DataParallel, Plan, testing
from safetensors.torch import load_file
from torch import nn

ACTIVATIONS = [
    nn.Softplus(2.0), nn.LeakyReLU(0.2), nn.ELU(1.5), nn.SELU(), nn.Mish(), nn.Hardswish(),
    nn.Hardsigmoid(), nn.Hardtanh(-0.3, 0.5), nn.ReLU6(), nn.PReLU(8), nn.Softshrink(0.1), nn.LogSigmoid(),
    nn.Threshold(0.1, 2.0), nn.CELU(1.3), nn.Hardshrink(0.2), nn.Sequential(nn.Linear(8, 16), nn.GLU()),
]  # fmt: skip


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in ACTIVATIONS)
        self.activations = nn.ModuleList(ACTIVATIONS)
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        for layer, activation in zip(self.layers, self.activations):
            x = x + activation(layer(x))
        return self.head(x)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.GroupNorm(2, 8)
        self.pool = nn.AvgPool2d(2, padding=1, count_include_pad=False)
        self.conv2 = nn.Conv2d(8, 8, 3)
        self.norm2 = nn.GroupNorm(4, 8, affine=False)
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        x = self.pool(F.hardswish(self.norm(self.conv(F.pad(x, (1, 2, 0, 1), value=0.5)))))
        x = self.norm2(self.conv2(x))
        # A write into a part, as models make masks and shifted windows.
        y = x.clone()
        y[:, :, 1:] = x[:, :, :-1].floor() + x[:, :, 1:]
        y[:, 0] = 0
        return self.head(y.mean((2, 3)))


class Resolutions(nn.Module):
    """Maps of classes in several resolutions."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.mix = nn.Conv2d(6, 6, 1)

    def forward(self, x):
        y = self.conv(x)
        large = F.interpolate(self.mix(y), scale_factor=2, mode="bilinear")
        for mode in ("nearest", "nearest-exact", "bicubic"):
            large = large + F.interpolate(y, scale_factor=2, mode=mode)
        for mode in ("bilinear", "bicubic"):
            y = y + F.interpolate(large, size=y.shape[2:], mode=mode, antialias=True)
        line = F.interpolate(y.flatten(2), size=64, mode="linear").unflatten(2, (8, 8))
        deep = F.interpolate(y[:, :, None], scale_factor=(1, 2, 2), mode="trilinear")[:, :, 0]
        patches = F.fold(F.unfold(large, 2, stride=2).tanh().acos().atan(), (8, 8), 2, stride=2)
        return large + line + deep + patches


def segmentation_loss(scores, classes):
    ignored = F.cross_entropy(scores, classes, ignore_index=2)
    return ignored + F.cross_entropy(scores, classes, reduction="sum", weight=torch.arange(1.0, 7.0).double())


def z_loss(logits, targets):
    return F.cross_entropy(logits, targets) + 0.1 * torch.logsumexp(logits, -1).pow(2).mean()


def many_losses(x, y):
    return (
        F.huber_loss(x, y, delta=0.5)
        + F.smooth_l1_loss(x, y, beta=0.5)
        + F.smooth_l1_loss(x, y, reduction="sum") * 0.01
        + F.binary_cross_entropy(x.sigmoid(), y.sigmoid())
        + F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=torch.arange(1.0, 7.0).double())
        + F.soft_margin_loss(x, 2.0 * (y > 0) - 1)
        + F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean")
        + F.l1_loss(x, y)
        + F.multi_margin_loss(x, y.argmax(-1), margin=0.5)
        + F.multi_margin_loss(x, y.argmax(-1), p=2, reduction="none").square().sum()
        + (F.logsigmoid(x) * y.softmax(-1)).sum(-1).mean()
    )


def spec(name, module, shape, loss, targets):
    torch.manual_seed(0)
    module = module.double().train()
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.6, 0.6)
    return cleave.ExportSpec(
        module, (torch.randn(*shape).double(),), loss=loss, targets=(targets,), name=name,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1))


LABELS = torch.arange(4) % 6
DATA = {"": DataParallel("dp")}
CASES = {
    "activations": (lambda: spec("a", Activations(), (4, 8), z_loss, LABELS), {"dp": 2}, DATA),
    "images": (lambda: spec("i", Images(), (4, 3, 8, 8), z_loss, LABELS), {"dp": 2}, DATA),
    "resolutions": (
        lambda: spec("r", Resolutions(), (4, 3, 8, 8), segmentation_loss, torch.arange(4 * 64).reshape(4, 8, 8) % 6),
        {"dp": 2}, DATA),
    "losses": (
        lambda: spec("l", nn.Sequential(nn.Linear(8, 6)), (4, 8), many_losses,
                     torch.linspace(-2, 2, 24).double().reshape(4, 6)),
        {"dp": 2}, DATA),
    "classes": (
        lambda: spec("c", nn.Sequential(nn.Linear(8, 6)), (4, 8), z_loss, LABELS),
        {"tp": 2}, {"0": ColwiseParallel()}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators_are_divided(name, build_dir, cleave_run, example, tmp_path):
    make, mesh, plan = CASES[name]
    made = make()
    path = cleave.export_spec(made, tmp_path)
    assert "aten.call" not in path.read_text()
    Plan(mesh, plan).write(tmp_path / "plan.json")
    local = tmp_path / "local.mlir"
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", path, f"--annotate-placements=plan={tmp_path / 'plan.json'}",
         "--propagate-placements=strict=true", "--partition", "--check-spmd-types", "-o", local],
        capture_output=True, text=True)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "replicated" not in result.stderr
    # Only gradients, losses and statistics of rows are sent.
    gathered = re.findall(r"all_gather.*-> tensor<([0-9x]*)x?f64", local.read_text())
    assert not gathered, gathered
    local.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    cleave_run.succeed(
        local, "--ranks", 2, "--ranks-as", "threads", "--inputs", example(made), "--against", path,
        "--tolerance", 1e-10)  # fmt: skip


class Products(nn.Module):
    """Cumulative products, of which some are zero: the formula of the gradient depends on where they are."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 6)

    def forward(self, x):
        return (self.linear(x) * (x[:, :6] > 0)).cumprod(1) + self.linear(x).cumprod(0)


def test_cumulative_products_have_eager_modes_gradients(cleave_run, example, tmp_path):
    made = spec("p", Products(), (4, 8), z_loss, LABELS)
    path = cleave.export_spec(made, tmp_path)
    assert "aten.cumprod_backward" in path.read_text() and "aten.call" not in path.read_text()
    expected = testing.evaluate(made)
    cleave_run.succeed(path, "--inputs", example(made), "--dump", tmp_path / "dump.safetensors")
    found = load_file(tmp_path / "dump.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


class Opaque(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 6)

    def forward(self, x):
        return torch.erfinv(self.linear(x).tanh() / 2)


def test_an_operator_without_a_rule_is_named(build_dir, tmp_path):
    """In the user's file, with what is gathered for it."""
    module = Opaque().double()
    made = cleave.ExportSpec(
        module, (torch.randn(4, 8).double(),), loss=F.cross_entropy, targets=(LABELS,), name="opaque")
    path = cleave.export_spec(made, tmp_path)
    Plan({"dp": 2}, DATA).write(tmp_path / "plan.json")
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", path, f"--annotate-placements=plan={tmp_path / 'plan.json'}",
         "--propagate-placements", "-o", tmp_path / "placed.mlir"],
        capture_output=True, text=True)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert re.search(
        r"test_operators_of_models.py:\d+:\d+: remark: 'aten::erfinv' runs replicated on all ranks, "
        "because Cleave knows only its schema; ", result.stderr), result.stderr
    assert re.search(r"for 'self' each rank sends \d+ bytes \(all_gather over dp\)", result.stderr)
