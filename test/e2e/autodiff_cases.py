"""One case for each op with a derivative rule: a function of tensors that take gradients.

`Case(function, *shapes)`: operands are drawn in float64; `positive` ones away from 0, where logarithms
and powers want them; `smooth` says whether finite differences mean something. Functions call the
dispatcher, so that the op that they name is the op in the trace.
"""

import dataclasses
from collections.abc import Callable

import torch
from grouped import grouped_mm

aten = torch.ops.aten


@dataclasses.dataclass
class Case:
    function: Callable
    shapes: tuple
    positive: bool = False
    smooth: bool = True


def case(function, *shapes, positive=False, smooth=True):
    return Case(function, shapes, positive, smooth)


X, Y, ROW, COLUMN, SCALAR = (4, 6), (4, 6), (6,), (4, 1), ()
MASK = torch.tensor([[True, False, True, True, False, False]] * 4)
INDEX = torch.tensor([3, 0, 0, 2, 1])
PLACES = torch.tensor([[0, 5], [2, 2], [1, 0], [4, 3]])
LABELS = torch.tensor([1, 0, 5, 3])
PIXELS = torch.arange(40).reshape(2, 4, 5) % 3
CLASS_WEIGHTS = torch.linspace(0.5, 2.0, 6, dtype=torch.float64)
SHARES = torch.linspace(0, 1, 24, dtype=torch.float64).reshape(4, 6)
SIGNS = MASK * 2.0 - 1.0
# Ties: amax and its like share the gradient among the largest.
TIED = torch.tensor([[1.0, 2.0, 2.0], [0.0, 0.0, -1.0]], dtype=torch.float64)


# One group has none.
ENDS = torch.tensor([2, 2, 5], dtype=torch.int32)


def by_group(a, b, ends=None):
    """In float64, which eager mode's `_grouped_mm` does not take."""
    return aten._grouped_mm(a, b, ends) if torch.compiler.is_compiling() else grouped_mm(a, b, ends)


def overwritten(x, y):
    """A write into a view: traced as slice_scatter and copy."""
    z = x * 2
    z[:, 1:4] = y
    return z * x


def tie(x):
    """Values with ties that still depend on x."""
    return TIED + 0 * x


