"""What generated kernels are measured with: modules of which each should become one kernel. PyTorch alone.

Each takes (rows, columns) and a dtype; `inputs` makes what its forward takes.
"""

import torch
import torch.nn.functional as F
from torch import nn


class _Module(nn.Module):
    def __init__(self, rows, columns, dtype):
        super().__init__()
        self.rows, self.columns, self.dtype = rows, columns, dtype
        self.setup()

    def setup(self):
        pass

    def parameter(self):
        return nn.Parameter(torch.ones(self.columns, dtype=self.dtype))

    def matrices(self, count, generator, device="cpu"):
        return tuple(
            torch.randn(self.rows, self.columns, generator=generator, device=device).to(self.dtype)
            for _ in range(count)
        )

    def inputs(self, generator, device="cpu"):
        return self.matrices(1, generator, device)


class LayerNorm(_Module):
    def setup(self):
        self.weight, self.bias = self.parameter(), self.parameter()

    def forward(self, x):
        return F.layer_norm(x, (self.columns,), self.weight, self.bias)


class LayerNormBackward(_Module):
    def setup(self):
        self.weight, self.bias = self.parameter(), self.parameter()

    def inputs(self, generator, device="cpu"):
        gradient, x = self.matrices(2, generator, device)
        _, mean, rstd = torch.native_layer_norm(x, (self.columns,), None, None, 1e-5)
        return gradient, x, mean, rstd

    def forward(self, gradient, x, mean, rstd):
        return torch.ops.aten.native_layer_norm_backward.default(
            gradient, x, [self.columns], mean, rstd, self.weight, self.bias, [True, True, True])  # fmt: skip


class RMSNorm(_Module):
    def setup(self):
        self.weight = self.parameter()

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * y.to(x.dtype)


class Softmax(_Module):
    def forward(self, x):
        return torch.softmax(x, -1)


class SoftmaxBackward(_Module):
    def inputs(self, generator, device="cpu"):
        gradient, x = self.matrices(2, generator, device)
        return gradient, torch.softmax(x, -1)

    def forward(self, gradient, y):
        return torch.ops.aten._softmax_backward_data.default(gradient, y, -1, self.dtype)


class BiasGelu(_Module):
    def setup(self):
        self.bias = self.parameter()

    def forward(self, x):
        return F.gelu(x + self.bias, approximate="tanh")


class GeluBackward(_Module):
    def inputs(self, generator, device="cpu"):
        return self.matrices(2, generator, device)

    def forward(self, gradient, x):
        return torch.ops.aten.gelu_backward.default(gradient, x, approximate="none") * 2.0


class SwiGLU(_Module):
    def inputs(self, generator, device="cpu"):
        return self.matrices(2, generator, device)

    def forward(self, gate, up):
        return F.silu(gate) * up


class ResidualNorm(_Module):
    def setup(self):
        self.weight, self.bias = self.parameter(), self.parameter()

    def inputs(self, generator, device="cpu"):
        return self.matrices(2, generator, device)

    def forward(self, x, y):
        z = x + y
        return z, F.layer_norm(z, (self.columns,), self.weight, self.bias)


class CrossEntropy(_Module):
    def inputs(self, generator, device="cpu"):
        targets = torch.randint(self.columns, (self.rows,), generator=generator, device=device)
        return (*self.matrices(1, generator, device), targets)

    def forward(self, logits, targets):
        return F.cross_entropy(logits.float(), targets)


class Rotary(_Module):
    def inputs(self, generator, device="cpu"):
        return self.matrices(3, generator, device)

    def forward(self, x, cos, sin):
        half = self.columns // 2
        low, high = x[..., :half], x[..., half:]
        return x * cos + torch.cat((-high, low), dim=-1) * sin


MODULES = {
    "layer_norm": LayerNorm,
    "layer_norm_backward": LayerNormBackward,
    "residual_layer_norm": ResidualNorm,
    "rms_norm": RMSNorm,
    "softmax": Softmax,
    "softmax_backward": SoftmaxBackward,
    "bias_gelu_tanh": BiasGelu,
    "gelu_backward": GeluBackward,
    "swiglu": SwiGLU,
    "cross_entropy": CrossEntropy,
    "rotary": Rotary,
}
