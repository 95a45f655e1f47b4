"""Numbers of tensors that no data reaches are numbers of the program, and no others are."""

import re

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
from exported_models import export
from torch import nn
from torch._dynamo.output_graph import OutputGraph, SubgraphTracer
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables import TensorVariable
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")


class Layer(nn.Module):
    """What it computes depends on numbers of tensors; `table` and `flat` are no buffers."""

    def __init__(self, compute):
        super().__init__()
        self.layer, self.compute = nn.Linear(4, 4), compute
        self.register_buffer("steps", torch.tensor([3, 4]))
        self.table = torch.tensor([1, 2, 3])
        self.flat = torch.tensor([0.5, -0.0, 2.0, 1.0])
        self.alias = self.layer.weight.detach()
        self.frozen = nn.Parameter(torch.tensor(2.0), requires_grad=False)

    def forward(self, x):
        return self.layer(self.compute(self, x))


def positions(x):
    return torch.arange(x.shape[0])


def written(m, x):
    """In place, through views, into memory that forward has made."""
    table = torch.zeros(4)
    table[1:] += 3
    table.view(2, 2)[0].mul_(2)
    return x * float(table.sum())


def in_order(m, x):
    table = torch.ones(3)
    before = int(table.sum())
    table.mul_(2)
    return x * before + int(table.sum())


def read_by_data(m, x):
    """Data takes the constant, and is changed."""
    table = torch.ones(4)
    y = x + table
    y.mul_(3)
    return y * float(table.sum())


def copied(m, x):
    """Of what the module holds, a copy is changed."""
    flat = m.flat.clone()
    flat[2:] += 1
    return x * flat + float(flat[3])


def copied_by_data(m, x):
    flat = m.flat.expand(4, 4).clone()
    flat.masked_fill_(x > 0, -1.0)
    return x * flat * m.flat


def mapped(m, x):
    """Beside a transform, whose tensors have no memory of their own."""
    y = torch.func.vmap(lambda row: row * 2 + m.flat)(x)
    return y * int(m.table[1])


def cached(m, x):
    """Assigned, and not read before."""
    m.cache = torch.full((4,), 3)
    return x * int(m.cache[0])


def moved(m, x):
    m.table = m.table.to(x.device)
    return x * int(m.table[1])


KNOWN = {
    "item": lambda m, x: x * (positions(x)[-1] + 1).item(),
    "int": lambda m, x: x[: int(m.table[1])],
    "float": lambda m, x: x * float(positions(x).float().mean()),
    "bool": lambda m, x: x * bool((m.table > 2).any()),
    "branch": lambda m, x: x if int(positions(x).sum()) == 6 else -x,
    "list": lambda m, x: x * sum(positions(x).tolist()),
    "list of lists": lambda m, x: x * m.flat.reshape(2, 2).tolist()[1][0],
    "list as an index": lambda m, x: x[torch.tensor([2, 0]).tolist()],
    "loop": lambda m, x: sum(x * i for i in range(int(positions(x)[-1]))),
    "range": lambda m, x: x + torch.arange(positions(x)[-1] + 1),
    "range with a start": lambda m, x: x + torch.arange(0, positions(x)[-1] + 1, dtype=x.dtype),
    "zeros": lambda m, x: torch.cat([x, torch.zeros(positions(x)[-1], 4)]),
    "slice": lambda m, x: x[1 : positions(x)[-1], :],
    "view": lambda m, x: x.view(positions(x)[-1] + 1, -1),
    "expand": lambda m, x: x[None].expand(m.table[0], -1, -1)[0],
    "repeat": lambda m, x: x.repeat(m.table[1], 1),
    "split": lambda m, x: x.split([1, int(m.table[2])])[1],
    "choice": lambda m, x: x.topk(m.table[1], dim=0)[0],
    "scaled": lambda m, x: torch.add(x, x, alpha=m.flat[0]),
    "written": written,
    "in order": in_order,
    "read by data": read_by_data,
    "copied": copied,
    "copied by data": copied_by_data,
    "mapped": mapped,
    "cached": cached,
    "moved": moved,
}


