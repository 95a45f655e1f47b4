"""Branches on random numbers are decided where no number of [0, 1) matters, and the numbers are drawn; branches on what is
computed from constants alone are decided, too."""

import random

import cleave_path  # noqa: F401
import cleave
import numpy as np
import pytest
import torch
from cleave.export.__main__ import main
from exported_models import export
from library_models import LIBRARY_MODELS
from torch import nn
from torch._dynamo import symbolic_convert

pytestmark = pytest.mark.usefixtures("one_thread")


class Condition(nn.Module):
    """A layer that `condition` may leave out, with dropout before and after."""

    def __init__(self, condition):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.condition = condition

    def forward(self, x):
        x = nn.functional.dropout(self.first(x), 0.5)
        if self.condition(x):
            x = self.second(x)
        return nn.functional.dropout(x, 0.5)


def other(x):
    """Not a constant."""
    return x.shape[0] > 0


# Conditions, and whether they hold.
DECIDED = {
    "less than 0": (lambda x: torch.rand([]) < 0, False),
    "not less than 0": (lambda x: torch.rand([]) >= 0.0, True),
    "at most less than nothing": (lambda x: torch.rand(1) <= -1e-9, False),
    "less than 1": (lambda x: torch.rand([]) < 1.0, True),
    "at most 1": (lambda x: torch.rand(()) <= 1, True),
    "more than 1": (lambda x: torch.rand([]) > True, False),
    "0 more": (lambda x: 0 > torch.rand([]), False),
    "rounded to 1": (lambda x: torch.rand([]) < 1 - 1e-12, True),
    "double": (lambda x: torch.rand([], dtype=torch.float64) < 0, False),
    "infinite": (lambda x: torch.rand([]) < float("inf"), True),
    "and": (lambda x: torch.rand([]) < 0 and other(x), False),
    "or": (lambda x: torch.rand([]) < 0 or other(x), True),
    "and then": (lambda x: other(x) and torch.rand([]) < 0, False),
    "two": (lambda x: torch.rand([]) < 0 or torch.rand([]) < 1, True),
    "method": (lambda x: torch.rand([]).lt(0), False),
    "function": (lambda x: torch.ge(torch.rand([]), 0), True),
    "number": (lambda x: torch.rand(1).item() < 0.0, False),
    "converted": (lambda x: float(torch.rand([])) >= 0, True),
    "number 1 - 1e-9": (lambda x: torch.rand([]).item() > 1.0, False),
    "flag": (lambda x: bool(torch.rand([]) < 0), False),
    "in place": (lambda x: torch.empty([]).uniform_() < 0, False),
    "negated": (lambda x: not torch.rand([]) < 0, True),
    "negated number": (lambda x: not torch.rand(1).item() < 1, False),
    "number in place": (lambda x: torch.empty(1).uniform_(0, 1).item() < 0, False),
}


@pytest.mark.parametrize("name", DECIDED)
def test_a_condition_is_decided_and_its_number_drawn(tmp_path, name):
    condition, holds = DECIDED[name]
    module = Condition(condition)
    note = r"test_branches.py:\d+ .* is always (true|false): a random number in \[0, 1\) is compared with"
    with pytest.warns(cleave.ExportNote, match=note):
        text, _ = export(tmp_path, module, (torch.randn(2, 4),), loss=lambda y: y.sum())
    assert ('gradient "second.weight"' in text) == holds