POINTWISE = {
    "add": case(lambda a, b: aten.add(a, b), X, ROW),
    "add_alpha": case(lambda a, b: aten.add(a, b, alpha=0.3), X, COLUMN),
    "add_scalar": case(lambda a: aten.add.Scalar(a, 2.5), X),
    "sub": case(lambda a, b: aten.sub(a, b, alpha=2), SCALAR, Y),
    "sub_scalar": case(lambda a: aten.sub.Scalar(a, 2.5), X),
    "rsub_scalar": case(lambda a: aten.rsub.Scalar(a, 2.5, 0.5), X),
    "mul": case(lambda a, b: aten.mul(a, b), X, ROW),
    "mul_itself": case(lambda a: aten.mul(a, a), X),
    "mul_scalar": case(lambda a: aten.mul.Scalar(a, 3), X),
    "div": case(lambda a, b: aten.div(a, b), COLUMN, X, positive=True),
    "div_scalar": case(lambda a: aten.div.Scalar(a, 3), X),
    "addcmul": case(lambda a, b, c: aten.addcmul(a, b, c, value=0.5), X, Y, ROW),
    "pow": case(lambda a, b: aten.pow.Tensor_Tensor(a, b), X, ROW, positive=True),
    "pow_tensor_scalar": case(lambda a: aten.pow.Tensor_Scalar(a, 3), X),
    "pow_half": case(lambda a: aten.pow.Tensor_Scalar(a, 0.5), X, positive=True),
    "pow_zero": case(lambda a: aten.pow.Tensor_Scalar(a, 0), X),
    "pow_scalar": case(lambda a: aten.pow.Scalar(2.5, a), X),
    "pow_of_zero": case(lambda a: aten.pow.Scalar(0, a), X, positive=True),
    "expm1": case(aten.expm1, X),
    "xlogy": case(lambda a, b: aten.xlogy(a, b), X, ROW, positive=True),
    "xlogy_zero": case(lambda a, b: aten.xlogy(0 * a, b), X, ROW, smooth=False),
    "remainder": case(lambda a, b: aten.remainder.Tensor(a, b), X, ROW, positive=True),
    "remainder_scalar": case(lambda a: aten.remainder.Scalar(a, 0.7), X),
    "floor": case(lambda a: aten.floor(a) * a, X),
    "ceil": case(lambda a: aten.ceil(a) * a, X),
    "round": case(lambda a: aten.round(a) * a, X),
    "trunc": case(lambda a: aten.trunc(a) * a, X),
    "sqrt": case(aten.sqrt, X, positive=True),
    "rsqrt": case(aten.rsqrt, X, positive=True),
    "reciprocal": case(aten.reciprocal, X, positive=True),
    "neg": case(aten.neg, X),
    "abs": case(aten.abs, X),
    "sgn": case(lambda a: aten.sgn(a) * a, X),
    "sign": case(lambda a: aten.sign(a) * a, X),
    "exp": case(aten.exp, X),
    "log": case(aten.log, X, positive=True),
    "log1p": case(aten.log1p, X, positive=True),
    "sin": case(aten.sin, X),
    "cos": case(aten.cos, X),
    "tan": case(aten.tan, X),
    "asin": case(lambda a: aten.asin(aten.tanh(a)), X),
    "acos": case(lambda a: aten.acos(aten.tanh(a)), X),
    "atan": case(aten.atan, X),
    "log2": case(aten.log2, X, positive=True),
    "erf": case(aten.erf, X),
    "where": case(lambda a, b: aten.where(MASK, a, b), X, ROW),
    "masked_fill_scalar": case(lambda a: aten.masked_fill.Scalar(a, MASK, 2.0), X),
    "masked_fill": case(lambda a, v: aten.masked_fill.Tensor(a, MASK, v), X, SCALAR),
    "clamp": case(lambda a: aten.clamp(a, -0.5, 0.7), X),
    "clamp_low": case(lambda a: aten.clamp(a, min=-0.2), X),
    "clamp_min": case(lambda a: aten.clamp_min(a, 0.1), X),
    "clamp_max": case(lambda a: aten.clamp_max(a, 0.1), X),
    "maximum": case(lambda a, b: aten.maximum(a, b), X, ROW),
    "maximum_tie": case(lambda a: aten.maximum(a, a), X),
    "minimum": case(lambda a, b: aten.minimum(a, b), X, COLUMN),
    "relu": case(aten.relu, X),
    "silu": case(aten.silu, X),
    "sigmoid": case(aten.sigmoid, X),
    "tanh": case(aten.tanh, X),
    "gelu": case(lambda a: aten.gelu(a), X),
    "gelu_tanh": case(lambda a: aten.gelu(a, approximate="tanh"), X),
    "softplus": case(lambda a: aten.softplus(a, 2.0), X),
    "softplus_threshold": case(lambda a: aten.softplus(a, 2, 0.5), X, smooth=False),
    "leaky_relu": case(lambda a: aten.leaky_relu(a, 0.2), X),
    "elu": case(lambda a: aten.elu(a, 1.5, 1.1, 0.9), X),
    "celu": case(lambda a: aten.celu(a, 1.5), X),
    "hardshrink": case(lambda a: aten.hardshrink(a, 0.3), X),
    "softshrink": case(lambda a: aten.softshrink(a, 0.3), X),
    "hardtanh": case(lambda a: aten.hardtanh(a, -0.4, 0.6), X),
    "threshold": case(lambda a: aten.threshold(a, 0.1, 2.0), X),
    "hardswish": case(aten.hardswish, X),
    "hardsigmoid": case(aten.hardsigmoid, X),
    "mish": case(aten.mish, X),
    "log_sigmoid_forward": case(lambda a: aten.log_sigmoid_forward(a)[0], X),
    "_prelu_kernel": case(lambda a, w: aten._prelu_kernel(a, w), X, (1, 6)),
    "glu": case(lambda a: aten.glu(a, 0), X),
    "_softmax": case(lambda a: aten._softmax(a, 1, False), X),
    "_log_softmax": case(lambda a: aten._log_softmax(a, 0, False), X),
    "_safe_softmax": case(lambda a: aten._safe_softmax(a, -1), X),
    "half_precision": case(lambda a: aten.mul(a.to(torch.float32), a.to(torch.float32)).double(),
                           X, smooth=False),
}  # fmt: skip

