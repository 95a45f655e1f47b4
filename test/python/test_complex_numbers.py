"""What the exporter makes of complex numbers, and files that hold them."""

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
from cleave.tensor_files import load_file, save_file
from safetensors import safe_open
from torch import nn


class Turned(nn.Module):
    """Rotary embeddings, and what marks conjugates and negatives."""

    def __init__(self):
        super().__init__()
        self.turns = nn.Parameter(torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (4, 2))) * self.turns
        z = z * 2j + z.conj()
        return torch.view_as_real(z).square().mean() + z.conj().imag.mean()


def export(tmp_path, module, *inputs):
    return cleave.export(module, inputs, loss=lambda y: y, out=tmp_path, name="program").read_text()


def test_marks_are_computed(tmp_path):
    text = export(tmp_path, Turned(), torch.randn(3, 8))
    assert "tensor<4xcomplex<f32>> {train.role = #train.role<parameter" in text
    assert "other = #aten.complex<0.0, 2.0>" in text and "other = #aten.complex<0.0, -2.0>" in text
    assert "aten.conj_physical(" in text and "_conj\"" not in text and "_neg_view\"" not in text
    assert "aten.call" not in text


def test_weights_are_pairs_that_the_metadata_lists(tmp_path):
    module = Turned()
    export(tmp_path, module, torch.randn(3, 8))
    with safe_open(tmp_path / "program.safetensors", "pt") as file:
        assert file.metadata() == {"complex": '["turns"]'}
        assert torch.equal(file.get_tensor("turns"), torch.view_as_real(module.turns.detach()))
    assert torch.equal(load_file(tmp_path / "program.safetensors")["turns"], module.turns)


def test_files_read_back(tmp_path):
    tensors = {
        "a": torch.randn(2, 3, dtype=torch.complex128).conj(), "b": torch.tensor(1 - 2j), "c": torch.arange(3),
        "d": torch.randn(4, 3, dtype=torch.complex64).t(),
    }  # fmt: skip
    save_file(tensors, tmp_path / "x.safetensors", {"note": "kept"})
    read = load_file(tmp_path / "x.safetensors")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor)
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert file.metadata() == {"note": "kept", "complex": '["a", "b", "d"]'}


@pytest.mark.parametrize("padding", [1, 2])
def test_complex_tensors_are_aligned(tmp_path, padding):
    """Wherever they lie in the file: copies of complex<double> by aligned instructions crashed."""
    z = torch.randn(5, dtype=torch.complex128)
    save_file({"padding": torch.zeros(padding, dtype=torch.float64), "z": z}, tmp_path / "z.safetensors")
    found = load_file(tmp_path / "z.safetensors")["z"]
    assert found.data_ptr() % 16 == 0
    assert torch.equal(found, z)


def test_half_precision_is_refused(tmp_path):
    class Half(nn.Module):
        def forward(self, x):
            return torch.view_as_complex(x.half()).abs().float().mean()

    with pytest.raises(cleave.ExportError, match="a tensor of torch.complex32, which programs do not support"):
        cleave.export(Half(), (torch.randn(3, 2),), mode="forward", out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_random_numbers_are_refused(tmp_path):
    class Noise(nn.Module):
        def forward(self, x):
            return (x + torch.randn(2, dtype=torch.complex64).abs()).mean()

    with pytest.raises(cleave.ExportError, match=r"'aten::randn'.* found random numbers of a complex type; expected those of"):
        cleave.export(Noise(), (torch.randn(3, 2),), mode="forward", out=tmp_path)


def test_a_complex_loss_is_refused(tmp_path):
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3, dtype=torch.complex64))

        def forward(self, x):
            return (x * self.w).sum()

    with pytest.raises(cleave.ExportError):
        export(tmp_path, Sum(), torch.randn(3))
    assert not list(tmp_path.iterdir())