@pytest.mark.filterwarnings("ignore::cleave.ExportNote")
@pytest.mark.parametrize("name", KNOWN)
def test_numbers_of_constants_are_eager_modes(name, tmp_path):
    module = Layer(KNOWN[name])
    held = {name: value.clone() for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
    table = module.table
    text, _ = export(tmp_path, module, (torch.randn(4, 4),), loss=lambda y: y.square().mean(), batch_dims={"x": None})
    assert "local_scalar" not in text
    for name, value in held.items():
        assert torch.equal(getattr(module, name), value)
    assert name == "moved" or module.table is table


def drawn(m, x):
    return x * float(nn.functional.dropout(torch.ones(4)).sum())


def changed_buffer(m, x):
    m.steps.add_(1)
    return x * int(m.steps[0])


def of_a_buffers_view(m, x):
    return x * int(m.steps[:1][0])


def under_autocast(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = torch.full((4, 4), 1.001) @ torch.ones(4, 4)
    return x * float(product.sum())


def written_in_a_checkpoint(m, x):
    table = torch.zeros(4)

    def layer(y):
        table.add_(1)
        return y * 2

    return checkpoint(layer, x, use_reentrant=False) * float(table.sum())


def statistics(m, x):
    mean, variance = torch.zeros(4), torch.ones(4)
    x = nn.functional.batch_norm(x, mean, variance, training=True)
    return x * float(mean.sum())


def written_by_data(m, x):
    table = torch.zeros(4)
    table[1:2] += x[0, 0]
    return x * float(table.sum())


UNKNOWN = {
    "input": lambda m, x: x * float(x.sum()),
    "parameter": lambda m, x: x * float(m.layer.weight.sum()),
    "frozen parameter": lambda m, x: x * float(m.frozen),
    "buffer": lambda m, x: x * int(m.steps[0]),
    "changed buffer": changed_buffer,
    "view of a buffer": of_a_buffers_view,
    "random": lambda m, x: x * float(torch.rand(1)),
    "random permutation": lambda m, x: x * int(torch.randperm(4)[0]),
    "drawn in place": lambda m, x: x * float(torch.ones(3).bernoulli_().sum()),
    "dropout": drawn,
    "unwritten": lambda m, x: x * float(torch.empty(1)),
    "unwritten by a constructor": lambda m, x: x * float(torch.Tensor(1)),
    "unwritten by new": lambda m, x: x * float(m.flat.new(1)),
    "in another type": under_autocast,
    "written in a checkpoint": written_in_a_checkpoint,
    "statistics": statistics,
    "written by data": written_by_data,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_all_other_numbers_are_refused(name, tmp_path):
    with pytest.raises(cleave.ExportError, match=r"test_constant_numbers.py:\d+: found a number taken from a tensor"):
        cleave.export(Layer(UNKNOWN[name]), (torch.randn(4, 4),), loss=lambda y: y.sum(), out=tmp_path)
    assert not list(tmp_path.iterdir())


def changed_later(m, x):
    x = x * int(m.table[0])
    m.table.add_(1)
    return x


def changed_through_a_view(m, x):
    m.flat[1:].view(3).mul_(2)
    return x * m.flat


def mean(m, x):
    m.flat = 0.9 * m.flat + 0.1
    return x * m.flat


def counter(m, x):
    m.table = m.table + 1
    return x * int(m.table[0])


def replaced(m, x):
    x = x * m.flat
    m.flat = None
    return x


NO_CONSTANTS = {
    "changed later": (changed_later, "forward changes 'table' in place"),
    "changed through a view": (changed_through_a_view, "forward changes 'flat' in place"),
    "mean": (mean, "forward assigns another tensor to 'flat', which it reads"),
    "counter": (counter, "forward assigns another tensor to 'table', which it reads"),
    "replaced": (replaced, "forward assigns another tensor to 'flat', which it reads"),
    "parameter's memory": (lambda m, x: x @ m.alias, "'alias', .* shares memory with the parameter 'layer.weight'"),
    "parameter's number": (lambda m, x: x * float(m.alias.sum()), "'alias', .* shares memory with the parameter 'layer.weight'"),
}


@pytest.mark.parametrize("name", NO_CONSTANTS)
def test_tensors_that_are_no_constants_are_refused(name, tmp_path):
    compute, expected = NO_CONSTANTS[name]
    module = Layer(compute)
    held = {name: (value, value.clone()) for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
    with pytest.raises(cleave.ExportError, match=f"cannot export.*: {expected}.*; expected") as caught:
        cleave.export(module, (torch.randn(4, 4),), loss=lambda y: y.sum(), out=tmp_path)
    assert "\n" not in str(caught.value)
    if "memory" not in name and "number" not in name:
        assert re.search(r"at test_constant_numbers.py:\d+", str(caught.value))
    for name, (value, before) in held.items():
        assert getattr(module, name) is value and torch.equal(value, before), name


def test_a_note_is_given_once_for_a_line(tmp_path):
    def compute(m, x):
        for i in range(3):
            x = x * m.table[i].item()
        return x

    with pytest.warns(cleave.ExportNote) as notes:
        export(tmp_path, Layer(compute), (torch.randn(4, 4),), loss=lambda y: y.sum())
    (note,) = [str(note.message) for note in notes if note.category is cleave.ExportNote]
    assert re.fullmatch(
        r"the numbers of tensors at test_constant_numbers.py:\d+ \('x = x \* m.table\[i\].item\(\)'\) are always the same: they are "
        "computed from constants alone",
        note,
    )


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.scale, self.is_warm = 3, 2.0, False

    def forward(self, x):
        self.calls += 1
        self.scale, self.is_warm = self.scale * 1.0, True  # no other number, and no number
        return x * self.calls


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.counting = nn.Linear(4, 4), Counting()

    def forward(self, x):
        return self.counting(self.layer(x))


def test_numbers_of_python_that_forward_changes_are_said(tmp_path):
    module = Outer()
    with pytest.warns(cleave.ExportNote) as notes:
        export(tmp_path, module, (torch.randn(4, 4),), loss=lambda y: y.sum())
    (note,) = [str(note.message) for note in notes if note.category is cleave.ExportNote]
    assert re.fullmatch(
        r"forward changes 'counting.calls' from 3 to 4 at test_constant_numbers.py:\d+: it is 3 at the beginning of every step of the program",
        note,
    )
    assert module.counting.calls == 3 and not module.counting.is_warm


def test_the_tracer_is_left_as_it_was(tmp_path):
    def now():
        return (
            TensorVariable.method_item, TensorVariable.method_tolist, SubgraphTracer.create_proxy, SideEffects.store_attr,
            OutputGraph.call_user_compiler, vars(TensorVariable).get("tp_methods"),
        )  # fmt: skip

    before = now()
    for name in ("item", "buffer"):
        try:
            cleave.export(Layer((KNOWN | UNKNOWN)[name]), (torch.randn(4, 4),), loss=lambda y: y.sum(), out=tmp_path)
        except cleave.ExportError:
            assert name == "buffer"
    assert now() == before