PRODUCTS = {
    "mm": case(lambda a, b: aten.mm(a, b), (4, 6), (6, 5)),
    "mm_by_columns": case(lambda a, b: aten.mm(a.t(), b.t()), (6, 4), (5, 6)),
    "bmm": case(lambda a, b: aten.bmm(a, b), (2, 4, 6), (2, 6, 5)),
    "_grouped_mm": case(lambda a, b: by_group(a, b, ENDS), (6, 4), (3, 4, 5)),
    "grouped_by_columns": case(lambda a, b: by_group(a.t(), b.transpose(-2, -1), ENDS), (4, 6), (3, 5, 4)),
    "grouped_sums": case(lambda a, b: by_group(a, b, ENDS), (4, 6), (6, 5)),
    "grouped_columns": case(lambda a, b: by_group(a, b, ENDS), (3, 4, 5), (5, 6)),
    "grouped_batches": case(lambda a, b: by_group(a, b), (3, 4, 5), (3, 5, 6)),
    "addmm": case(lambda c, a, b: aten.addmm(c, a, b, beta=0.5, alpha=2), (5,), (4, 6), (6, 5)),
    "baddbmm": case(lambda c, a, b: aten.baddbmm(c, a, b, beta=2, alpha=0.5),
                    (4, 5), (2, 4, 6), (2, 6, 5)),
    "mv": case(lambda a, x: aten.mv(a, x), X, ROW),
    "dot": case(lambda x, y: aten.dot(x, y), ROW, ROW),
    "_scaled_dot_product_flash_attention_for_cpu": case(
        lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, True, scale=0.4)[0],
        (2, 4, 8, 4), (2, 4, 8, 4), (2, 4, 8, 4)),
    "attention_mask": case(
        lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, attn_mask=torch.tril(torch.ones(8, 8, dtype=torch.float64)))[0],
        (2, 4, 8, 4), (2, 4, 8, 4), (2, 4, 8, 4)),
    "convolution": case(
        lambda x, w, b: aten.convolution(x, w, b, [2, 1], [1, 0], [1, 1], False, [0, 0], 2),
        (2, 4, 6, 5), (6, 2, 3, 2), (6,)),
    "convolution_transposed": case(
        lambda x, w: aten.convolution(x, w, None, [2], [1], [1], True, [1], 1),
        (2, 4, 6), (4, 3, 3)),
    "max_pool2d_with_indices": case(
        lambda x: aten.max_pool2d_with_indices(x, [3, 2], [2, 1], [1, 0])[0], (2, 3, 6, 5)),
    "avg_pool2d": case(
        lambda x: aten.avg_pool2d(x, [3, 2], [2, 1], [1, 0], False, False), (2, 3, 6, 5)),
    "avg_pool2d_divisor": case(lambda x: aten.avg_pool2d(x, [2, 2], divisor_override=3), (2, 3, 6, 5)),
    "im2col": case(lambda x: aten.im2col(x, [3, 2], [1, 2], [1, 0], [2, 2]), (2, 3, 6, 5)),
    "col2im": case(
        lambda x: aten.col2im(x, [6, 5], [3, 2], [1, 2], [1, 0], [2, 2]), (2, 18, 6)),
    "_adaptive_avg_pool2d": case(lambda x: aten._adaptive_avg_pool2d(x, [2, 3]), (2, 3, 6, 5)),
    "native_layer_norm": case(
        lambda x, w, b: aten.native_layer_norm(x, [6], w, b, 1e-5)[0], (2, 4, 6), (6,), (6,)),
    "layer_norm_plain": case(
        lambda x: aten.native_layer_norm(x, [4, 6], None, None, 1e-5)[0], (2, 4, 6)),
    "native_group_norm": case(
        lambda x, w, b: aten.native_group_norm(x, w, b, 4, 6, 5, 3, 1e-5)[0], (4, 6, 5), (6,), (6,)),
    "_native_batch_norm_legit_functional": case(
        lambda x, w, b: aten._native_batch_norm_legit_functional(
            x, w, b, torch.zeros(3).double(), torch.ones(3).double(), True, 0.1, 1e-5)[0],
        (4, 3, 5), (3,), (3,)),
    "_native_batch_norm_legit_no_training": case(
        lambda x, w, b: aten._native_batch_norm_legit_no_training(
            x, w, b, torch.zeros(3).double(), torch.full((3,), 2.0).double(), 0.1, 1e-5)[0],
        (4, 3, 5), (3,), (3,)),
    "nll_loss_forward": case(
        lambda x: aten.nll_loss_forward(x, LABELS, CLASS_WEIGHTS, 1, 0)[0], X),
    "nll_loss_none": case(lambda x: aten.nll_loss_forward(x, LABELS, None, 0, -100)[0], X),
    "nll_loss2d_forward": case(
        lambda x: aten.nll_loss2d_forward(x, PIXELS, CLASS_WEIGHTS[:3], 1, 0)[0], (2, 3, 4, 5)),
    "nll_loss2d_none": case(lambda x: aten.nll_loss2d_forward(x, PIXELS, None, 0, -100)[0], (2, 3, 4, 5)),
    "multi_margin_loss": case(lambda x: aten.multi_margin_loss(x, LABELS, 1, 0.8), X),
    "multi_margin_squares": case(
        lambda x: aten.multi_margin_loss(x, LABELS, 2, 1, CLASS_WEIGHTS, 0), X),
    "mse_loss": case(lambda x, y: aten.mse_loss(x, y), X, Y),
    "mse_loss_none": case(lambda x, y: aten.mse_loss(x, y, 0), X, Y),
    "huber_loss": case(lambda x, y: aten.huber_loss(x, y, 1, 0.7), X, Y),
    "smooth_l1_loss": case(lambda x, y: aten.smooth_l1_loss(x, y, 2), X, Y),
    "soft_margin_loss": case(lambda x: aten.soft_margin_loss(x, SIGNS), X),
    "binary_cross_entropy": case(
        lambda x: aten.binary_cross_entropy(aten.sigmoid(x), SHARES, CLASS_WEIGHTS), X),
    "binary_cross_entropy_with_logits": case(
        lambda x: aten.binary_cross_entropy_with_logits(x, SHARES), X),
    "logits_weighted": case(
        lambda x: aten.binary_cross_entropy_with_logits(x, SHARES, SHARES, CLASS_WEIGHTS, 2), X),
}  # fmt: skip

