"""Modules that compute with complex numbers, as a user would write them, and torchtitan's Llama 3."""

import cleave_run  # noqa: F401  (puts the Python tests on the path)
import torch
import torchtitan_models
from torch import nn
from torch.nn.functional import mse_loss

import cleave

WIDTH, LENGTH = 8, 6


class Rotary(nn.Module):
    """Attention whose queries and keys are turned by angles that grow with the position."""

    def __init__(self, dtype):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, dtype=dtype) for _ in range(3))
        angles = torch.outer(torch.arange(2 * LENGTH), 10.0 ** -torch.arange(WIDTH // 4)).to(dtype)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def turned(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (2, -1, 2)))
        return torch.view_as_real(z * self.turns[: x.shape[1], None]).flatten(2)

    def forward(self, x):
        q, k = self.turned(self.q(x)), self.turned(self.k(x))
        return (q @ k.transpose(1, 2) / WIDTH).softmax(-1) @ self.v(x)


class Fourier(nn.Module):
    """Filters with complex weights, between a transform and its inverse; one more transform along the sequence."""

    def __init__(self, dtype):
        super().__init__()
        complex_dtype = torch.promote_types(dtype, torch.complex64)
        self.first = nn.Linear(WIDTH, WIDTH, dtype=dtype)
        self.filter = nn.Parameter(torch.randn(WIDTH // 2 + 1, dtype=complex_dtype))
        self.mix = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=complex_dtype) / WIDTH)
        self.last = nn.Linear(WIDTH, WIDTH, dtype=dtype)

    def forward(self, x):
        x = self.first(x).tanh()
        x = torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * self.filter, n=WIDTH, norm="ortho")
        z = torch.fft.fft(torch.complex(x, x.sin()), dim=1) @ self.mix
        z = z * 0.5j / (1 + z.abs()) + z.conj()
        return self.last(z.real + z.imag + z.abs())


def _layers(kind):
    def make(dtype, batch):
        torch.manual_seed(0)
        module = nn.Sequential(kind(dtype), nn.Tanh(), kind(dtype))
        x, y = (torch.randn(batch, LENGTH, WIDTH, dtype=dtype) for _ in range(2))
        return cleave.ExportSpec(module, (x,), loss=mse_loss, targets=(y,), name=kind.__name__.lower())

    return make


def _llama3(dtype, batch):
    spec = torchtitan_models.make("llama3", dtype, batch)
    if dtype == torch.float64:
        spec.module.freqs_cis = spec.module.freqs_cis.to(torch.complex128)
    return spec


MODELS = {"rotary": _layers(Rotary), "fourier": _layers(Fourier), "llama3": _llama3}


def spec(name, dtype=torch.float32, batch=2, **changes):
    made = MODELS[name](dtype, batch)
    made.optimizer = torch.optim.AdamW(made.module.parameters(), lr=1e-2)
    for field, value in changes.items():
        setattr(made, field, value)
    return made
