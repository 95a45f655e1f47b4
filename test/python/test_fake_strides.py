"""Every op whose fake kernel gives other strides than its kernel is known to the exporter.

Ops are those of training steps of many models, in eager mode, and of the layers below, exported: each with
its operands in several layouts.
"""

import itertools

import cleave_path  # noqa: F401
import cleave
import torch
import torch.nn.functional as F
from cleave.export.strides import LAYOUTS, with_layouts
from eager_models import EAGER_MODELS
from exported_models import export_and_compare, microbatch_values
from interpreter import Interpreter
from torch import nn
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

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


IMAGE_LAYERS = [
    F.instance_norm, lambda x: F.group_norm(x, 2), lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.adaptive_avg_pool2d(x, 2) + F.adaptive_max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2),
    lambda x: F.interpolate(x, scale_factor=2) + F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)[:, :, :1, :1], lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"),
    lambda x: F.local_response_norm(x, 2), lambda x: F.unfold(x, 2), lambda x: F.softmax(x, 1),
    lambda x: F.kl_div(x, x.softmax(1), reduction="batchmean"), lambda x: F.cross_entropy(x, torch.zeros(2, 4, 4, dtype=torch.long)),
    lambda x: F.poisson_nll_loss(x, 2 * x) + F.smooth_l1_loss(x, 2 * x) + F.huber_loss(x, 2 * x),
    lambda x: F.conv_transpose2d(x, torch.ones(8, 4, 2, 2), stride=2), lambda x: x.logit(0.1).addcdiv(x, x.exp()),
    lambda x: x.logcumsumexp(1), lambda x: x.topk(2, 1)[0] + x.median(1)[0][:, None],
    lambda x: x.index_select(1, torch.tensor([0, 1])), lambda x: x.gather(1, torch.zeros_like(x, dtype=torch.long)),
    lambda x: x.masked_fill(x > 0, 0.5).logaddexp(2 * x), lambda x: F.normalize(x, dim=1) + x.atan2(2 * x),
    lambda x: x[:1, :, 0][:, torch.tensor([0, 3])],
    lambda x: x[:, torch.tensor([0, 3])] + x[:, torch.tensor([1, 2]), :, torch.tensor([[0], [1]])].sum(),
    lambda x: torch.special.xlogy(x, x.exp()),
]  # fmt: skip


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.conv = nn.Conv2d(3, 8, 1)
        self.prelu = nn.PReLU()
        self.norm, self.still = nn.BatchNorm2d(8), nn.BatchNorm2d(8).eval()
        self.weight_norm = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))

    def forward(self, x, images):
        x, images = self.l(x), self.conv(images)
        layers = [(layer, x) for layer in [*LAYERS, self.prelu, self.weight_norm]]
        layers += [(layer, images) for layer in [*IMAGE_LAYERS, self.norm, self.still]]
        return sum(layer(operand).square().mean() for layer, operand in layers)


def memory(value):
    """A tensor's layout as far as kernels ask for it: the order of its dimensions in memory."""
    order = sorted(range(value.dim()), key=lambda d: -value.stride(d))
    return value.dtype, *order, *(n == 1 for n in value.shape)


def layouts(value):
    """An operand as it is, and with its dimensions in other orders of memory."""
    yield value
    if isinstance(value, torch.Tensor) and value.dim() >= 2 and value.is_floating_point():
        order = list(reversed(range(value.dim())))
        yield value.permute(order).contiguous().permute(order)
        if value.dim() == 4:
            yield value.contiguous(memory_format=torch.channels_last)


def strides(value):
    """Those that matter: of dimensions with several elements."""
    return [
        tuple(s for n, s in zip(t.shape, t.stride()) if n > 1)
        for t in tree_leaves(value)
        if isinstance(t, torch.Tensor) and t.numel()
    ]


class Calls(TorchDispatchMode):
    """Compares the fake kernel with the kernel for each operator that is called, once for operands in an
    order of memory, and for operands of a rank and dtype in several.

    `wrong` has the operators whose fake kernel lays results out differently, each with whether LAYOUTS
    corrects that for all operands.
    """

    def __init__(self):
        super().__init__()
        self._seen, self.wrong = set(), {}

    def __torch_dispatch__(self, overload, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        found = overload(*args, **kwargs)
        # What is drawn at random has ops of its own in programs.
        is_random = torch.Tag.nondeterministic_seeded in overload.tags
        if overload.namespace != "aten" or overload._schema.is_mutable or is_random:
            return found
        if self._is_new(overload, memory, args, kwargs):
            self._compare(overload, args, kwargs, found)
        small = sum(t.numel() for t in tree_leaves(args) if isinstance(t, torch.Tensor)) < 100000
        if small and self._is_new(overload, lambda t: (t.dim(), t.dtype), args, kwargs):
            for laid_out in itertools.islice(itertools.product(*map(layouts, args)), 1, 12):
                try:
                    again = overload(*laid_out, **kwargs)
                except RuntimeError:
                    continue  # a view that is not possible
                self._compare(overload, laid_out, kwargs, again)
        return found

    def _is_new(self, overload, shown, args, kwargs):
        key = overload, str(tree_map_only(torch.Tensor, shown, (args, kwargs)))
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _compare(self, overload, args, kwargs, found):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fakes, named = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
            try:
                fake = overload(*fakes, **named)
            except (DataDependentOutputException, DynamicOutputShapeException):
                return  # and no program has it
            if strides(fake) != strides(found):
                corrected = with_layouts(overload, fakes, fake) if overload in LAYOUTS else fake
                is_right = strides(corrected) == strides(found)
                self.wrong[overload] = self.wrong.get(overload, True) and is_right


def test_fake_kernels_with_wrong_strides_are_known(tmp_path, one_thread):
    torch.manual_seed(0)
    images = torch.randn(2, 3, 4, 4)
    spec = cleave.ExportSpec(Layers(), (torch.randn(2, 4, 8), images), loss=lambda y: y, mode="joint")
    text, weights = export_and_compare(spec, tmp_path)
    calls = Calls()
    interpreter = Interpreter(text)
    values = microbatch_values(interpreter, weights, spec)
    with calls:
        interpreter.run("microbatch", values)
    for make in EAGER_MODELS.values():
        loss = make()
        with calls:
            loss().backward()
    assert {overload for overload, known in calls.wrong.items() if not known} == set()
    assert set(calls.wrong) == set(LAYOUTS)