LINE, IMAGE, VOLUME = (2, 3, 4), (2, 3, 4, 3), (2, 3, 2, 4, 3)
UPSAMPLING = {
    "upsample_nearest1d": case(lambda x: aten.upsample_nearest1d(x, [7]), LINE),
    "upsample_nearest2d": case(lambda x: aten.upsample_nearest2d(x, [8, 5]), IMAGE),
    "upsample_nearest2d_scaled": case(lambda x: aten.upsample_nearest2d(x, [8, 5], 2.0, 1.75), IMAGE),
    "upsample_nearest3d": case(lambda x: aten.upsample_nearest3d(x, [3, 8, 5]), VOLUME),
    "_upsample_nearest_exact1d": case(lambda x: aten._upsample_nearest_exact1d(x, [7]), LINE),
    "_upsample_nearest_exact2d": case(lambda x: aten._upsample_nearest_exact2d(x, [8, 5]), IMAGE),
    "_upsample_nearest_exact3d": case(lambda x: aten._upsample_nearest_exact3d(x, [3, 8, 5]), VOLUME),
    "upsample_linear1d": case(lambda x: aten.upsample_linear1d(x, [7], False), LINE),
    "upsample_bilinear2d": case(lambda x: aten.upsample_bilinear2d(x, [8, 5], True), IMAGE),
    "upsample_bilinear2d_scaled": case(
        lambda x: aten.upsample_bilinear2d(x, [8, 5], False, 2.0, 1.75), IMAGE),
    "upsample_trilinear3d": case(lambda x: aten.upsample_trilinear3d(x, [3, 8, 5], False), VOLUME),
    "upsample_bicubic2d": case(lambda x: aten.upsample_bicubic2d(x, [8, 5], False), IMAGE),
    "_upsample_bilinear2d_aa": case(lambda x: aten._upsample_bilinear2d_aa(x, [2, 5], False), IMAGE),
    "_upsample_bicubic2d_aa": case(lambda x: aten._upsample_bicubic2d_aa(x, [2, 5], False), IMAGE),
}  # fmt: skip

