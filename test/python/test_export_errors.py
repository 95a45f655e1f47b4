"""Each thing that cannot be exported is refused in one line that names it, and leaves no file."""

import pathlib
import subprocess
import sys
import textwrap

import cleave_path
import cleave
import pytest
import torch
from cleave.export.__main__ import main
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(4))


class Branch(Base):
    def forward(self, x):
        y = self.l(x)
        if y.sum() > 0:
            y = y + 1
        return y


class Item(Base):
    def forward(self, x):
        return self.l(x) * x.sum().item()


class Nonzero(Base):
    def forward(self, x):
        return self.l(x)[x > 0]


class ChangedInput(Base):
    def forward(self, x):
        x.add_(1)
        return self.l(x)


class ChangedParameter(Base):
    def forward(self, x):
        with torch.no_grad():
            self.l.weight.mul_(0.5)
        return self.l(x)


class AssignedBuffer(Base):
    def forward(self, x):
        self.count = self.count + 1
        return self.l(x)


class WrongShapes(Base):
    def forward(self, x):
        return self.l(x) @ self.l(x)


class Raises(Base):
    def forward(self, x):
        raise ValueError("no such mode")


class Complex(Base):
    def forward(self, x):
        return torch.fft.fft(self.l(x)).abs()


class Sparse(Base):
    def forward(self, x):
        return torch.sparse.mm(x.to_sparse(), self.l(x).t())


class Permutation(Base):
    def forward(self, x):
        return self.l(x)[torch.randperm(x.shape[0])]


class OddNormals(Base):
    def forward(self, x):
        return self.l(x) + torch.randn(3).sum()


class Conditional(Base):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (self.l(x),))


class BufferGradient(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4).requires_grad_())

    def forward(self, x):
        return self.l(x) * self.scale


class BadStage(Base):
    def forward(self, x):
        with torch.fx.traceback.annotate({"stage": "first"}):
            return self.l(x)


def mean(outputs):
    return outputs.mean()


HERE = pathlib.Path(__file__).name


def line(cls, offset):
    return f"{HERE}:{cls.forward.__code__.co_firstlineno + offset}"


# Each with what its message must hold: the operator or statement, the reason, the place.
UNTRACEABLE = [
    (Branch, ["Data-dependent branching", "if y.sum() > 0:", line(Branch, 2)]),
    (Item, ["aten::_local_scalar_dense", line(Item, 1)]),
    (Nonzero, ["aten::index.Tensor", "dynamic shape", line(Nonzero, 1)]),
    (ChangedInput, ["changes its input 'x' in place"]),
    (ChangedParameter, ["changes parameter 'l.weight' in place"]),
    (AssignedBuffer, ["assigns a new tensor to a buffer of the module"]),
    (WrongShapes, ["must have same reduction dim", line(WrongShapes, 1)]),
    (Raises, ["ValueError", "no such mode", line(Raises, 1)]),
    (Complex, ["aten::_fft_r2c", "torch.complex64", line(Complex, 1)]),
    (Sparse, ["sparse", line(Sparse, 1)]),
    (Permutation, ["aten::randperm", "random operator", line(Permutation, 1)]),
    (OddNormals, ["aten::randn", "3 normal numbers", line(OddNormals, 1)]),
    (Conditional, ["cond", line(Conditional, 1)]),
    (BufferGradient, ["buffer 'scale' takes a gradient"]),
    (BadStage, ["the stage 'first'", line(BadStage, 2)]),
]


def refuse(tmp_path, expected, module, args=None, **options):
    """Expects an error of one line that holds all of `expected`, and an empty directory."""
    out = tmp_path / "out"
    with pytest.raises(cleave.ExportError) as caught:
        cleave.export(module, args or (torch.ones(8, 4),), out=out, **options)
    message = str(caught.value)
    assert "\n" not in message
    for part in expected:
        assert part in message
    assert not out.exists() or not list(out.iterdir())


