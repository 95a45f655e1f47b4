"""Checks of values are no part of programs, and the exporter says so."""

import importlib

import pytest
import torch
from torch import nn

import cleave


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        torch._assert_async((x.abs() < 100).all(), "x is small")
        return self.layer(x).sum()


def test_a_check_of_values_is_left_out_and_said(tmp_path):
    with pytest.warns(cleave.ExportNote, match="does not check what forward asserts of values: 'x is small'"):
        program = cleave.export(Checked(), (torch.ones(2, 4),), out=tmp_path).read_text()
    # Nor is there what only the check used.
    assert not any(op in program for op in ("aten._assert", "aten.abs", "aten.lt", "aten.all"))


# Of a file of its own, since pytest rewrites assertions in this one.
CHECKED_NUMBER = """
import torch

class CheckedNumber(torch.nn.Linear):
    def forward(self, x):
        assert (x > 0).sum().item() <= 8
        return super().forward(x).sum()
"""


def test_an_assertion_of_a_number_is_left_out_and_said(tmp_path, monkeypatch):
    (tmp_path / "checked_number.py").write_text(CHECKED_NUMBER)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("checked_number").CheckedNumber(4, 4)
    said = r"does not check what forward asserts of values: 'assert \(x > 0\)\.sum\(\)\.item\(\) <= 8'"
    with pytest.warns(cleave.ExportNote, match=said):
        program = cleave.export(module, (torch.ones(2, 4),), out=tmp_path).read_text()
    assert program.count("aten.sum") == 1 and "aten.gt" not in program and "aten.call" not in program
