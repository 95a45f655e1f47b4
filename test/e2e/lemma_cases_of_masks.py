"""Lemmas of attention whose mask may leave a row no key, in a block or at all: see `lemma_cases.py`."""

import torch
from lemma_cases import lemma, on
from lemma_cases_of_rings import INFINITY, RINGS, blocks
from lemma_programs import MESH


def mask_of(f, axis, shape):
    """Numbers for queries and keys, -inf where a key is taken: all keys of the first row, and of another one a block."""
    batch, _, rows, *_ = shape
    count = rows * MESH[axis]
    marks = torch.randn((batch, 1, count, count), generator=f.random, dtype=torch.float64)
    marks[:, :, 0] = -1
    marks[:, :, -1, :rows] = -1
    marks[:, :, -1, rows:] = 1
    marks = f.argument(marks.shape, on(axis, 2), values=marks)
    bias = f.argument((batch, 1, count, count), on(axis, 2))
    return f.aten("masked_fill_scalar", bias, f.aten("lt_scalar", marks, other=0.0), value=-INFINITY)


def columns(f, axis, mask, rows, step):
    """The mask's columns of the block that a rank has at this step."""
    place = f.aten("add_scalar", f.axis_index(axis), other=-step)
    place = f.aten("where", f.aten("lt_scalar", place, other=0), f.aten("add_scalar", place, other=MESH[axis]), place)
    first = f.aten("mul_scalar", place, other=rows)
    return f.aten("index_select", mask, f.aten("add", f.aten("arange_start", start=0, end=rows), first), dim=3)


def fill(f, value, asked, limit, number):
    return f.aten("masked_fill_scalar", value, f.aten("eq_scalar", asked, other=limit), value=number)


def merge(f, out, lse, block, block_lse, bug):
    """Attention to some keys, and to others, where either may be to none."""
    largest = f.aten("maximum", lse, block_lse)
    if bug != "largest is -inf":
        largest = fill(f, largest, largest, -INFINITY, 0.0)
    weight, other = (f.aten("exp", f.aten("sub", x, largest)) for x in (lse, block_lse))
    total = f.aten("add", weight, other)
    # Where the other block is all that counts, the sum is 1.
    asked, number = (weight, 2.0) if bug == "sum of one block" else (total, 1.0)
    divisor = total if bug == "sum is zero" else fill(f, total, asked, 0.0, number)

    def share(x, of):
        return f.aten("mul", x, f.aten("unsqueeze", f.aten("div", of, divisor), dim=-1))

    return f.aten("add", share(out, weight), share(block, other)), f.aten("add", largest, f.aten("log", total))


def ring(f, axis, shape, bug=None, gradient=False):
    """Attention to all keys that a mask leaves, block by block, as they go round."""
    q, k, v, *given = blocks(f, axis, shape, "qkkq" if gradient else "qkk")
    mask, home, rows = mask_of(f, axis, shape), (k, v), shape[2]
    if not f.local:
        out, lse = f.attention(q, k, v, False, mask)
        return [f.give(x, on(axis, 2)) for x in
                (f.attention_gradient(*given, q, k, v, out, lse, False, mask) if gradient else [out])]  # fmt: skip
    for step in range(MESH[axis]):
        own = columns(f, axis, mask, rows, (step + (bug == "mask of another block")) % MESH[axis])
        block, block_lse = f.attention(q, k, v, False, own)
        if bug != "logarithm of none is zero":
            asked = columns(f, axis, mask, rows, step - 1) if bug == "none of another block" and step else own
            greatest = f.aten("amax", asked, dim=[3], keepdim=True)
            empty = f.aten("squeeze_dim", f.aten("eq_scalar", greatest, other=-INFINITY), dim=-1)
            block_lse = f.aten("masked_fill_scalar", block_lse, empty, value=-INFINITY)
        out, lse = merge(f, out, lse, block, block_lse, bug) if step else (block, block_lse)
        if step + 1 < MESH[axis]:
            k, v = (f.shift(x, axis, 1) for x in (k, v))
    if bug == "bad on one rank":
        out = f.aten("neg", out)
    if not gradient:
        return f.give(out, on(axis, 2))
    if bug != "logarithm is -inf":
        lse = fill(f, lse, lse, -INFINITY, 0.0)
    ring_gradient(f, axis, (q, *home), (*given, out, lse), mask, rows, bug)


def ring_gradient(f, axis, values, given, mask, rows, bug):
    (q, k, v), (g, out, lse), total = values, given, None
    for step in range(MESH[axis]):
        own = columns(f, axis, mask, rows, (step + (bug == "mask of another block, backward")) % MESH[axis])
        parts = f.attention_gradient(g, q, k, v, out, lse, False, own)
        total = parts if total is None else [f.aten("add", a, b) for a, b in zip(total, parts, strict=True)]
        if bug != "gradients not at home" or step + 1 < MESH[axis]:
            total[1:] = [f.shift(x, axis, 1) for x in total[1:]]
        k, v = (f.shift(x, axis, 1) for x in (k, v))
    for result in total:
        f.give(result, on(axis, 2))


def rings(name, bug, gradient=False):
    def write(f, axis, shape):
        ring(f, axis, shape, ("bad on one rank" if axis == "one" else bug) if f.wrong else None, gradient)

    lemma(name, *RINGS)(write)


rings("attention-to-nothing", "logarithm is -inf", gradient=True)
rings("nothing-left", "logarithm of none is zero")
rings("share-of-nothing", "sum is zero")


@lemma("no-bottom", *RINGS)
def finite_mask(f, axis, shape):
    """What is filled where a sum of exponentials is zero, or a number -inf, is left as it is."""
    x = f.argument((shape[2] * MESH[axis], shape[3]), on(axis, 0))
    if not f.local:
        return f.give(x, on(axis, 0))
    y = f.aten("neg", x) if f.wrong and axis == "one" else x
    limit = f.aten("eq_scalar", y, other=-INFINITY)
    total = f.aten("exp", y)
    x = f.aten("masked_fill_scalar", y, limit, value=1.0 if not f.wrong else 2.0)
    zero = f.aten("eq_scalar", f.aten("sub", total, total) if f.wrong else total, other=0.0)
    f.give(f.aten("masked_fill_scalar", x, zero, value=3.0), on(axis, 0))