@pytest.mark.parametrize("module, expected", UNTRACEABLE, ids=lambda v: getattr(v, "__name__", ""))
def test_what_cannot_be_traced(tmp_path, module, expected, capfd):
    refuse(tmp_path, expected, module(), loss=mean)
    assert capfd.readouterr().err == ""


class Plain(Base):
    def forward(self, x, scale=1.0):
        return self.l(x) * scale


def test_dynamic_sizes(tmp_path):
    x = torch.ones(8, 4)
    torch._dynamo.mark_dynamic(x, 0)
    refuse(tmp_path, ["input 'x' has the dynamic shape", "fixed sizes"], Plain(), (x,), loss=mean)


def test_losses(tmp_path):
    refuse(
        tmp_path, ["the loss has shape (8, 4)", "expected a 0-d tensor"], Plain(), loss=lambda o: o
    )
    refuse(tmp_path, ["torch.int64", "floating-point"], Plain(), loss=lambda o: o.sum().long())
    refuse(tmp_path, ["needs a loss", "Two.forward"], _two_outputs(), mode="joint")
    refuse(tmp_path, ["needs a loss", "Two.forward"], _two_outputs(), mode="loss")
    frozen = Plain().requires_grad_(False)
    refuse(tmp_path, ["no parameter that requires a gradient"], frozen, loss=mean)
    refuse(tmp_path, ["targets but no loss"], Plain(), targets=(torch.ones(8),))
    refuse(tmp_path, ["loss to be callable", "int"], Plain(), loss=3)


def _two_outputs():
    class Two(Base):
        def forward(self, x):
            return self.l(x), x

    return Two()


def test_arguments(tmp_path):
    x = torch.ones(8, 4)
    refuse(tmp_path, ["Plain.forward(x, scale=1.0)", "too many"], Plain(), (x, x, x), loss=mean)
    refuse(tmp_path, ["'x.0' is of type object"], Plain(), ([object()],), loss=mean)
    refuse(tmp_path, ["expected a torch.nn.Module", "builtins.int"], 3)
    refuse(tmp_path, ["mode", "'backward'"], Plain(), mode="backward")
    refuse(
        tmp_path, ["mode 'joint' to leave gradients out of", "'forward'"], Plain(), gradients=False
    )
    refuse(tmp_path, ["file name", "'a/b'"], Plain(), name="a/b")
    refuse(tmp_path, ["lr_schedule", "builtins.float"], Plain(), loss=mean, lr_schedule=0.1)


def test_a_backward_of_its_own(tmp_path):
    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.sign()

        @staticmethod
        def backward(context, gradient):
            return gradient

    class Custom(Plain):
        def forward(self, x):
            return Sign.apply(super().forward(x))

    expected = ["a torch.autograd.Function at ", "has a backward of its own", "export with gradients"]
    refuse(tmp_path, expected, Custom(), loss=lambda y: y.mean(), gradients=False)


def test_devices(tmp_path):
    refuse(tmp_path, ["parameter 'l.weight' is on meta"], Plain().to("meta"), loss=mean)
    refuse(
        tmp_path, ["input 'x' is on meta"], Plain(), (torch.ones(8, 4, device="meta"),), loss=mean
    )


def test_batch_dimensions(tmp_path):
    x = torch.ones(8, 4)
    refuse(
        tmp_path,
        ["'scale' has 4 entries", "'x' has 8 examples"],
        Plain(),
        (x, torch.ones(4)),
        loss=mean,
    )
    refuse(tmp_path, ["dimension 2 for 'x'"], Plain(), loss=mean, batch_dims={"x": 2})
    refuse(tmp_path, ["names 'y'", "x"], Plain(), loss=mean, batch_dims={"y": 0})


