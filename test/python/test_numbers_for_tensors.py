"""Calls with a number where the operator takes a tensor, as `torch.add(0.3333, mask, alpha=0.6667)` of Phi-3.5-MoE."""

import cleave_path  # noqa: F401
import pytest
import torch
from exported_models import export
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")

CALLS = {
    "flags": lambda x: x * torch.add(0.3333, x > 0, alpha=0.6667).type_as(x),
    "add": lambda x: torch.add(0.1, x, alpha=0.3),
    "subtract": lambda x: torch.sub(1.1, x, alpha=3),
    "multiply": lambda x: torch.mul(1.7, x),
    "divide": lambda x: torch.div(1.1, x),
    "divide and round": lambda x: x * torch.div(7, x * 10, rounding_mode="floor"),
    "integers": lambda x: x * torch.add(2, x > 0, alpha=2),
    "integers to floats": lambda x: x * torch.mul(2.5, (x > 0).long()).type_as(x),
    "whole numbers": lambda x: x * torch.floor_divide(7, (x > 0).long() + 1),
    "complex": lambda x: torch.add(0.5j, x.float()).abs().type_as(x),
}


class Called(nn.Module):
    def __init__(self, call, dtype):
        super().__init__()
        self.layer, self.call = nn.Linear(4, 4, dtype=dtype), call

    def forward(self, x):
        return self.layer(self.call(self.layer(x)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_for_tensors_are_eager_modes(name, dtype, tmp_path):
    torch.manual_seed(0)

    def loss(y):
        return y.to(torch.promote_types(dtype, torch.float32)).square().mean()

    export(tmp_path, Called(CALLS[name], dtype), (torch.randn(4, 4, dtype=dtype),), loss=loss)


def test_a_number_is_written_once_in_the_results_type(tmp_path):
    text, _ = export(tmp_path, Called(CALLS["add"], torch.float64), (torch.randn(4, 4).double(),), loss=lambda y: y.mean())
    assert text.count("aten.full(size = [], fill_value = 0.1") == 1 and "-> tensor<f64>" in text
