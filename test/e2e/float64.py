"""Exports models that compute in float64 from end to end: then ranks differ from one device by no more than
the rounding of float64, and tests can ask for 1e-9."""

import dataclasses
import functools

import torch
from cleave import testing
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

import cleave


class Float64(TorchFunctionMode):
    """Computes in float64 what modules compute in float32 whatever their weights are: norms, rotary
    embeddings (positions among them), softmax, and tensors that they make without saying of which type. (The
    exporter's tracer reads this, too: plain Python only.)"""

    def __enter__(self):
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *error):
        torch.set_default_dtype(self.before)
        return super().__exit__(*error)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.float:
            return args[0].double()
        if function is torch.arange or args and isinstance(args[0], torch.Tensor) and args[0].dtype in (torch.float64, torch.int64):
            args = tuple([torch.float64 if value is torch.float32 else value for value in args])
            kwargs = {name: torch.float64 if value is torch.float32 else value for name, value in kwargs.items()}
        return function(*args, **kwargs)


def doubled(spec):
    """The spec with its module, in place (the optimizer has the same parameters), and its tensors in float64."""

    def double(value):
        if not isinstance(value, torch.Tensor):
            return value
        if value.is_complex():
            return value.to(torch.complex128)
        return value.double() if value.is_floating_point() else value

    spec.module.double()
    for tensor in (*spec.module.parameters(), *spec.module.buffers()):
        if tensor.is_complex():
            tensor.data = double(tensor.data)

    return dataclasses.replace(
        spec, args=tuple(map(double, spec.args)), targets=tuple(map(double, spec.targets)),
        kwargs={name: double(value) for name, value in (spec.kwargs or {}).items()},
    )  # fmt: skip


def export(spec, folder):
    """The program's path. The spec's module is in float64 already."""
    with Float64():
        return cleave.export_spec(spec, folder)


def exporter_with_data(make_spec, examples, folders):
    """A function of a model's name and batch: the path of its program, and of a file with the data of so many
    batches. Each is made once, in a folder of pytest's `folders`."""

    @functools.cache
    def get(name, batch):
        folder = folders.mktemp(name)
        spec = make_spec(name, batch)
        program = export(spec, folder)
        data = testing.random_batch(spec, examples, torch.Generator().manual_seed(1))
        save_file({name: tensor.contiguous() for name, tensor in data.items()}, folder / "data.safetensors")
        return program, folder / "data.safetensors"

    return get
