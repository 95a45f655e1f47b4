"""Operators that stay those that eager mode calls.

PyTorch's tracer has formulas for them in Python: several operators in place of one, with other last bits.
"""

from __future__ import annotations

import contextlib

import torch

aten = torch.ops.aten

_WHOLE = [
    aten.hardshrink, aten.softshrink, aten.multi_margin_loss,
    aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d,
    aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d,
    aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d, aten.upsample_bicubic2d,
]  # fmt: skip
# Where the formulas are registered, in place of autograd's and the composite kernels in C++.
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)


@contextlib.contextmanager
def operators_kept_whole():
    """Takes the formulas out of the tracer, and puts them back."""
    overloads = [getattr(packet, name) for packet in _WHOLE for name in packet.overloads()]
    kept = [(overload, dict(overload.py_kernels)) for overload in overloads]
    try:
        for overload in overloads:
            for key in _KEYS:
                overload.py_kernels.pop(key, None)
            overload._dispatch_cache.clear()
        yield
    finally:
        for overload, kernels in kept:
            overload.py_kernels.clear()
            overload.py_kernels.update(kernels)
            overload._dispatch_cache.clear()
