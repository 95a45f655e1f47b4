"""Other forms of the same ops: started and waited for, several values in one communication, no types; and what
has no derivative."""

import re

import pytest
import torch

from conformance.cases import local_shape, programs
from conformance.comparison import assert_close
from conformance.module import Module
from conformance.operations import COMMUNICATIONS, Op
from conformance.program import Program
from conformance.table import rows
from conformance.tools import Tools
from conformance.values import Mesh

TP = Mesh((("tp", 3),))
PASSES = ("--check-spmd-types", "--autodiff", "--check-spmd-types")


@pytest.fixture
def tools(build_dir, tmp_path):
    return Tools(build_dir, tmp_path)


def check(tools, module, text):
    found = tools.run(text, module.tensors(True), module.tensors(False), module.mesh.ranks)
    for program in module.programs:
        loss, gradients = program.gradients()
        assert_close(found[f"output.{program.prefix}loss"], loss, program.prefix)
        for name, gradient in gradients.items():
            assert_close(found[f"grad.{name}"], gradient, name)


def test_started_communications(tools):
    torch.manual_seed(30)
    _, found = programs(
        ((("tp", 3),), ("tp",), None),
        keep=lambda r: r.name.split()[0] in COMMUNICATIONS and r.differentiable,
    )
    module = Module(TP, list(found.values()))
    text = module.text(started=True)
    assert text.count("dist.wait") >= len(found) > 50
    check(tools, module, tools.transform(text, *PASSES))


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter"])
def test_several_values_in_one_communication(tools, name):
    """Each row of the op on two values, merged into one op with two operands and two results."""
    torch.manual_seed(31)
    every = [r for r in rows() if r.name == name and r.legal and r.differentiable]
    module = Module(TP, [twice(row, f"n{i}") for i, row in enumerate(every)])
    text = module.text()
    for program in module.programs:
        first, second = (program.ssa(i) for i in program.tested)
        lines = rf"{first} = (dist\..*?)(%\w+)(\).*) : (.*)\n *{second} = dist\..*?(%\w+)\).*\n"
        match = re.search(lines, text)
        both = " -> ".join(f"{t}, {t}" for t in match[4].split(" -> "))
        text = text.replace(
            match[0], f"{first}:2 = {match[1]}{match[2]}, {match[5]}{match[3]} : {both}\n"
        )
        text = re.sub(rf"{second}\b", f"{first}#1", text)
        text = re.sub(rf"{first}\b(?![:#])", f"{first}#0", text)
    assert text.count(":2 = dist.") == len(every) > 2
    check(tools, module, tools.transform(text, *PASSES))


def twice(row, prefix):
    program = Program(TP, prefix)
    kinds = {"tp": row.source}
    sources = [program.source(kinds, local_shape(3)) for _ in range(2)]
    program.tested = [
        program.dist(row.op(TP, ("tp",)), s, {"tp": row.destination}) for s in sources
    ]
    program.loss = program.compute("add", *(program.weighted_sum(v) for v in program.tested))
    return program


def test_one_element_of_a_transposed_value(tools):
    """It counts as contiguous whatever its strides are; its bytes are sent all the same."""
    torch.manual_seed(32)
    program = Program(TP, "p")
    source = program.compute("t", program.source({"tp": "V"}, (1, 3)))
    moved = program.dist(Op("all_to_all", ("tp",), split=0, concat=1), source, {})
    program.loss = program.weighted_sum(moved)
    module = Module(TP, [program])
    check(tools, module, tools.transform(module.text(), *PASSES))


def untyped(text):
    """A program without placements: the same ops, on lists. Each rank has its part of the inputs."""
    text = re.sub(r", #dist\.on<@mesh, \w+ = [^>]*>", "", text)
    text = re.sub(r'(<input "\w+")>', r'\1 batch 0 over ["tp"]>', text)
    for name, operand in re.findall(r"(%\w+) = dist\.reinterpret (%\w+) ", text):
        text = re.sub(
            rf"{name}\b", operand, re.sub(rf" *{name} = dist\.reinterpret .*\n", "", text)
        )
    return text


