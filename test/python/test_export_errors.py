"""Each thing that cannot be exported is refused in one line that names it, and leaves no file."""

import pathlib
import resource
import shutil
import subprocess
import sys
import textwrap

import cleave_path
import cleave
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional_collectives
from cleave.export.__main__ import main
from torch import nn
from torch._subclasses import FakeTensorMode


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


class HalfComplex(Base):
    def forward(self, x):
        return torch.complex(self.l(x).half(), x.half()).abs()


class Sparse(Base):
    def forward(self, x):
        return torch.sparse.mm(x.to_sparse(), self.l(x).t())


class Poisson(Base):
    def forward(self, x):
        return self.l(x) + torch.poisson(x.abs())


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


@torch.library.custom_op("export_errors::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x * x * x


cube.register_fake(torch.empty_like)
cube.register_autograd(lambda context, g: g, setup_context=lambda ctx, inputs, output: None)


class CustomOp(Base):
    def forward(self, x):
        return cube(self.l(x))


class Collective(Base):
    def forward(self, x):
        return torch.ops._c10d_functional.all_reduce(self.l(x), "sum", "0")


class CollectiveWithoutGroup(Base):
    def forward(self, x):
        y = self.l(x)
        torch.distributed.all_reduce(y)
        return y


class Half(Base):
    def forward(self, x):
        return self.l(x.half())


class Routing(Base):
    def forward(self, x):
        for expert in range(2):
            (rows,) = torch.where(x.argmax(-1) == expert)
            if rows.numel():
                x = x.index_add(0, rows, self.l(x[rows]))
        return x


class Windows(Base):
    def forward(self, x):
        return self.l(x)[:, 1:].as_strided((8, 2), (4, 1))


class Seeds(Base):
    def forward(self, x):
        torch.manual_seed(0)
        return self.l(x)


class AutocastOfCuda(Base):
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.l(x)


class SizeOfValues(Base):
    def forward(self, x):
        first = (x.sum() > 0).long()
        return self.l(x)[:, : len(torch.arange(first, 3))]


def mean(outputs):
    return outputs.mean()


HERE = pathlib.Path(__file__).name


def line(cls, offset):
    return f"{HERE}:{cls.forward.__code__.co_firstlineno + offset}"


# Each with what its message must hold: the operator or statement, the reason, the place.
UNTRACEABLE = [
    (Branch, ["Data-dependent branching", "if y.sum() > 0:", line(Branch, 2)]),
    (Item, ["aten::_local_scalar_dense", line(Item, 1)]),
    (Nonzero, ["aten::index.Tensor", "dynamic shape", "examples/moe.py", line(Nonzero, 1)]),
    (ChangedInput, ["changes its input 'x' in place"]),
    (ChangedParameter, ["changes parameter 'l.weight' in place"]),
    (AssignedBuffer, ["assigns a new tensor to a buffer of the module"]),
    (WrongShapes, ["must have same reduction dim", line(WrongShapes, 1)]),
    (Raises, ["ValueError", "no such mode", line(Raises, 1)]),
    (HalfComplex, ["aten::complex", "torch.complex32", line(HalfComplex, 1)]),
    (Sparse, ["sparse", line(Sparse, 1)]),
    (Poisson, ["aten::poisson", "random operator", line(Poisson, 1)]),
    (OddNormals, ["aten::randn", "3 normal numbers", line(OddNormals, 1)]),
    (Conditional, ["cond", line(Conditional, 1)]),
    (BufferGradient, ["buffer 'scale' takes a gradient"]),
    (CustomOp, ["export_errors::cube", "the library 'export_errors'", line(CustomOp, 1)]),
    (Collective, ["_c10d_functional::all_reduce", "a collective", "plan", line(Collective, 1)]),
    (CollectiveWithoutGroup, ["a collective of torch.distributed", line(CollectiveWithoutGroup, 2)]),
    (Half, ["aten::addmm", "operands of types float32 and float16", line(Half, 1)]),
    (Routing, ["depends on data", "examples/moe.py", line(Routing, 3)]),
    (Windows, ["aten::as_strided", "strides (4, 1)", "contiguous()", line(Windows, 1)]),
    (Seeds, ["seeds PyTorch's generator", line(Seeds, 1)]),
    (SizeOfValues, ["a size that depends on a tensor's values", line(SizeOfValues, 2)]),
    (AutocastOfCuda, ["torch.autocast('cuda')", "torch.autocast(x.device.type)", line(AutocastOfCuda, 2)]),
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
    refuse(tmp_path, ["'x' has no examples in dimension 0"], Plain(), (torch.ones(0, 4),), loss=mean)
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
    refuse(tmp_path, ["argument 'x' is a nested tensor", "expected a padded one"], Plain(), (nested,), loss=mean)


def test_modules_that_are_not_ready(tmp_path):
    """Tracing would give a lazy module its shapes."""
    module = torch.nn.Sequential(torch.nn.LazyLinear(4))
    refuse(tmp_path, ["'0.weight' has no shape yet", "call the module once"], module, loss=mean)
    assert isinstance(module[0], torch.nn.LazyLinear)
    for compiled in (torch.jit.script(torch.nn.Linear(4, 4)), torch.jit.trace(torch.nn.Linear(4, 4), torch.ones(8, 4))):
        refuse(tmp_path, ["expected a module in Python", "export what it was compiled from"], compiled, loss=mean)


def test_functional_collectives(tmp_path):
    class Reduced(Plain):
        def forward(self, x):
            return functional_collectives.all_reduce(super().forward(x), "sum", dist.group.WORLD)

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        expected = ["_c10d_functional::all_reduce", "a collective", line(Reduced, 1)]
        refuse(tmp_path, expected, Reduced(), loss=mean)
    finally:
        dist.destroy_process_group()


def test_a_module_of_another_type_than_its_input(tmp_path):
    expected = ["cannot export 'aten::addmm': found operands of types float32 and float16"]
    refuse(tmp_path, expected, nn.Linear(4, 4), (torch.ones(8, 4).half(),), loss=mean)


def test_fields_that_were_assigned_later(tmp_path):
    module = Plain()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    spec = cleave.ExportSpec(module, (torch.ones(8, 4),), loss=mean, optimizer=optimizer)
    spec.lr_schedule = "cosine"
    with pytest.raises(cleave.ExportError, match="as lr_schedule, found a value of type builtins.str"):
        cleave.export_spec(spec, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_full_disk(tmp_path):
    """A limit on the size of files does as well."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    module = nn.Linear(64, 64)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(cleave.ExportError, match="cannot write to .*: .*File too large"):
            cleave.export(module, (torch.ones(8, 64),), loss=mean, out=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


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

    expected = ["a torch.autograd.Function at ", "has its own backward", "export with gradients"]
    refuse(tmp_path, expected, Custom(), loss=lambda y: y.mean(), gradients=False)


def test_devices(tmp_path):
    with FakeTensorMode():
        module, x = Plain(), torch.ones(8, 4, device="xpu")
    refuse(tmp_path, ["input 'x' is on xpu", "expected everything on the CPU"], module, (x,), loss=mean)


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
    class Own(torch.optim.Optimizer):
        def __init__(self, step):
            super().__init__(parameters, {"lr": 0.1, "power": 2})
            self.inner = step

        def step(self):
            self.inner(self)

    def scale(optimizer):
        optimizer.param_groups[0]["power"] *= 0.5

    def use_others(optimizer):
        optimizer.param_groups[0]["params"][0].add_(parameters[1].sum())

    wrapper = Own(torch.optim.SGD(parameters, lr=0.1))
    stranger = torch.optim.SGD([torch.ones(3, 3, requires_grad=True)], lr=0.1)
    for optimizer, expected in (
        (torch.optim.LBFGS(parameters), ["LBFGS", "closure"]),
        (torch.optim.SparseAdam(parameters), ["SparseAdam", "sparse gradients"]),
        ([torch.optim.SGD(parameters), torch.optim.NAdam(parameters)], ["two optimizers hold parameter"]),
        (torch.optim.SGD(parameters, lr=float("nan")), ["SGD has lr = nan", "finite"]),
        (torch.optim.AdamW(parameters, eps=float("inf")), ["AdamW has eps = inf", "finite"]),
        (used, ["has taken steps"]),
        (stranger, ["shape (3, 3)", "does not have"]),
        (wrapper, ["Own holds another optimizer (SGD, its 'inner')"]),
        (Own(lambda own: None), ["changes none of the parameters in self.param_groups"]),
        (Own(use_others), ["uses parameters that it does not have from self.param_groups"]),
        (Own(scale), ["changes 'power' of a parameter group", "counts steps from 0"]),
        (lambda p: 3, ["builtins.int"]),
    ):
        refuse(tmp_path, expected, module, loss=mean, optimizer=optimizer)


def test_schedules():
    with pytest.raises(cleave.ExportError, match="0 <= warmup < total, found 5 and 5"):
        cleave.WarmupCosine(warmup=5, total=5)
    for floor in (2, -1, float("nan")):
        with pytest.raises(cleave.ExportError, match=f"floor from 0 to 1.*, found {floor}"):
            cleave.WarmupCosine(warmup=0, total=5, floor=floor)
    with pytest.raises(cleave.ExportError, match="finite decay, found inf"):
        cleave.StepDecay(every=1, decay=float("inf"))
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


def run(folder, *arguments, package=cleave_path.SOURCE / "python"):
    """Runs `python -m cleave.export` in `folder`."""
    command = [sys.executable, "-m", "cleave.export", *arguments]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(package), "PATH": "", "OMP_NUM_THREADS": "1"},
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


def test_a_package_without_a_build(tmp_path):
    package = tmp_path / "package"
    ignored = shutil.ignore_patterns("typed_ops.json", "__pycache__")
    shutil.copytree(pathlib.Path(cleave.__file__).parent, package / "cleave", ignore=ignored)
    (tmp_path / "models.py").write_text(textwrap.dedent(SCRIPT))
    done = run(tmp_path, "models.py:good", "-o", "out", package=package)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: expected the table of typed ops at cleave/typed_ops.json, which the build generates; found none: run "
        "./dev build in Cleave's checkout, or install the package from there after a build\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments, status",
    [
        (["cleave.export", "--help"], 0),
        (["cleave.export"], 2),
        (["cleave.export", "absent.py:model"], 1),
        (["cleave.export", "x.py:y", "--mode", "sideways"], 2),
        (["cleave.placement_page", "--help"], 0),
        (["cleave.placement_page"], 2),
        (["cleave.status_page", "--help"], 0),
        (["cleave.status_page"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_does_not_wait_for_pytorch(tmp_path, arguments, status):
    (tmp_path / "torch.py").write_text("raise ImportError('PyTorch is imported')")
    path = f"{tmp_path}:{cleave_path.SOURCE / 'python'}"
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=tmp_path, capture_output=True,
                          text=True, env={"PYTHONPATH": path, "PATH": ""}, timeout=60)  # fmt: skip
    assert done.returncode == status
    assert "usage: python -m cleave" in done.stdout + done.stderr or "there is no file" in done.stderr
    assert "Traceback" not in done.stderr


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
