"""The conformance table, executed: forward against the specification, backward against autograd of the
denotation and against finite differences."""

import pytest
import torch

from conformance.cases import programs, ties_and_zeros
from conformance.comparison import assert_close, difference
from conformance.module import Module
from conformance.table import setups
from conformance.tools import Tools

STEP = 1e-5  # of central differences; their error is of the order of its square


@pytest.fixture
def tools(build_dir, tmp_path):
    return Tools(build_dir, tmp_path)


def shifted(program, directions, step, prefix):
    """The same program on other parameters, only for its loss."""
    copy = program.renamed(prefix)
    copy.results = []
    for name, direction in directions.items():
        copy.tensors[copy.prefix + name[len(program.prefix) :]] = (
            program.tensors[name] + step * direction
        )
    copy.freeze()
    return copy


@pytest.mark.parametrize("setup", list(setups()), ids=str)
def test_forward_and_backward(tools, setup):
    torch.manual_seed(20)
    mesh, smooth = programs(setup)
    _, tied = programs(
        setup, ties_and_zeros, keep=lambda r: r.reduction in ("max", "min", "product")
    )
    checked = list(smooth.values())
    for number, program in enumerate(tied.values()):
        checked.append(program.renamed(f"tie{number}"))
    moved = {}
    differentiated = [p for p in smooth.values() if p.loss is not None and setup[2] in (None, "V")]
    for number, program in enumerate(differentiated):
        along = {
            s.name: torch.randn_like(program.tensors[s.name]) for s in program.steps if s.gradient
        }
        ends = [
            shifted(program, along, sign * STEP, f"m{number}{sign}".replace("-1", "b"))
            for sign in (1, -1)
        ]
        moved[program.prefix] = along, ends
    module = Module(mesh, checked + [end for _, ends in moved.values() for end in ends])
    joint = tools.transform(module.text(), "--check-spmd-types", "--autodiff", "--check-spmd-types")
    found = tools.run(
        joint, module.tensors(True), module.tensors(False), mesh.ranks, "--check", "replicated"
    )
    for row, program in zip([*smooth, *tied], checked):
        for index in program.results:
            expected = program.denotation(program.values, index)
            assert_close(found[f"output.{program.prefix}r{index}"], expected, row.key)
        if program.loss is None:
            continue
        loss, gradients = program.gradients()
        assert_close(found[f"output.{program.prefix}loss"], loss, row.key)
        for name, gradient in gradients.items():
            assert_close(found[f"grad.{name}"], gradient, row.key)
        if program.prefix in moved:
            along, (up, down) = moved[program.prefix]
            slope = (found[f"output.{up.prefix}loss"] - found[f"output.{down.prefix}loss"]) / (
                2 * STEP
            )
            derivative = sum((found[f"grad.{n}"] * d).sum() for n, d in along.items())
            assert difference(slope, derivative, 1e-2) < 1e-6, (row.key, slope, derivative)