REDUCTIONS = {
    "sum": case(lambda x: aten.sum(x), X),
    "sum_dim_int_list": case(lambda x: aten.sum.dim_IntList(x, [2, 0]), (2, 4, 3)),
    "sum_all": case(lambda x: aten.sum.dim_IntList(x, []), X),
    "mean": case(lambda x: aten.mean(x), X),
    "mean_dim": case(lambda x: aten.mean.dim(x, [-1], True), X),
    "cumsum": case(lambda x: aten.cumsum(x, 1), X),
    "cumprod": case(lambda x: aten.cumprod(x, 1), X),
    "cumprod_with_zeros": case(lambda x: aten.cumprod(x * (x > 0), 0), X, smooth=False),
    "var_correction": case(lambda x: aten.var.correction(x, [1], correction=1), X),
    "var_all": case(lambda x: aten.var.correction(x, correction=0, keepdim=True), X),
    "linalg_vector_norm": case(lambda x: aten.linalg_vector_norm(x, 2, [1]), X),
    "norm_0": case(lambda x: aten.linalg_vector_norm(x, 0, [1]) * x[:, 0], X),
    "norm_half": case(lambda x: aten.linalg_vector_norm(x, 0.5, [1]), X),
    "norm_1": case(lambda x: aten.linalg_vector_norm(x, 1, [1], True), X),
    "norm_1.5": case(lambda x: aten.linalg_vector_norm(x, 1.5), X),
    "norm_3": case(lambda x: aten.linalg_vector_norm(x, 3, [0]), X),
    "norm_inf": case(lambda x: aten.linalg_vector_norm(x, float("inf"), [1]), X),
    "norm_at_0": case(lambda x: aten.linalg_vector_norm(0 * x, 2, [1]), X, smooth=False),
    "logsumexp": case(lambda x: aten.logsumexp(x, [1]), X),
    "logsumexp_all": case(lambda x: aten.logsumexp(x, [0, 1], True), X),
    "amax": case(lambda x: aten.amax(x, [1]), X),
    "amax_tie": case(lambda x: aten.amax(tie(x), [1]), (2, 3), smooth=False),
    "amin": case(lambda x: aten.amin(x, [0], True), X),
    "amin_tie": case(lambda x: aten.amin(tie(x), []), (2, 3), smooth=False),
    "topk": case(lambda x: aten.topk(x, 2)[0], X),
    "sort_stable": case(lambda x: aten.sort.stable(x, stable=True, dim=0)[0], X),
    "sort": case(lambda x: aten.sort(x, 0, True)[0], X),
    "max_dim": case(lambda x: aten.max.dim(x, 1)[0], X),
}

SHAPES = {
    "alias": case(lambda x: aten.alias(x), X),
    "detach": case(lambda x: aten.detach(x) * x, X, smooth=False),
    "view": case(lambda x: aten.view(x, [3, 8]), X),
    "view_of_transposed": case(lambda x: aten.view(aten.exp(x), [24]).view(6, 4).t().exp(), X),
    "expand": case(lambda x: aten.expand(x, [3, 4, 6]), COLUMN),
    "t": case(lambda x: aten.t(x), X),
    "transpose": case(lambda x: aten.transpose(x, -1, 0), (2, 4, 6)),
    "permute": case(lambda x: aten.permute(x, [2, 0, -2]), (2, 4, 6)),
    "unsqueeze": case(lambda x: aten.unsqueeze(x, -1), X),
    "squeeze": case(lambda x: aten.squeeze(x), (1, 4, 1)),
    "squeeze_dim": case(lambda x: aten.squeeze.dim(x, 1), (4, 1, 6)),
    "squeeze_dims": case(lambda x: aten.squeeze.dims(x, [0, 2]), (1, 4, 1)),
    "slice": case(lambda x: aten.slice(x, 1, 1, -1, 2), X),
    "select": case(lambda x: aten.select(x, 0, -1), X),
    "split": case(lambda x: aten.split(x, 4, 1)[1], X),
    "split_with_sizes": case(lambda x: torch.cat(aten.split_with_sizes(x, [1, 3], 0)), X),
    "unbind": case(lambda x: aten.unbind(x)[2], X),
    "clone": case(lambda x: aten.clone(x), X),
    "_to_copy": case(lambda x: aten._to_copy(x, dtype=torch.float64), X),
    "_unsafe_view": case(lambda x: aten._unsafe_view(x, [8, 3]), X),
    "cat": case(lambda x, y: aten.cat([x, y, x], 1), X, COLUMN),
    "stack": case(lambda x, y: aten.stack([x, y], 1), X, Y),
    "repeat": case(lambda x: aten.repeat(x, [2, 1, 3]), X),
    "tril": case(lambda x: aten.tril(x, -1), X),
    "triu": case(lambda x: aten.triu(x), X),
    "lift_fresh_copy": case(lambda x: torch.tensor(2.0, dtype=torch.float64) * x, X),
    "zeros_like": case(lambda x: aten.zeros_like(x) + x, X),
    "ones_like": case(lambda x: aten.ones_like(x) * x, X),
    "full_like": case(lambda x: aten.full_like(x, 3.0) * x, X),
    "copy": case(lambda x, y: aten.clone(x).copy_(y), X, ROW),
    "fill_tensor": case(lambda x, v: aten.fill(x, v) * x, X, SCALAR),
    "fill_scalar": case(lambda x: aten.fill(x, 2.0) * x, X),
    "zero": case(lambda x: aten.clone(x).zero_() + x, X),
    "empty_like": case(lambda x: aten.empty_like(x).copy_(x), X),
    "new_empty_strided": case(lambda x: aten.new_empty_strided(x, [4, 6], [1, 4]).copy_(x), X),
    "in_place_slice": case(lambda x, y: overwritten(x, y), X, (4, 3)),
    "slice_scatter": case(lambda x, y: aten.slice_scatter(x, y, 1, 1, 4), X, (4, 3)),
    "select_scatter": case(lambda x, y: aten.select_scatter(x, y, 1, 2), X, (4,)),
    "constant_pad_nd": case(lambda x: aten.constant_pad_nd(x, [1, 2, -1, 0], 0.5), X),
    "new_zeros": case(lambda x: aten.new_zeros(x, [6]) + x, X),
    "new_ones": case(lambda x: aten.new_ones(x, [6]) * x, X),
    "new_full": case(lambda x: aten.new_full(x, [6], 2.0) * x, X),
    "used_often": case(lambda x: x.exp() * x + x.sin() - x * x.cos() + x, X),
}