def mixed_with_weight(row, prefix):
    """A row from V to V on the product of an input, of which each rank has a part, with a parameter."""
    program = Program(TP, prefix)
    weight = program.leaf(torch.randn(local_shape(3), dtype=torch.float64), {"tp": "R"})
    varying = program.reinterpret(weight, "tp", "V")
    data = program.source({"tp": "V"}, local_shape(3), gradient=False)
    program.tested = program.dist(
        row.op(TP, ("tp",)), program.compute("mul", varying, data), {"tp": "V"}
    )
    program.loss = program.weighted_sum(program.tested)
    return program


def test_programs_without_types_mean_lists(tools):
    """Every row from V to V: the dump has rank 0's values, a gradient is of the sum of all ranks' losses."""
    torch.manual_seed(33)
    every = [r for r in rows() if r.source == r.destination == "V" and r.legal and r.differentiable]
    assert len(every) > 20
    module = Module(TP, [mixed_with_weight(row, f"n{i}") for i, row in enumerate(every)])
    # The module adds the losses up and reduces the sum; here each rank has a loss of its own.
    text = module.text()
    reduced, own = re.findall(r"(%total\d+) = dist\.all_reduce sum\((%total\d+)\)", text)[0]
    text = re.sub(rf" *{reduced} = .*\n", "", text)
    text = re.sub(rf"{reduced}\b", own, text)
    joint = tools.transform(untyped(text), "--autodiff")
    found = tools.run(joint, module.tensors(True), module.tensors(False), TP.ranks)
    for row, program in zip(every, module.programs):
        weight = program.steps[0].name
        copies = [program.tensors[weight].clone().requires_grad_() for _ in range(TP.ranks)]
        losses = program.evaluate(start=[copies])[program.loss]
        (gradient,) = torch.autograd.grad(sum(losses), copies[:1], allow_unused=True)
        if gradient is None:  # rank 0 is not the root
            gradient = torch.zeros_like(copies[0])
        assert_close(found[f"output.{program.prefix}loss"], losses[0].detach(), row.key)
        assert_close(found[f"grad.{weight}"], gradient, row.key)


SENDS = """
#V = #dist.on<@mesh, tp = V>
#S = #dist.on<@mesh, tp = S(0)>
#P = #dist.on<@mesh, tp = P>
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @microbatch(%x: tensor<4xf64, #S> {train.role = #train.role<parameter "x">})
      -> (tensor<f64, #P> {train.role = #train.role<loss>}) attributes {train.phase = #train.phase<microbatch>} {
    %v = dist.reinterpret %x : tensor<4xf64, #S> -> tensor<4xf64, #V>
    OPS
    %l = aten.sum(%r) : (tensor<4xf64, #V>) -> tensor<f64, #V>
    %p = dist.reinterpret %l : tensor<f64, #V> -> tensor<f64, #P>
    return %p : tensor<f64, #P>
  }
}
"""
RECEIVE = """
    %g = dist.receive from 0 to 1 tag 1 over @mesh ["tp"] : tensor<4xf64, #V>
    %r = aten.mul(%v, %g) : (tensor<4xf64, #V>, tensor<4xf64, #V>) -> tensor<4xf64, #V>
"""
SEND = """
    dist.send(%v) from 0 to 1 tag 1 over @mesh ["tp"] : tensor<4xf64, #V>
    %r = aten.neg(%v) : (tensor<4xf64, #V>) -> tensor<4xf64, #V>
"""


@pytest.mark.parametrize(
    "ops, name", [(SEND, "send"), (RECEIVE, "receive")], ids=["send", "receive"]
)
def test_sends_have_no_derivative(tools, ops, name):
    status, _, messages = tools.opt(SENDS.replace("OPS", ops), "--autodiff")
    assert status == 1
    at = next(
        i for i, s in enumerate(SENDS.replace("OPS", ops).splitlines(), 1) if f"dist.{name}" in s
    )
    assert re.search(
        rf"program\.mlir:{at}:\d+: error: 'dist\.{name}' op has no derivative", messages
    ), messages


