"""The source's worked examples, executed on 2, 3 and 4 ranks, and their erroneous variants, refused."""

import pathlib
import re

import pytest
import torch
import torch.nn.functional as F

from combinations_cover import covered
from conformance.comparison import assert_close
from conformance.tools import Tools

WORKED = pathlib.Path(__file__).parent / "worked"
BLOCKS = ("megatron", "general_all_reduce", "averaging_f")


@pytest.fixture
def tools(build_dir, tmp_path):
    return Tools(build_dir, tmp_path)


def text(name, ranks=2):
    return (WORKED / f"{name}.mlir").read_text().replace('p" = 2]', f'p" = {ranks}]')


def tensors(ranks):
    """Whole weights and data for a number of ranks: each rank has 3 hidden units, or 4 examples."""
    torch.manual_seed(ranks)
    shapes = {
        "norm.weight": (5,), "norm.bias": (5,), "bias": (5,),
        "a1": (5, 3 * ranks), "b1": (3 * ranks, 5), "a2": (5, 3 * ranks), "b2": (3 * ranks, 5),
    }  # fmt: skip
    weights = {n: torch.randn(s, dtype=torch.float64) for n, s in shapes.items()}
    data = {n: torch.randn(4, 5, dtype=torch.float64) for n in "xy"}
    return weights, data


def one_rank_loss(w, data):
    z1 = F.gelu(data["x"] @ w["a1"]) @ w["b1"] + w["bias"]
    n = F.layer_norm(z1, (5,), w["norm.weight"], w["norm.bias"])
    return (F.gelu(n @ w["a2"]) @ w["b2"] * data["y"]).sum()


def check_gradients(tools, program, weights, data, loss_of, ranks):
    leaves = {n: t.clone().requires_grad_() for n, t in weights.items()}
    loss = loss_of(leaves, data)
    loss.backward()
    joint = tools.transform(program, "--check-spmd-types", "--autodiff", "--check-spmd-types")
    found = tools.run(joint, weights, data, ranks, "--check", "replicated")
    assert_close(found["loss"], loss.detach(), "loss")
    for name, leaf in leaves.items():
        assert_close(found[f"grad.{name}"], leaf.grad, name)
    return joint


@covered({"name": BLOCKS, "ranks": [2, 3, 4]}, strength=1)
def test_blocks_have_one_ranks_gradients(tools, name, ranks):
    joint = check_gradients(tools, text(name, ranks), *tensors(ranks), one_rank_loss, ranks)
    reduced = len(re.findall(r"dist\.(?:all_reduce|fake_reduce).*train\.backward", joint))
    # Megatron: the second f; the first has no gradient, and the norm's need no reduction. Without f: the two g, and the
    # norm's weight and bias and the output's bias. With averages: the second f both ways, and the sums of the two g.
    assert reduced == {"megatron": 1, "general_all_reduce": 5, "averaging_f": 4}[name], joint


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_data_parallelism_is_a_fake_broadcast(tools, ranks):
    torch.manual_seed(ranks)
    weights = {
        "a": torch.randn(5, 3, dtype=torch.float64),
        "b": torch.randn(3, dtype=torch.float64),
    }
    data = {
        "x": torch.randn(4 * ranks, 5, dtype=torch.float64),
        "y": torch.randn(4 * ranks, 3, dtype=torch.float64),
    }

    def loss_of(w, d):
        return (torch.tanh(d["x"] @ w["a"] + w["b"]) * d["y"]).sum()

    check_gradients(tools, text("data_parallel", ranks), weights, data, loss_of, ranks)


