"""Checks of values are no part of programs, and the exporter says so."""

import importlib

import pytest
import torch
from torch import nn

import cleave
from exported_models import export


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


CHECKED_WITH_TEXT = """
import torch

class CheckedWithText(torch.nn.Linear):
    def forward(self, x):
        assert (x == x).all(), f"{len(x)} rows have what is no number"
        assert x.isnan().sum() == 0 and x.max() > x.min(), "two conditions"
        return super().forward(x).sum()
"""


def test_an_assertion_whose_text_is_made_is_left_out_and_said(tmp_path, monkeypatch):
    (tmp_path / "checked_with_text.py").write_text(CHECKED_WITH_TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("checked_with_text").CheckedWithText(4, 4)
    with pytest.warns(cleave.ExportNote) as notes:
        program = cleave.export(module, (torch.ones(2, 4),), out=tmp_path).read_text()
    said = sorted(str(note.message).removeprefix("the program does not check what forward ") for note in notes)
    assert len(said) == 3 and said[0] == "asserts of values: 'two conditions'", said
    assert said[1].startswith("raises for at checked_with_text.py:6 ('assert (x == x)") and "_with_text.py:7" in said[2], said
    assert not any(op in program for op in ("aten.eq", "aten.isnan", "aten.max", "aten.gt"))


class Sampled(nn.Module):
    """A variational autoencoder: its distributions check that scales are positive."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(2, 4)

    def forward(self, x):
        mean, scale = self.encoder(x).chunk(2, -1)
        code = torch.distributions.Normal(mean, scale.exp())
        label = torch.distributions.Categorical(logits=self.decoder(code.rsample()))
        return code.entropy().mean() - label.log_prob(label.sample()).mean()


@pytest.mark.parametrize("checks", [True, False])
def test_distributions_do_not_check_their_arguments(tmp_path, one_thread, checks):
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(checks)
    try:
        text, _ = export(tmp_path, Sampled(), (torch.randn(2, 4),))
        assert torch.distributions.Distribution._validate_args == checks
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)
    assert "aten.rng_normal" in text and text.count("aten.rng_") == 2


class Scaled(torch.distributions.Normal):
    """A user's own class: its divergence is that of the nearest class that has one."""


class Diverging(nn.Module):
    """The divergences of PyTorch's own classes, of a user's, and of wrapped ones."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)

    def forward(self, x):
        d = torch.distributions
        y, scale = self.encoder(x), x.abs() + 0.1
        unit = d.Normal(torch.zeros_like(x), torch.ones_like(x))
        pairs = (
            (d.Normal(y, 1.0), unit),
            (Scaled(y, scale), unit),
            (d.Independent(d.Normal(y, scale), 1), d.Independent(unit, 1)),
            (d.Bernoulli(logits=y), d.Bernoulli(probs=torch.full_like(x, 0.5))),
            (d.Gamma(y.exp(), scale), d.Gamma(scale, scale)),
            (d.Dirichlet(y.exp()), d.Dirichlet(scale)),
        )
        return sum(d.kl_divergence(p, q).mean() for p, q in pairs)


def test_divergences_of_distributions(tmp_path, one_thread):
    export(tmp_path, Diverging(), (torch.randn(2, 4),))
