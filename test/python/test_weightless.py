"""Modules without weights export as those with weights do, without their values."""

import copy
import dataclasses
import resource
import subprocess

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
from combinations_cover import covered
from exported_models import export_and_compare
from library_models import LIBRARY_MODELS
from safetensors.torch import load_file, save_file
from torch import nn
from torch._subclasses import FakeTensorMode


def without_values(spec, make):
    """The spec with what `make` makes of its parameters, buffers and inputs, under as many names as before."""
    module, made = copy.deepcopy(spec.module), {}
    for owner in module.modules():
        for table in (owner._parameters, owner._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = made.setdefault(id(tensor), make(tensor))
    inputs = {n: make(v) if isinstance(v, torch.Tensor) else v for n, v in spec.kwargs.items()}
    return dataclasses.replace(spec, module=module, kwargs=inputs)


def on_meta(tensor):
    made = tensor.detach().to("meta")
    return nn.Parameter(made) if isinstance(tensor, nn.Parameter) else made


@covered({"name": ["t5", "opt"], "device": ["meta", "fake"]}, strength=1)
def test_the_program_is_that_of_the_module_with_weights(tmp_path, name, device):
    make = on_meta if device == "meta" else FakeTensorMode().from_tensor
    spec = dataclasses.replace(LIBRARY_MODELS[name](), optimizer=None)
    expected = cleave.export_spec(spec, tmp_path / "real")
    with pytest.warns(cleave.ExportNote, match=r"\d+ tensors had no values, .*; cleave-run needs a file"):
        found = cleave.export_spec(without_values(spec, make), tmp_path / "none")
    assert found.read_text() == expected.read_text()
    weights, kept = (load_file(path.with_suffix(".safetensors")) for path in (expected, found))
    assert kept.keys() == {name for name in weights if name.startswith("constant.")}


class Scaled(nn.Module):
    """A parameter under two names, a buffer, and a constant of forward."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.full((4,), 3.0), persistent=False)

    def forward(self, x):
        return self.second(self.first(x)) * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0])


def mean(outputs):
    return outputs.mean()


def test_buffers_and_constants_with_values_keep_them(tmp_path):
    module = Scaled()
    x = torch.randn(2, 4)
    text, weights = export_and_compare(cleave.ExportSpec(module, (x,), loss=mean), tmp_path)
    module.first.to("meta")
    module.second.to("meta")
    module.second.weight = module.first.weight
    with pytest.warns(cleave.ExportNote, match="3 tensors had no values, and are not in the file of weights; "):
        path = cleave.export(module, (x,), loss=mean, out=tmp_path)
    assert path.read_text() == text
    kept = load_file(path.with_suffix(".safetensors"))
    assert sorted(kept) == sorted(set(weights) - {"first.weight", "first.bias", "second.bias"})
    assert "scale" in kept and all(torch.equal(kept[name], weights[name]) for name in kept)


def test_no_run_starts_without_the_missing_tensors(tmp_path, build_dir):
    module = Scaled()
    x = torch.randn(2, 4)
    weights = load_file(cleave.export(module, (x,), loss=mean, out=tmp_path).with_suffix(".safetensors"))
    expected = cleave.testing.evaluate(cleave.ExportSpec(module, (x,), loss=mean))
    with pytest.warns(cleave.ExportNote, match="4 tensors .*, among them the buffer 'scale'; "):
        module.to("meta")
        module.second.weight = module.first.weight
        path = cleave.export(module, (x,), loss=mean, out=tmp_path)
    save_file({"x": x}, tmp_path / "inputs.safetensors")
    command = [build_dir / "bin" / "cleave-run", path, "--inputs", tmp_path / "inputs.safetensors"]
    command += ["--dump", tmp_path / "dump.safetensors"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1 and "missing: 'first.weight' (F32 [4, 4])" in refused.stderr
    # What state dicts leave out may stand beside the program, but nowhere it does.
    command += ["--weights", tmp_path / "weights.safetensors"]
    scale = weights.pop("scale")
    save_file(weights, tmp_path / "weights.safetensors")
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1 and "missing: 'scale' (F32 [4])" in refused.stderr
    save_file(weights | {"scale": scale}, tmp_path / "weights.safetensors")
    subprocess.run(command, check=True)
    found = load_file(tmp_path / "dump.safetensors")
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_memory_does_not_depend_on_the_parameters(tmp_path):
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(8, 1 << 20), nn.Linear(1 << 20, 1 << 15), nn.Linear(1 << 15, 8))
    assert sum(p.numel() for p in module.parameters()) > 30e9
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.warns(cleave.ExportNote):
        path = cleave.export(module, (torch.randn(2, 8),), loss=mean, out=tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 1024
    assert "tensor<32768x1048576xf32>" in path.read_text()


def test_under_a_fake_mode_that_is_still_on(tmp_path):
    with FakeTensorMode(), pytest.warns(cleave.ExportNote, match="4 tensors"):
        path = cleave.export(Scaled(), (torch.randn(2, 4),), loss=mean, out=tmp_path)
    assert list(load_file(path.with_suffix(".safetensors"))) == ["constant.0"]


class Held(Scaled):
    """A tensor that is neither a parameter nor a buffer."""

    def __init__(self):
        super().__init__()
        self.held = torch.ones(4, device="meta")

    def forward(self, x):
        return super().forward(x) + self.held


def test_a_constant_without_values_is_refused(tmp_path):
    # The tracer of some versions of PyTorch refuses it already.
    refused = "neither a parameter, a buffer nor an input|test_weightless.py:.* at least two devices, cpu and meta"
    with pytest.raises(cleave.ExportError, match=refused):
        cleave.export(Held().to("meta"), (torch.randn(2, 4),), loss=mean, out=tmp_path)
    assert not list(tmp_path.iterdir())
