"""Passes that run before gradients exist leave the gradients to come as they are.

Forward-only exports of models that cut gradients off, in every way that PyTorch has, go through passes that
fold and merge and then through --autodiff, and are compared with what eager mode computes.
"""

import subprocess

import cleave
import pytest
import torch
import torch.nn.functional as F
from cleave import testing
from combinations_cover import covered
from torch import nn
from torch.utils.checkpoint import checkpoint

FOLDS = {
    "none": [],
    "canonicalize": ["--canonicalize"],
    "all": ["--canonicalize", "--cse", "--canonicalize"],
}


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.w = nn.Parameter(torch.randn(6, 5, generator=generator))
        self.codes = nn.Parameter(torch.randn(4, 5, generator=generator))

    def features(self, x):
        return (x @ self.w).tanh()


class Detached(Base):
    """f(x) times itself, once as a constant."""

    def forward(self, x):
        return (self.features(x) * self.features(x).detach()).mean()


class NoGrad(Base):
    """A scale, and what is merged with it where gradients must flow."""

    def forward(self, x):
        with torch.no_grad():
            scale = self.features(x).abs().amax(1, keepdim=True) + self.w.norm()
        return (self.features(x) / scale * self.features(x)).mean()


class Inference(Base):
    """Another way to make no gradients, with regions of either kind in each other."""

    def forward(self, x):
        with torch.inference_mode():
            shift = self.features(x).sum()
            with torch.enable_grad():
                shift = shift + self.codes.sum()
        with torch.no_grad(), torch.inference_mode(False):
            y = self.features(x)
        return (y.sin() + shift).mean()


class SetGradEnabled(Base):
    def forward(self, x):
        y = self.features(x)
        with torch.set_grad_enabled(False):
            z = y.exp()
            with torch.enable_grad():
                y = y * y.exp()
        return (y + z * y).mean()


class StraightThrough(Base):
    def forward(self, x):
        y = self.features(x)
        return ((y + (y.round() - y).detach()) ** 2).mean()


class Quantized(Base):
    """A vector quantizer with its two stopped losses."""

    def forward(self, x):
        y = self.features(x)
        nearest = torch.cdist(y.detach(), self.codes.detach()).argmin(1)
        picked = self.codes[nearest]
        loss = F.mse_loss(picked, y.detach()) + 0.25 * F.mse_loss(y, picked.detach())
        return loss + (y + (picked - y).detach()).square().mean()


class StoppedTarget(Base):
    """A target that the weights make and do not learn from."""

    def forward(self, x):
        y = self.features(x)
        return F.mse_loss(y, (0.9 * self.features(x.flip(0)) + y.amax()).detach())


class Data(Base):
    def forward(self, x):
        return (self.features(x) * self.w.data.sum() * self.features(x).data).mean()


class Checkpointed(Base):
    def forward(self, x):
        def block(x):
            y = self.features(x)
            return y * self.features(x).detach() + y.view(y.shape)

        return checkpoint(block, x, use_reentrant=False).sin().mean()


class Views(Base):
    """Views that fold, beside cut ones."""

    def forward(self, x):
        y = self.features(x)
        row = y.t().t().view(-1).view(y.shape).expand(y.shape)
        return (row * y.t().detach().t() + row.permute(1, 0).permute(1, 0)).square().mean()


CASES = [Detached, NoGrad, Inference, SetGradEnabled, StraightThrough, Quantized, StoppedTarget, Data,
         Checkpointed, Views]  # fmt: skip


@pytest.fixture(scope="module")
def forward(tmp_path_factory):
    """The forward-only program of a case, exported once, and eager mode's loss and gradients."""
    cache = {}

    def get(case):
        if case not in cache:
            x = torch.randn(7, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
            spec = cleave.ExportSpec(case().double(), (x,), mode="joint", gradients=False)
            program = cleave.export_spec(spec, tmp_path_factory.mktemp(case.__name__))
            cache[case] = program, {"x": x}, testing.evaluate(spec)
        return cache[case]

    return get


@covered({"case": {case.__name__: case for case in CASES}, "folds": list(FOLDS)}, strength=1)
def test_gradients_are_those_of_eager_mode(case, folds, forward, build_dir, cleave_run, tmp_path):
    program, inputs, expected = forward(case)
    ours = tmp_path / "joint.mlir"
    passes = [*FOLDS[folds], "--autodiff", *FOLDS[folds]]
    subprocess.run([build_dir / "bin" / "cleave-opt", program, *passes, "-o", ours], check=True)
    assert "aten.detach" in program.read_text() and "aten.detach" not in ours.read_text()
    weights = program.with_suffix(".safetensors")
    found = cleave_run.evaluate(ours, inputs, tmp_path, "--weights", weights)
    assert found.keys() == expected.keys() and len(found) > 1
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)


def test_a_joint_program_holds_no_cuts(tmp_path):
    """It has its gradients, and views that mean nothing would only be in the way."""
    x = torch.randn(7, 6)
    text = cleave.export_spec(cleave.ExportSpec(Detached(), (x,), mode="joint"), tmp_path).read_text()
    assert "gradient" in text and "aten.detach" not in text


def test_a_program_for_evaluation_is_not_differentiated(build_dir, tmp_path):
    """It was traced without gradients, so that no region without them is to be seen in it."""
    spec = cleave.ExportSpec(NoGrad(), (torch.randn(7, 6),), mode="loss")
    program = cleave.export_spec(spec, tmp_path)
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", program, "--canonicalize", "--autodiff"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert "'aten.detach' op is the loss of the function" in result.stderr
    assert "must be exported with a loss and without gradients (--no-gradients)" in result.stderr
