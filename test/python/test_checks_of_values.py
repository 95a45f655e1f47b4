"""Branches that do nothing but raise, and functions of PyTorch that look at data: a program goes on as where nothing is wrong."""

import warnings

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from exported_models import export
from torch import distributions as D
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")


class Computed(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.layer, self.compute = nn.Linear(4, 4), compute

    def forward(self, x, *more):
        return self.compute(self.layer(x), *more)


def nan(h):
    if torch.isnan(h).any():
        raise ValueError("no number")
    return h.sum()


def either(h):
    if torch.isnan(h).any() or not torch.isfinite(h.sum()).item():
        message = f"no number in {h.shape}"
        raise ValueError(message)
    return h.sum()


def in_order(h):
    if h.shape[0] > 1 and h.min() > h.max():
        raise ValueError("out of order")
    else:
        h = h * 2
    return h.sum()


def under_with(h):
    with torch.autocast("cpu", enabled=False):
        if h.abs().max() > 1e6:
            raise OverflowError
        return h.sum()


def called(h):
    nan(h.detach())
    return h.sum()


CHECKS = [nan, either, in_order, under_with, called]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_check_of_values_is_left_out(check, tmp_path):
    with pytest.warns(cleave.ExportNote, match="the program does not check what forward raises for at test_checks"):
        export(tmp_path, Computed(check), (torch.randn(3, 4),), mode="joint")


def caught(h):
    try:
        if torch.isnan(h).any():
            raise ValueError
    except ValueError:
        h = h.nan_to_num()
    return h.sum()


def caught_around(h):
    try:
        return nan(h)
    except ValueError:
        return h.nansum()


def finally_done(h):
    try:
        if torch.isnan(h).any():
            raise ValueError
    finally:
        h = h * 2
    return h.sum()


def not_always(h):
    if h.sum() > 0:
        if h.shape[0] > 5:
            raise ValueError
        h = h * 2
    return h.sum()


def changed(h):
    if h.sum() > 0:
        h = h * 2
    return h.sum()


@pytest.mark.parametrize("branch", [caught, caught_around, finally_done, not_always, changed], ids=lambda b: b.__name__)
def test_other_branches_are_refused(branch, tmp_path):
    with pytest.raises(cleave.ExportError, match="Data-dependent branching: the branch depends on data"):
        cleave.export(Computed(branch), (torch.randn(3, 4),), out=tmp_path)


FUNCTIONS = {
    "gaussian": lambda h, t: F.gaussian_nll_loss(h, t, F.softplus(h), full=True),
    "gaussian of a module": lambda h, t: nn.GaussianNLLLoss(reduction="sum")(h, t, F.softplus(h[:, :1])),
    "gaussian of a number": lambda h, t: F.gaussian_nll_loss(h, t, 0.5),
    "divergence": lambda h, t: D.kl_divergence(
        D.MultivariateNormal(h, torch.eye(4)), D.MultivariateNormal(torch.zeros(4), 2 * torch.eye(4))
    ).mean(),
    "divergence of low rank": lambda h, t: D.kl_divergence(
        D.LowRankMultivariateNormal(h, h[..., None], h.exp()), D.MultivariateNormal(t, torch.eye(4))
    ).mean(),
    "quantile": lambda h, t: (h - t).quantile(0.3, dim=1).sum(),
    "quantile of all, between": lambda h, t: torch.quantile(h * t, 0.5, interpolation="midpoint"),
    "quantiles": lambda h, t: torch.quantile(h, torch.tensor([0.25, 0.9]), dim=0, keepdim=True).square().sum(),
    "nanquantile": lambda h, t: torch.where(t > 1, torch.nan, h).nanquantile(0.7, dim=1).nansum(),
    "cov": lambda h, t: torch.cov(h.T).square().sum(),
    "cov of one": lambda h, t: torch.cov(h[0], correction=0),
    "cov with weights": lambda h, t: torch.cov(h.T, fweights=torch.tensor([1, 2, 1]), aweights=t[:, 0].abs()).sum(),
    "corrcoef": lambda h, t: torch.corrcoef(h.T).triu(1).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_check_values(name, tmp_path):
    torch.manual_seed(0)
    before = F.gaussian_nll_loss
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        export(tmp_path, Computed(FUNCTIONS[name]), (torch.randn(3, 4), torch.randn(3, 4)), mode="joint")
    assert F.gaussian_nll_loss is before
    notes = [str(each.message) for each in caught if each.category is cleave.ExportNote]
    assert any("does not check that the numbers q of torch.quantile" in note for note in notes) == (name == "quantiles")
    assert any("does not check that the weights of torch.cov" in note for note in notes) == (name == "cov with weights")


def test_a_quantile_that_is_none(tmp_path):
    with pytest.raises(cleave.ExportError, match=r"q must be in the range \[0, 1\] but got 1.5"):
        cleave.export(Computed(lambda h: h.quantile(1.5)), (torch.randn(3, 4),), out=tmp_path)


TARGETS = torch.tensor([[1, 2, 1], [1, 3, 0], [2, 2, 3]])
# By name, the arguments after the probabilities: their numbers are those of data, or known.
CTC = {
    "data": (TARGETS, torch.tensor([6, 6, 4]), torch.tensor([3, 2, 1])),
    "shorter than all": (TARGETS, torch.tensor([6, 6, 6]), torch.tensor([2, 2, 1])),
    "one after another": (torch.tensor([1, 2, 1, 3, 2]), torch.tensor([6, 5, 6]), torch.tensor([2, 1, 2])),
    "impossible": (TARGETS, torch.tensor([6, 6, 1]), torch.tensor([3, 2, 3])),
}


class Speech(nn.Module):
    """By steps, examples and letters."""

    def __init__(self, **options):
        super().__init__()
        self.layer, self.options = nn.Linear(5, 4), options

    def forward(self, x, targets, lengths, counts):
        return F.ctc_loss(self.layer(x).log_softmax(-1), targets, lengths, counts, **self.options)


@pytest.mark.parametrize("options", [{}, {"reduction": "sum", "zero_infinity": True}], ids=["mean", "sum"])
@pytest.mark.parametrize("name", CTC)
def test_ctc_loss_of_lengths_that_are_data(name, options, tmp_path):
    if name == "impossible" and not options:
        pytest.skip("gradients are no numbers")
    torch.manual_seed(0)
    module = Speech(**options)
    batch_dims = {"x": 1, "targets": None if name == "one after another" else 0}
    export(tmp_path, module, (torch.randn(6, 3, 5), *CTC[name]), batch_dims=batch_dims, mode="joint")


def test_ctc_loss_of_lengths_that_are_numbers(tmp_path):
    class Known(Speech):
        def forward(self, x, targets):
            return super().forward(x, targets, [6, 5, 6], (3, 1, 2))

    export(tmp_path, Known(), (torch.randn(6, 3, 5), TARGETS), batch_dims={"x": 1}, mode="joint")
    # Of one example without a dimension for it.
    single = Computed(lambda h, t, n: nn.CTCLoss()(h.log_softmax(-1), t[0], torch.tensor(6), n.sum()))
    export(tmp_path, single, (torch.randn(6, 4), TARGETS[:1], torch.tensor([3])), batch_dims={"x": None}, mode="joint")


REFUSED = {
    "cond": (lambda h, n: torch.cond(h.sum() > 0, lambda a: a * 2, lambda a: a - 1, (h,)).sum(), "a branch that depends on data"),
    "tolist": (lambda h, n: sum(h[:, i].sum() for i in n.tolist()), "a number taken from a tensor"),
    "mask": (lambda h, n: h[h > 0].mean(), "mask elements instead of selecting them"),
    "masked": (lambda h, n: h.masked_select(h > 0).mean(), "mask elements instead of selecting them"),
    "rows": (lambda h, n: F.cross_entropy(h[n > 0], n[n > 0]), "mask elements instead of selecting them"),
    "unique": (lambda h, n: h[torch.unique(n)].sum(), "mask elements instead of selecting them"),
    "nonzero": (lambda h, n: h[torch.nonzero(n)[:, 0]].sum(), "mask elements instead of selecting them"),
    "least squares": (lambda h, n: torch.linalg.lstsq(h, h.detach().flip(1)).solution.sum(), "torch.linalg.pinv(A) @ B"),
    "equal": (lambda h, n: h.sum() if torch.equal(h, h.round()) else h.mean(), "a choice between tensors, by torch.where"),
    "classes": (lambda h, n: F.one_hot(n).sum() + h.sum(), "expected num_classes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_data_is_refused_with_what_to_do(name, tmp_path):
    compute, expected = REFUSED[name]
    with pytest.raises(cleave.ExportError) as error:
        cleave.export(Computed(compute), (torch.randn(3, 4), torch.tensor([1, 2, 0])), out=tmp_path)
    assert expected in str(error.value) and "test_checks_of_values.py:" in str(error.value)
    assert not list(tmp_path.iterdir())