INDEXING = {
    "embedding": case(lambda w: aten.embedding(w, PLACES), (6, 3)),
    # By definition not the derivative.
    "embedding_padded": case(lambda w: aten.embedding(w, PLACES, 2), (6, 3), smooth=False),
    "embedding_by_frequency": case(
        lambda w: aten.embedding(w, INDEX, -1, True), X, smooth=False),
    "index": case(lambda x: aten.index(x, [None, PLACES]), X),
    "_unsafe_index": case(lambda x: aten._unsafe_index(x, [None, PLACES]), X),
    "index_apart": case(lambda x: aten.index(x, [INDEX[:2], None, INDEX[1:3]]), X + (5,)),
    "index_put": case(lambda x, v: aten.index_put(x, [INDEX[:2]], v), X, (2, 6)),
    "index_put_added": case(lambda x, v: aten.index_put(x, [INDEX], v, True), X, (6,)),
    "index_put_mask": case(lambda x, v: aten.index_put(x, [MASK], v), X, SCALAR),
    "index_select": case(lambda x: aten.index_select(x, 0, INDEX), X),
    "index_add": case(lambda x, s: aten.index_add(x, 0, INDEX, s, alpha=0.5), X, (5, 6)),
    "gather": case(lambda x: aten.gather(x, 1, PLACES), X),
    "scatter_src": case(
        lambda x, s: aten.scatter(x, 1, torch.tensor([[0, 5], [2, 1], [1, 0], [4, 3]]), s),
        X, (4, 2)),
    "scatter_add": case(lambda x, s: aten.scatter_add(x, 1, PLACES, s), X, (4, 2)),
    "scatter_value": case(lambda x: aten.scatter(x, 1, PLACES, 2.0), X),
    "call_flip": case(lambda x: aten.flip(x, [0, 1]), X),
    "call_roll": case(lambda x: aten.roll(x, [2, 1], [1, 0]), X),
}  # fmt: skip

PAIRS, MORE_PAIRS, ROW_OF_PAIRS = (4, 6, 2), (4, 6, 2), (6, 2)


def numbers(function, *shapes, positive=False):
    """A function of complex numbers; tensors with pairs of reals are made such, and their results are shown as pairs."""

    def of_pairs(*operands):
        given = [aten.view_as_complex(x) if shape[-1:] == (2,) else x for x, shape in zip(operands, shapes)]
        result = function(*given)
        return aten.view_as_real(result) if result.is_complex() else result

    return case(of_pairs, *shapes, positive=positive)