# Numbers of other generators, of which the program draws none.
OUTSIDE = {
    "random": (lambda x: random.random() < 0, False),
    "uniform": (lambda x: random.uniform(0, 1) >= 0, True),
    "numpy": (lambda x: np.random.uniform(0, 1) < 0.0, False),
    "numpy's random": (lambda x: other(x) and np.random.random() < 0, False),
    "numpy's rand": (lambda x: np.random.rand() >= 0, True),
    "negated": (lambda x: not np.random.rand() < 0, True),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_condition_on_a_number_of_another_generator_is_decided(tmp_path, name):
    condition, holds = OUTSIDE[name]
    before = (random.random, np.random.rand)
    with pytest.warns(cleave.ExportNote, match=r"is always (true|false): a random number in \[0, 1\) is compared with"):
        text, _ = export(tmp_path, Condition(condition), (torch.randn(2, 4),), loss=lambda y: y.sum())
    assert ('gradient "second.weight"' in text) == holds
    assert text.count("aten.rng_") == 2 and "train.draws = 32 " in text  # dropout's alone
    assert (random.random, np.random.rand) == before


REFUSED_DRAWS = {
    "random.uniform": lambda x: x * random.uniform(0.5, 1),
    "random.randint": lambda x: x * random.randint(1, 3),
    "random.choice": lambda x: x * random.choice([1, 2]),
    "random.random": lambda x: x * random.random(),
    "numpy.random.rand": lambda x: x * torch.from_numpy(np.random.rand(4)).float(),
    "numpy.random.normal": lambda x: x * np.random.normal(size=(4,)),
    "numpy.random.permutation": lambda x: x[:, torch.from_numpy(np.random.permutation(4))],
    "numpy.random.uniform": lambda x: x * np.random.uniform(0.5, 1),
}


@pytest.mark.parametrize("name", REFUSED_DRAWS)
def test_numbers_of_another_generator_are_refused(tmp_path, name):
    with pytest.raises(cleave.ExportError) as caught:
        cleave.export(Counted(lambda m, x, n: REFUSED_DRAWS[name](x)), (torch.randn(2, 4), 0), mode="forward", out=tmp_path)
    found = "a number of random or numpy.random" if name == "random.random" else name
    assert f"found {found}, which draws by another generator than PyTorch's" in str(caught.value)
    assert "test_branches.py" in str(caught.value)


def mask(x):
    """As models make one that they are not given: 1 where a token counts."""
    return torch.ones(x.shape[:1], dtype=torch.long)


CONSTANT = {
    "tensor": (lambda x: (mask(x) > 1).any(), False),
    "number": (lambda x: (mask(x) > 0).flatten().any().item(), True),
    "compared": (lambda x: mask(x).sum().item() > 5, False),
    "same shape": (lambda x: torch.ones_like(x).sum() > 0, None),  # a call that takes the input
    "later": (lambda x: (number := mask(x)).any().item() and number.mul_(0) is not None, True),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_a_condition_on_constants_is_decided(tmp_path, name):
    condition, holds = CONSTANT[name]
    if holds is None:
        with pytest.raises(cleave.ExportError, match="Data-dependent branching"):
            cleave.export(Condition(condition), (torch.randn(2, 4),), loss=lambda y: y.sum(), out=tmp_path)
        return
    note = r"test_branches.py:\d+ .* (is|are) always (true|false|the same): (it is|they are) computed from constants alone"
    with pytest.warns(cleave.ExportNote, match=note):
        text, _ = export(tmp_path, Condition(condition), (torch.randn(2, 4),), loss=lambda y: y.sum())
    assert ('gradient "second.weight"' in text) == holds


def changed_by_data(x):
    number = torch.zeros(4)
    number[1:3].add_(x[0, 1:3])
    return number.any()


def inverted(x):
    number = torch.rand([])
    number.neg_()
    return number < 0


def seen_through_a_view(x):
    number = torch.rand([])
    number.view(1).mul_(-1)
    return number < 0


UNDECIDED = {
    "likely": (lambda x: torch.rand([]) < 0.9, "compared with 0.9"),
    "likely, of numpy": (lambda x: np.random.rand() < 0.9, "compared with 0.9"),
    "likely, of random": (lambda x: not random.random() < 0.9, "compared with 0.9"),
    "nearly 0": (lambda x: torch.rand([]) <= 0.0, "compared with 0;"),
    "nearly 1": (lambda x: torch.rand([], dtype=torch.float64) < 1 - 1e-12, "compared with 1;"),
    "nan": (lambda x: torch.rand([]) < float("nan"), "compared with nan"),
    "normal": (lambda x: torch.randn([]) < 0, "Data-dependent branching"),
    "data": (lambda x: x.sum() < 0, "Data-dependent branching: the branch depends on data; expected one that constants decide"),
    "changed": (inverted, "Data-dependent branching"),
    "view": (seen_through_a_view, "Data-dependent branching"),
    "computed": (lambda x: torch.rand([]) - 1 < 0, "Data-dependent branching"),
    "equal": (lambda x: torch.rand([]) == 2, "Data-dependent branching"),
    "number from data": (lambda x: (x.sum() > 0).item(), "the branch depends on data; expected one that constants decide"),
    "changed by data": (changed_by_data, "Data-dependent branching"),
    "unwritten": (lambda x: torch.empty(4).any(), "Data-dependent branching"),
    "drawn": (lambda x: torch.bernoulli(torch.ones(4)).any(), "Data-dependent branching"),
    "two numbers": (lambda x: torch.rand([]) < torch.rand([]), "Data-dependent branching"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_depends_on_the_number_is_refused(tmp_path, name):
    condition, expected = UNDECIDED[name]
    before = list(symbolic_convert.InstructionTranslator.dispatch_table)
    with pytest.raises(cleave.ExportError) as caught:
        cleave.export(Condition(condition), (torch.randn(2, 4),), loss=lambda y: y.sum(), out=tmp_path)
    message = str(caught.value)
    assert expected in message and "test_branches.py" in message
    assert ("set what it is compared with to 0 or 1" in message) == ("compared" in expected)
    assert not list(tmp_path.iterdir())
    assert symbolic_convert.InstructionTranslator.dispatch_table == before


class Counted(nn.Module):
    """What it computes depends on a number of its input, and on buffers."""

    def __init__(self, compute):
        super().__init__()
        self.layer, self.compute = nn.Linear(4, 4), compute
        self.held = torch.tensor(2)
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("scale", torch.tensor(1.0, dtype=torch.float64))

    def forward(self, x, count):
        return self.compute(self, self.layer(x), count)


FROM_DATA = {
    "input": (lambda m, x, n: x * 2 if n.item() > 1 else x, "the branch depends on data"),
    "converted": (lambda m, x, n: x * 2 if int(n) > 1 else x, "the branch depends on data"),
    "length": (lambda m, x, n: sum(x * i for i in range(n.item())), "a size that depends on data"),
    "integers": (lambda m, x, n: x * 2 if m.steps.item() == 0 else x, "the branch depends on data"),
    "double": (lambda m, x, n: x * 2 if m.scale.item() > 0 else x, "the branch depends on data"),
    "flag": (lambda m, x, n: x if not bool(m.steps) else x * 2, "the branch depends on data"),
    "factor": (lambda m, x, n: x * n.item(), "a number taken from a tensor"),
}


@pytest.mark.parametrize("name", FROM_DATA)
def test_numbers_of_inputs_and_buffers_are_not_those_at_hand(tmp_path, name):
    """PyTorch's tracer would take the examples' for those of 0-d integers and float64."""
    compute, expected = FROM_DATA[name]
    arguments = (torch.randn(2, 4), torch.tensor(2))
    with pytest.raises(cleave.ExportError, match=expected):
        cleave.export(Counted(compute), arguments, loss=lambda y: y.sum(), batch_dims={"count": None}, out=tmp_path)


def test_numbers_of_tensors_that_are_neither_are_constants(tmp_path):
    arguments = (torch.randn(2, 4), torch.tensor(2))
    module = Counted(lambda m, x, n: x * 2 if m.held.item() > 1 else x)
    with pytest.warns(cleave.ExportNote, match="are always the same: they are computed from constants alone"):
        text, _ = export(tmp_path, module, arguments, loss=lambda y: y.sum(), batch_dims={"count": None})
    assert "other = 2" in text


class Unused(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.layer, self.draw = nn.Linear(4, 4), draw

    def forward(self, x):
        self.draw(x)
        return nn.functional.dropout(self.layer(x), 0.5)


@pytest.mark.parametrize(
    "draw",
    [torch.rand_like, torch.nn.functional.dropout, lambda x: torch.randn(3, 8), lambda x: torch.empty(5).uniform_()],
)
def test_numbers_that_nothing_uses_are_drawn(tmp_path, draw):
    text, _ = export(tmp_path, Unused(draw), (torch.randn(2, 4),), loss=lambda y: y.sum())
    assert text.count("aten.rng_") == 1 and "position = 0" not in text


def test_numbers_that_nothing_uses_and_nobody_can_count_are_refused(tmp_path):
    def draw(x):
        return torch.empty(4).cauchy_()

    class Still(Unused):
        def forward(self, x):
            self.draw(x)
            return self.layer(x)

    with pytest.raises(cleave.ExportError, match="aten::cauchy.*a random operator"):
        cleave.export(Unused(draw), (torch.randn(2, 4),), loss=lambda y: y.sum(), out=tmp_path)
    text, _ = export(tmp_path, Still(draw), (torch.randn(2, 4),), loss=lambda y: y.sum())
    assert "rng" not in text and "train.draws" not in text


def test_draws_of_as_many_numbers_as_data_say_are_refused(tmp_path):
    module = nn.Sequential(nn.Linear(4, 4), nn.RReLU())
    with pytest.raises(cleave.ExportError, match=r"found rrelu, which draws as many numbers as data say.*uniform_\(lower, upper\)"):
        cleave.export(module, (torch.randn(2, 4),), loss=lambda y: y.sum(), out=tmp_path)
    for inplace in (False, True):
        module[1] = nn.RReLU(0.1, 0.7, inplace)
        export(tmp_path, module.eval(), (torch.randn(2, 4),), loss=lambda y: y.sum())


def test_a_note_is_given_once_for_each_line(tmp_path):
    with pytest.warns(cleave.ExportNote) as notes:
        cleave.export_spec(LIBRARY_MODELS["bart"](), tmp_path)
    notes = [str(note.message) for note in notes if note.category is cleave.ExportNote]
    assert len(notes) == 2  # the encoder's and the decoder's
    for note in notes:
        assert "modeling_bart.py:" in note and "('if dropout_probability < self.layerdrop:" in note
        assert "always false" in note and "compared with 0" in note


def test_layers_that_are_left_out_are_refused_with_what_to_set(tmp_path):
    spec = LIBRARY_MODELS["opt"]()
    spec.module.model.decoder.layerdrop = 0.1
    with pytest.raises(cleave.ExportError) as caught:
        cleave.export_spec(spec, tmp_path)
    assert "modeling_opt.py" in str(caught.value) and "compared with 0.1; expected" in str(caught.value)


FACTORY = """
import cleave, torch

class Layer(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) if torch.rand([]) >= 0 else x

def layer():
    return cleave.ExportSpec(Layer(4, 4), (torch.ones(2, 4),), loss=lambda y: y.sum(), name="layer")
"""


def test_the_command_prints_notes(tmp_path, capsys):
    file = tmp_path / "layers.py"
    file.write_text(FACTORY)
    assert main([f"{file}:layer", "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(tmp_path / "out" / "layer.mlir")
    assert printed.err.count("\n") == 1 and printed.err.startswith("note: the condition at layers.py:6 (")
