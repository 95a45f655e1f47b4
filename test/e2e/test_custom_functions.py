"""torch.autograd.Function: the program has the backward that its author wrote, on one rank and several."""

import subprocess

import cleave
import cleave_run  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from cleave import DataParallel, Plan, testing
from safetensors.torch import save_file
from torch import nn
from torch.utils.checkpoint import checkpoint


class StraightThrough(torch.autograd.Function):
    """No derivative of its forward, which has none."""

    @staticmethod
    def forward(ctx, x):
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return 0.5 * gradient


class Saving(torch.autograd.Function):
    """Saved inputs, a number, and a result without a gradient."""

    @staticmethod
    def forward(ctx, x, weight, factor):
        ctx.save_for_backward(x, weight)
        ctx.factor = factor
        result = torch.tanh(x @ weight) * factor
        mask = result > 0
        ctx.mark_non_differentiable(mask)
        return result, mask

    @staticmethod
    def backward(ctx, gradient, _):
        x, weight = ctx.saved_tensors
        gradient = gradient * ctx.factor * 3
        return gradient @ weight.t(), x.t() @ gradient, None


class SetUp(torch.autograd.Function):
    """The other way to write one; the second result's gradient may be absent."""

    @staticmethod
    def forward(x, factor):
        return x * factor, x + factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]
        ctx.set_materialize_grads(False)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        gradient = first * ctx.factor * 2 + x
        return gradient if second is None else gradient + second, None


class InPlace(torch.autograd.Function):
    """Changes what it returns in place; PyTorch's tracer gives that a gradient of zeros."""

    @staticmethod
    def forward(ctx, x):
        mask = torch.empty_like(x, dtype=torch.bool)
        mask.copy_(x > 0)
        result = x.exp()
        result[~mask] = 0
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(result)
        return result, mask

    @staticmethod
    def backward(ctx, gradient, _):
        (result,) = ctx.saved_tensors
        return gradient.mul_(result)


class Written(torch.autograd.Function):
    """Fills memory of its own."""

    @staticmethod
    def forward(ctx, x):
        result = torch.empty_like(x)
        torch.mul(x, x, out=result)
        ctx.save_for_backward(x)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient * ctx.saved_tensors[0]


class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4, dtype=torch.float64), nn.Linear(4, 3, dtype=torch.float64)
        self.weight = nn.Parameter(torch.randn(4, 4, dtype=torch.float64))
        self.function = function

    def forward(self, x):
        return self.last(self.function(self.first(x), self.weight))


def saving(x, weight):
    result, mask = Saving.apply(x, weight, 1.5)
    return result * mask


def in_place(x, weight):
    result, mask = InPlace.apply(x @ weight)
    return result + mask


def changed_afterwards(x, weight):
    return Written.apply((x @ weight).tanh_()).mul_(2)


def without_gradients(x, weight):
    with torch.no_grad():
        y = StraightThrough.apply(x)
    return (x + y) @ weight


def hooked(x, weight):
    y = x @ weight
    if y.requires_grad:
        y.register_hook(lambda gradient: 2 * gradient)
    return y


CASES = {
    "straight_through": lambda x, weight: StraightThrough.apply(x) @ weight,
    "saving": saving,
    "set_up": lambda x, weight: SetUp.apply(x @ weight, 2.0)[0],
    "set_up_both": lambda x, weight: sum(SetUp.apply(x @ weight, 2.0)),
    "checkpointed": lambda x, weight: checkpoint(saving, x, weight, use_reentrant=False),
    "hooked": hooked,
    "in_place": in_place,
    "written": lambda x, weight: Written.apply(x @ weight),
    "changed_afterwards": changed_afterwards,
    "checkpointed_in_place": lambda x, weight: checkpoint(in_place, x, weight, use_reentrant=False),
}


def make(function, **options):
    torch.manual_seed(0)
    target = torch.tensor([0, 2, 1, 1])
    return cleave.ExportSpec(Applied(function), (torch.randn(4, 4, dtype=torch.float64),), loss=F.cross_entropy,
                             targets=(target,), name="applied", **options)  # fmt: skip