COMPLEX = {
    "complex_parts": numbers(lambda a, b: aten.complex(a, b), X, ROW),
    "complex_polar": numbers(lambda a, b: aten.polar(a, b), X, ROW, positive=True),
    "complex_conj": numbers(lambda z: z.conj().resolve_conj() * z, PAIRS),
    "complex_add": numbers(lambda z, w: aten.add(z, w, alpha=2), PAIRS, ROW_OF_PAIRS),
    "complex_sub_real": numbers(lambda z, x: aten.sub(x, z), PAIRS, ROW),
    "complex_mul": numbers(lambda z, w: aten.mul(z, w), PAIRS, ROW_OF_PAIRS),
    "complex_mul_real": numbers(lambda z, x: aten.mul(z, x), PAIRS, ROW),
    "complex_mul_number": numbers(lambda z: aten.mul(z, 0.5 - 2j), PAIRS),
    "complex_real_mul_number": numbers(lambda x: aten.mul(x, 1j), X),
    "complex_div": numbers(lambda z, w: aten.div(z, w), PAIRS, ROW_OF_PAIRS),
    "complex_div_number": numbers(lambda z: aten.div(z, 3j), PAIRS),
    "complex_addcmul": numbers(
        lambda a, b, c: aten.addcmul(a, b, c, value=0.5), PAIRS, MORE_PAIRS, ROW_OF_PAIRS),
    "complex_neg": numbers(lambda z: aten.neg(z), PAIRS),
    "complex_abs": numbers(lambda z: aten.abs(z), PAIRS),
    "complex_exp": numbers(lambda z: aten.exp(z), PAIRS),
    "complex_log": numbers(lambda z: aten.log(aten.mul(z, z)), PAIRS),
    "complex_sqrt": numbers(lambda z: aten.sqrt(aten.exp(z)), PAIRS),
    "complex_rsqrt": numbers(lambda z: aten.rsqrt(aten.exp(z)), PAIRS),
    "complex_reciprocal": numbers(lambda z: aten.reciprocal(z), PAIRS),
    "complex_sin": numbers(lambda z: aten.sin(z), PAIRS),
    "complex_cos": numbers(lambda z: aten.cos(z), PAIRS),
    "complex_pow": numbers(lambda z: aten.pow(z, 3), PAIRS),
    "complex_where": numbers(lambda z, w: aten.where(MASK, z, w), PAIRS, ROW_OF_PAIRS),
    "complex_masked_fill": numbers(lambda z: aten.masked_fill(z, MASK, 1.0), PAIRS),
    "complex_mm": numbers(lambda z, w: aten.mm(z, aten.t(w)), PAIRS, MORE_PAIRS),
    "complex_addmm": numbers(
        lambda a, z, w: aten.addmm(a, z, w, beta=0.5, alpha=1.5), (3, 2), PAIRS, (6, 3, 2)),
    "complex_bmm": numbers(lambda z, w: aten.bmm(z, w), (2, 3, 4, 2), (2, 4, 5, 2)),
    "complex_sum": numbers(lambda z: aten.sum(z, [0]), PAIRS),
    "complex_mean": numbers(lambda z: aten.mean(z, [1], True), PAIRS),
    "complex_cumsum": numbers(lambda z: aten.cumsum(z, 0), PAIRS),
    "complex_norm": numbers(lambda z: aten.linalg_vector_norm(z, 2, [1]), PAIRS),
    "complex_slice": numbers(lambda z: aten.slice(z, 1, 1, 4), PAIRS),
    "complex_cat": numbers(lambda z, x: aten.cat([z, x.to(z.dtype)], 0), PAIRS, X),
    "complex_index": numbers(lambda z: z[INDEX], PAIRS),
    "complex_fft": numbers(lambda z: torch.fft.fft(z, dim=0), PAIRS),
    "complex_ifftn": numbers(lambda z: torch.fft.ifftn(z, norm="ortho"), PAIRS),
    "complex_rfft_even": numbers(lambda x: torch.fft.rfft(x), X),
    "complex_rfft_odd": numbers(lambda x: torch.fft.rfft(x, dim=0), (5, 3)),
    "complex_fft_of_real": numbers(lambda x: torch.fft.fft(x, norm="forward"), X),
    "complex_irfft_even": numbers(lambda z: torch.fft.irfft(z, n=10), PAIRS),
    "complex_irfft_odd": numbers(lambda z: torch.fft.irfft(z, n=7, dim=0, norm="ortho"), PAIRS),
    "complex_rfft2": numbers(lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 1j, s=(4, 6)), X),
}  # fmt: skip
CASES = POINTWISE | PRODUCTS | UPSAMPLING | REDUCTIONS | SHAPES | INDEXING | COMPLEX
