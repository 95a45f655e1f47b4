"""Every op whose fake kernel gives other strides than its kernel is known to the exporter.

Ops are those of the exported models and of the layers below, each with its operands in several layouts.
"""

import itertools

import cleave_path  # noqa: F401
import cleave
import torch
import torch.nn.functional as F
from cleave.export.strides import LAYOUTS, with_layouts
from exported_models import export_and_compare, microbatch_values
from interpreter import Interpreter
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map_only

LAYERS = [
    F.celu, F.dropout, F.elu, F.gelu, F.glu, F.hardshrink, F.hardsigmoid, F.hardswish, F.hardtanh, F.leaky_relu, F.logsigmoid,
    F.mish, F.relu6, F.selu, F.silu, F.softplus, F.softshrink, F.softsign, F.tanhshrink, torch.sigmoid, torch.tanh,
    lambda x: x.abs() + x.clamp(-1, 1) + x.exp() + x.erf() + x.log1p().nan_to_num() + x.square().sqrt(),
    lambda x: x.softmax(1) * x.log_softmax(1) + x.cumsum(1) + x.var(1, keepdim=True) + x.amax(1, keepdim=True),
    lambda x: x.logsumexp(1) * x.norm(dim=1) * x.std(1) * x.max(1)[0] * x.mean(1) * x.sort(1)[0][:, 0],
    lambda x: F.layer_norm(x, x.shape[2:]) + F.group_norm(x, 2) + x.roll(1, 1) + x.flip(1),
    lambda x: torch.where(x > 0, x, 2 * x) + torch.lerp(x, 2 * x, 0.3) + torch.addcmul(x, x, x) + x.tril(),
    lambda x: F.interpolate(F.avg_pool1d(x, 2) + F.max_pool1d(x, 2), scale_factor=2) + F.smooth_l1_loss(x, 2 * x),
    lambda x: F.mse_loss(x, x * x) + F.huber_loss(x, 2 * x) + F.binary_cross_entropy_with_logits(x, x.sigmoid()),
]  # fmt: skip


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.prelu = nn.PReLU()

    def forward(self, x):
        x = self.l(x)
        return sum(layer(x).square().mean() for layer in [*LAYERS, self.prelu])


class Calls(Interpreter):
    """Runs a program, and keeps the first call of each operator on operands of a rank and dtype."""

    def __init__(self, text):
        super().__init__(text)
        self.seen = {}

    def call(self, overload, args, kwargs):
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        key = overload, *((t.dim(), t.dtype) for t in tensors), kwargs.get("output_mask") is None
        if torch.Tag.nondeterministic_seeded not in overload.tags:
            self.seen.setdefault(key, (overload, list(args), kwargs))
        return super().call(overload, args, kwargs)


def layouts(value):
    """An operand as it is, and with its dimensions in the other order of memory."""
    yield value
    if isinstance(value, torch.Tensor) and value.dim() >= 2 and value.is_floating_point():
        order = list(reversed(range(value.dim())))
        yield value.permute(order).contiguous().permute(order)


def strides(value):
    """Those that matter: of dimensions with several elements."""
    leaves = value if isinstance(value, (tuple, list)) else [value]
    return [
        tuple(s for n, s in zip(t.shape, t.stride()) if n > 1)
        for t in leaves
        if isinstance(t, torch.Tensor) and t.numel()
    ]


def wrong_fakes(overload, args, kwargs):
    """The layouts of operands for which the fake kernel's result is laid out differently."""
    for laid_out in itertools.islice(itertools.product(*map(layouts, args)), 8):
        try:
            found = overload(*laid_out, **kwargs)
        except RuntimeError:
            continue  # a view that is not possible
        with FakeTensorMode() as mode:
            fakes, named = tree_map_only(torch.Tensor, mode.from_tensor, (laid_out, kwargs))
            fake = overload(*fakes, **named)
            if strides(fake) != strides(found):
                corrected = with_layouts(overload, fakes, fake) if overload in LAYOUTS else fake
                yield strides(corrected) == strides(found)


def run_calls(text, weights, spec):
    """The distinct calls of a program's microbatch."""
    interpreter = Calls(text)
    interpreter.run("microbatch", microbatch_values(interpreter, weights, spec))
    return interpreter.seen.values()


def test_fake_kernels_with_wrong_strides_are_known(exported, tmp_path):
    torch.manual_seed(0)
    spec = cleave.ExportSpec(Layers(), torch.randn(2, 4, 8), loss=lambda y: y, mode="joint")
    seen = [*run_calls(*export_and_compare(spec, tmp_path), spec)]
    model = exported("mamba")
    seen += run_calls(model.text, model.weights, model.spec)
    wrong = {}
    for overload, args, kwargs in seen:
        for corrected in wrong_fakes(overload, args, kwargs):
            wrong.setdefault(overload, []).append(corrected)
    assert set(wrong) == set(LAYOUTS)
    assert all(map(all, wrong.values())), wrong
