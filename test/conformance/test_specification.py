"""The specification against itself: what docs/types.md allows has a meaning, and the derivative of that meaning."""

import pytest
import torch

from conformance.cases import programs, ties_and_zeros
from conformance.operations import Op
from conformance.table import Row, rows, setups
from conformance.values import Mesh, denote, reduce, spread

SETUPS = list(setups())


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_ranks_agree_wherever_types_say_so(setup):
    torch.manual_seed(1)
    for row, program in programs(setup)[1].items():
        assert program.honest(), row.key


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_ops_on_sums_depend_on_the_sum_alone(setup):
    """P(sum) denotes its sum: moving amounts between the terms changes nothing that the result denotes."""
    torch.manual_seed(2)
    mesh, found = programs(setup, keep=lambda row: row.source == "P")
    assert found
    over = setup[1]
    for row, program in found.items():
        at = next(
            i
            for i, s in enumerate(program.steps)
            if isinstance(s.op, Op) and s.op.name != "reinterpret"
        )
        step = program.steps[at]
        before = program.values[step.operands[0]]
        moved = list(before)
        for group in mesh.groups(over):
            moves = [torch.randn_like(before[0]) for _ in group[1:]]
            for rank, move in zip(group, [-sum(moves), *moves]):
                moved[rank] = before[rank] + move
        kinds = program.steps[step.operands[0]].kinds
        results = [
            denote(step.op.apply(x, mesh, kinds, step.kinds), mesh, step.kinds)
            for x in (before, moved)
        ]
        for position, tensor in results[0].items():
            torch.testing.assert_close(tensor, results[1][position], msg=row.key)


def test_denotation_inverts_spreading():
    mesh = Mesh((("dp", 2), ("tp", 3)))
    whole = torch.randn(12, 6)
    for kinds in (
        {"dp": "S(0)", "tp": "S(0, 1)"},
        {"dp": "S(0, 1)", "tp": "S(0)"},
        {"dp": "S(1)", "tp": "S(0)"},
        {"dp": "R", "tp": "S(1)"},
        {"dp": "I", "tp": "I"},
    ):
        (found,) = denote(spread(whole, mesh, kinds), mesh, kinds).values()
        assert torch.equal(found, whole), kinds


def test_extrema_share_the_gradient_among_ties():
    xs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (2.0, 2.0, 1.0)]
    reduce("max", xs).backward()
    assert [float(x.grad) for x in xs] == [0.5, 0.5, 0.0]


def test_products_have_gradients_at_zero():
    """Where the source's fwd_out / fwd_in is 0 / 0."""
    for values, expected in (((0.0, 3.0, 5.0), [15, 0, 0]), ((0.0, 0.0, 5.0), [0, 0, 0])):
        xs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
        reduce("product", xs).backward()
        assert [float(x.grad) for x in xs] == expected


def test_per_rank_autograd_is_not_the_oracle():
    """Differentiating all ranks' losses together, as if each were another loss, makes Megatron's g wrong by N."""
    mesh = Mesh((("tp", 3),))
    row = Row("all_reduce", "sum", "P", "I")
    terms = [torch.randn(2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    result = row.op(mesh, ("tp",)).apply(terms, mesh, {"tp": "P"}, {"tp": "I"})
    (meant,) = denote(result, mesh, {"tp": "I"}).values()
    right = torch.autograd.grad(meant.sum(), terms[0], retain_graph=True)[0]
    naive = torch.autograd.grad(sum(r.sum() for r in result), terms[0])[0]
    assert torch.equal(right, torch.ones(2, dtype=torch.float64))
    assert torch.equal(naive, 3 * right)


@pytest.mark.parametrize("make", [None, ties_and_zeros], ids=["smooth", "ties and zeros"])
def test_every_differentiable_row_has_a_gradient(make):
    torch.manual_seed(3)
    for row, program in programs(SETUPS[1], **({"make": make} if make else {}))[1].items():
        if row.differentiable:
            _, gradients = program.gradients()
            assert all(torch.isfinite(g).all() for g in gradients.values()), row.key
            assert any(g.abs().max() > 0 for g in gradients.values()), row.key


def test_the_table_has_every_row_once():
    keys = [row.key for row in rows()]
    assert len(keys) == len(set(keys)) == 4100