@pytest.mark.parametrize("reduction", ["band", "bor", "bxor"])
def test_bitwise_reductions_take_no_gradient(tools, reduction):
    """They take no floating-point values, and so no gradient can reach them: refused at the op."""
    ops = f'%r = dist.all_reduce {reduction}(%v) over @mesh ["tp"] : tensor<4xf64, #V>'
    status, _, messages = tools.opt(SENDS.replace("OPS", ops), "--autodiff")
    assert status == 1
    assert re.search(r"error: 'dist\.all_reduce' op .*f64", messages), messages


@pytest.mark.parametrize("kind", ["avg", "max", "min", "product"])
def test_no_gradient_passes_other_pending_reductions(tools, kind):
    ops = (
        f"%q = dist.reinterpret %v : tensor<4xf64, #V> -> tensor<4xf64, #dist.on<@mesh, tp = P({kind})>>\n"
        f'    %i = dist.all_reduce {kind}(%q) over @mesh ["tp"] : tensor<4xf64, #dist.on<@mesh, tp = P({kind})>>'
        " -> tensor<4xf64, #dist.on<@mesh, tp = R>>\n"
        "    %r = dist.reinterpret %i : tensor<4xf64, #dist.on<@mesh, tp = R>> -> tensor<4xf64, #V>"
    )
    status, _, messages = tools.opt(SENDS.replace("OPS", ops), "--autodiff")
    assert status == 1
    assert "no gradient flows through a pending reduction" in messages, messages


EFFECTS = """
#V = #dist.on<@mesh, dp = V, tp = V>
#W = #dist.on<@mesh, dp = S(0), tp = V>
#S = #dist.on<@mesh, dp = S(0), tp = S(0, 1)>
module {
  dist.mesh @mesh ["dp" = 2, "tp" = 3]
  func.func @microbatch(%x: tensor<2xf64, #S> {train.role = #train.role<input "x">})
      -> (tensor<2xf64, #S> {train.role = #train.role<output "received">},
          tensor<1xi64, #S> {train.role = #train.role<output "index">})
      attributes {train.phase = #train.phase<microbatch>} {
    %w = dist.reinterpret %x : tensor<2xf64, #S> -> tensor<2xf64, #W>
    dist.barrier over @mesh ["dp", "tp"]
    dist.send(%w) from 2 to 0 tag 3 over @mesh ["tp"] : tensor<2xf64, #W>
    %g = dist.receive from 2 to 0 tag 3 over @mesh ["tp"] : tensor<2xf64, #W>
    %r = dist.reinterpret %g : tensor<2xf64, #W> -> tensor<2xf64, #S>
    %i = dist.axis_index over @mesh ["tp", "dp"] : tensor<i64, #V>
    %j = aten.view(%i, size = [1]) : (tensor<i64, #V>) -> tensor<1xi64, #V>
    %k = dist.reinterpret %j : tensor<1xi64, #V> -> tensor<1xi64, #W>
    %l = dist.reinterpret %k : tensor<1xi64, #W> -> tensor<1xi64, #S>
    return %r, %l : tensor<2xf64, #S>, tensor<1xi64, #S>
  }
}
"""


def test_sends_barriers_and_indices(tools):
    """On 2 x 3 ranks: in each row the last rank's value arrives at the first; others receive zeros."""
    x = torch.arange(1.0, 13.0, dtype=torch.float64)
    found = tools.run(EFFECTS, {}, {"x": x}, 6)
    rows_of = x.view(2, 3, 2)
    expected = torch.zeros_like(rows_of)
    expected[:, 0] = rows_of[:, 2]
    assert torch.equal(found["output.received"], expected.flatten())
    assert found["output.index"].tolist() == [0, 2, 4, 1, 3, 5]  # the first listed axis is major