def test_optimizers(tmp_path):
    module = Plain()
    parameters = list(module.parameters())
    used = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    mean(module(torch.ones(8, 4))).backward()
    used.step()
    stranger = torch.optim.SGD([torch.ones(3, 3, requires_grad=True)], lr=0.1)
    for optimizer, expected in (
        (torch.optim.Adagrad(parameters), ["Adagrad", "AdamW"]),
        (torch.optim.AdamW(parameters, amsgrad=True), ["amsgrad"]),
        (torch.optim.SGD(parameters, lr=0.1, maximize=True), ["maximize"]),
        (torch.optim.Adam(parameters, weight_decay=0.1), ["weight decay"]),
        (used, ["has taken steps"]),
        (stranger, ["shape (3, 3)", "does not have"]),
        (lambda p: 3, ["builtins.int"]),
    ):
        refuse(tmp_path, expected, module, loss=mean, optimizer=optimizer)


def test_schedules():
    with pytest.raises(cleave.ExportError, match="0 <= warmup < total, found 5 and 5"):
        cleave.WarmupCosine(warmup=5, total=5)
    with pytest.raises(cleave.ExportError, match="positive number of steps, found 0"):
        cleave.StepDecay(every=0, decay=0.1)


def test_failure_leaves_earlier_files(tmp_path):
    cleave.export(Plain(), (torch.ones(8, 4),), loss=mean, name="m", out=tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(cleave.ExportError):
        cleave.export(Branch(), (torch.ones(8, 4),), loss=mean, name="m", out=tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert sorted(before) == ["m.mlir", "m.safetensors"]


def test_a_directory_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(cleave.ExportError, match="cannot write to .*file"):
        cleave.export(Plain(), (torch.ones(8, 4),), loss=mean, out=tmp_path / "file")


SCRIPT = """
import torch, cleave
from torch import nn

def good():
    module = nn.Linear(4, 4)
    return cleave.ExportSpec(module, (torch.ones(8, 4),), loss=mean, name="good")

def mean(outputs):
    return outputs.mean()

def as_dict():
    return {"module": nn.Linear(4, 4), "args": (torch.ones(8, 4),), "name": "dict"}

def raises():
    raise RuntimeError("out of ideas")

def nothing():
    return 3

def nonscalar():
    return cleave.ExportSpec(nn.Linear(4, 4), (torch.ones(8, 4),), loss=lambda o: o)
"""


def run(folder, *arguments):
    """Runs `python -m cleave.export` in `folder`."""
    command = [sys.executable, "-m", "cleave.export", *arguments]
    package = str(cleave_path.SOURCE / "python")
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": package, "PATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "models.py").write_text(textwrap.dedent(SCRIPT))
    done = run(tmp_path, "models.py:good", "-o", "out", "--name", "other")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out/other.mlir\n", "")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "other.mlir",
        "other.safetensors",
    ]
    assert 'loc("models.py":' in (tmp_path / "out/other.mlir").read_text()
    # What the options do shows in this process, too.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    assert main(["models.py:good", "-o", "half", "--no-gradients"]) == 0
    half = (tmp_path / "half/good.mlir").read_text()
    assert "#train.role<loss>" in half and "gradient" not in half
    capsys.readouterr()
    assert main(["models.py:nonscalar"]) == 1
    out, error = capsys.readouterr()
    assert out == "" and error.startswith("error: the loss has shape (8, 4)")
    assert error.count("\n") == 1


def test_command_line_errors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "models.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    for target, expected in (
        ("models.py", "expected FILE:FACTORY, found 'models.py'"),
        ("absent.py:good", "there is no file absent.py"),
        ("models.py:absent", "models.py has no function 'absent'; it has good, mean, as_dict"),
        ("models.py:raises", "raises raised RuntimeError at models.py:16: out of ideas"),
        ("models.py:nothing", "expected nothing to return a cleave.ExportSpec"),
        ("broken.py:good", "importing broken.py raised ModuleNotFoundError at broken.py:1"),
    ):
        assert main([target, "-o", "out"]) == 1
        message = capsys.readouterr().err
        assert message.startswith("error: ") and message.count("\n") == 1
        assert expected in message
    assert not (tmp_path / "out").exists()
    assert main(["models.py:as_dict", "-o", "out"]) == 0
    assert "#train.role<output" in (tmp_path / "out/dict.mlir").read_text()