# (program, what is wrong, the lines to replace by regular expression, the message)
WRONG = [
    (
        "megatron", "no f",
        [(r" *%f2 = .*\n", ""), (r"aten.mm\(%f2, %a2\) : \(tensor<4x5xf64, #R>", "aten.mm(%n#0, %a2) : (tensor<4x5xf64, #I>")],
        r"I.*S\(1\)|S\(1\).*I",
    ),
    (
        "megatron", "no g",
        [(r" *%z1 = .*\n", ""), (r"aten.add\(%z1, %bias\) : \(tensor<4x5xf64, #I>", "aten.add(%p1, %bias) : (tensor<4x5xf64, #P>")],
        r"P",
    ),
    (
        "megatron", "reduced twice",
        [(r"( *)(%z2 = .*\n)", r'\1%w = dist.all_reduce sum(%p2) over @mesh ["tp"] : tensor<4x5xf64, #P> -> tensor<4x5xf64, #I>' "\n"
          r'\1%z2 = dist.all_reduce sum(%w) over @mesh ["tp"] : tensor<4x5xf64, #I>' "\n")],
        r"I",
    ),
    (
        "megatron", "the bias added on every rank before the sum",
        [(r" *%o1 = .*\n", ""),
         (r"( *)(%z1 = dist.all_reduce sum\()%p1(.*\n)",
          r"\1%pb = aten.add(%p1, %bias) : (tensor<4x5xf64, #P>, tensor<5xf64, #I>) -> tensor<4x5xf64, #P>" "\n" r"\1\2%pb\3"),
         (r"%o1", "%z1")],
        r"P.*I|I.*P",
    ),
    (
        "megatron", "a non-linear op on a pending sum",
        [(r"( *)(%z2 = dist.all_reduce sum\()%p2",
          r"\1%q2 = aten.gelu(%p2) : (tensor<4x5xf64, #P>) -> tensor<4x5xf64, #P>" "\n" r"\1\2%q2")],
        r"P",
    ),
    (
        "megatron", "a product of pending sums",
        [(r"( *)(%z2 = dist.all_reduce sum\()%p2",
          r"\1%q2 = aten.mul(%p2, %p2) : (tensor<4x5xf64, #P>, tensor<4x5xf64, #P>) -> tensor<4x5xf64, #P>" "\n" r"\1\2%q2")],
        r"P",
    ),
    (
        "megatron", "g to R: norm weights meet what each rank may use differently",
        [(r"(%z1 = .*-> tensor<4x5xf64, )#I", r"\1#R"), (r"aten.add\(%z1, %bias\) : \(tensor<4x5xf64, #I>", "aten.add(%z1, %bias) : (tensor<4x5xf64, #R>")],
        r"R.*I|I.*R",
    ),
    (
        "general_all_reduce", "no fake broadcast of the norm's weight",
        [(r" *%nw = .*\n", ""), (r"%nw, %nb(.*?): \(tensor<4x5xf64, #V>, tensor<5xf64, #V>", r"%norm.weight, %nb\1: (tensor<4x5xf64, #V>, tensor<5xf64, #I>")],
        r"I.*V|V.*I",
    ),
    (
        "general_all_reduce", "a loss that varies",
        [(r" *%loss = .*\n", ""), (r"return %loss : tensor<f64, #I>", "return %each : tensor<f64, #V>"), (r"-> \(tensor<f64, #I>", "-> (tensor<f64, #V>")],
        r"loss.*V|V.*loss",
    ),
    (
        "averaging_f", "f left out where values vary",
        [(r" *%x2 = .*\n", ""), (r" *%f2 = .*\n", ""), (r"aten.mm\(%f2, %va2\) : \(tensor<4x5xf64, #V>", "aten.mm(%n#0, %va2) : (tensor<4x5xf64, #I>")],
        r"I.*V|V.*I",
    ),
    (
        "averaging_f", "g's average left out where the norm is invariant",
        [(r" *%z1 = .*\n", ""), (r"aten.add\(%z1, %bias\) : \(tensor<4x5xf64, #I>", "aten.add(%s1, %bias) : (tensor<4x5xf64, #V>")],
        r"V.*I|I.*V",
    ),
    (
        "data_parallel", "no fake broadcast",
        [(r" *%va = .*\n", ""), (r"aten.mm\(%x, %va\) : \(tensor<4x5xf64, #S0>, tensor<5x3xf64, #V>", "aten.mm(%x, %a) : (tensor<4x5xf64, #S0>, tensor<5x3xf64, #I>")],
        r"S\(0\).*I|I.*S\(0\)",
    ),
    (
        "data_parallel", "a loss of which each rank has another",
        [(r" *%loss = .*\n", ""), (r"return %loss : tensor<f64, #P>", "return %each : tensor<f64, #V>"), (r"-> \(tensor<f64, #P>", "-> (tensor<f64, #V>")],
        r"loss.*V|V.*loss",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda c: f"{c[0]}: {c[1]}")
def test_erroneous_variants_are_refused(tools, case):
    name, _, changes, message = case
    program = text(name)
    for pattern, replacement in changes:
        program, count = re.subn(pattern, replacement, program)
        assert count, pattern
    status, _, messages = tools.opt(program, "--check-spmd-types")
    assert status == 1, "accepted"
    error = next(line for line in messages.splitlines() if "error: " in line)
    assert re.search(message, error.split("error: ")[1]), error