def passed(build_dir, path, name, *passes):
    output = path.with_name(f"{name}.mlir")
    result = subprocess.run([build_dir / "bin/cleave-opt", path, *passes, "-o", output], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    output.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    return output


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_eager_modes(name, build_dir, cleave_run, tmp_path):
    spec = make(CASES[name])
    path = cleave.export_spec(spec, tmp_path)
    found = cleave_run.evaluate(path, testing.example_inputs(spec), tmp_path)
    for key, value in testing.evaluate(spec).items():
        assert torch.equal(found[key], value), key
    Plan({"dp": 2}, {"": DataParallel("dp")}).write(tmp_path / "plan.json")
    local = passed(build_dir, path, "local", f"--annotate-placements=plan={tmp_path / 'plan.json'}",
                   "--propagate-placements", "--partition", "--check-spmd-types")  # fmt: skip
    cleave_run.succeed(local, "--against", path, "--inputs", tmp_path / "inputs.safetensors", "--ranks", 2,
                       "--tolerance", 1e-12)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nothing_differentiates_them_again(name, tmp_path):
    """A forward-only program, to which --autodiff would add other gradients, is refused at the user's line."""
    with pytest.raises(cleave.ExportError) as error:
        cleave.export_spec(make(CASES[name], gradients=False), tmp_path)
    message = str(error.value)
    assert "test_custom_functions.py:" in message and "has its own backward" in message
    assert "export with gradients" in message and len(message.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_where_no_gradient_passes_there_is_nothing_to_lose(build_dir, cleave_run, tmp_path):
    joint = cleave.export_spec(make(without_gradients), tmp_path)
    (tmp_path / "forward").mkdir()
    forward = cleave.export_spec(make(without_gradients, gradients=False), tmp_path / "forward")
    ours = passed(build_dir, forward, "ours", "--autodiff")
    inputs = tmp_path / "inputs.safetensors"
    save_file(testing.example_inputs(make(without_gradients)), inputs)
    cleave_run.succeed(ours, "--against", joint, "--inputs", inputs)


def test_hooks_of_parameters(cleave_run, tmp_path):
    """A hook on a parameter's gradient is part of the backward; one that runs after it is part of no program."""

    def hooked_spec(register, **options):
        spec = make(lambda x, weight: x @ weight, **options)
        getattr(spec.module.weight, register)(lambda gradient: 5 * gradient)
        return spec

    spec = hooked_spec("register_hook")
    mask = torch.tensor([1.0, 0, 1, 1], dtype=torch.float64)
    spec.module.weight.register_hook(lambda gradient: gradient.clamp(max=1e-2) * mask)
    found = cleave_run.evaluate(cleave.export_spec(spec, tmp_path), testing.example_inputs(spec), tmp_path)
    # testing.evaluate copies the module, and copies of parameters have no hooks.
    F.cross_entropy(spec.module(*spec.args), *spec.targets).backward()
    assert spec.module.weight.grad[:, 1].abs().max() == 0 and spec.module.weight.grad.max() == 1e-2
    assert torch.equal(found["grad.weight"], spec.module.weight.grad)
    spec = make(lambda x, weight: x @ weight)
    norms = []
    spec.module.weight.register_hook(lambda gradient: norms.append(gradient.norm()))
    with pytest.raises(cleave.ExportError, match=r"the hook on the gradient of 'weight' \(register_hook\) returns no tensor"):
        cleave.export_spec(spec, tmp_path)
    spec = make(lambda x, weight: x @ weight)
    spec.module.weight.register_hook(lambda gradient: 2 * gradient if gradient.norm() > 1 else gradient)
    with pytest.raises(cleave.ExportError, match="cannot trace the hook on the gradient of 'weight'"):
        cleave.export_spec(spec, tmp_path)
    spec = make(lambda x, weight: x @ weight)
    spec.module.weight.register_hook(lambda gradient: gradient[0])
    with pytest.raises(cleave.ExportError, match="expected a gradient of shape"):
        cleave.export_spec(spec, tmp_path)
    with pytest.raises(cleave.ExportError, match="'weight' has a hook on its gradient .* export with gradients"):
        cleave.export_spec(hooked_spec("register_hook", gradients=False), tmp_path)
    with pytest.raises(cleave.ExportError, match="'weight' has a hook that runs after its gradient is accumulated"):
        cleave.export_spec(hooked_spec("register_post_accumulate_grad_hook"), tmp_path)
