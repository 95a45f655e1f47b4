"""Lemmas of shares of sums, of attention, and of what differs by a rank's place: see `lemma_cases.py`."""

from lemma_cases import lemma, on
from lemma_programs import MESH

INFINITY = float("inf")
# Axis; batch, heads, rows of a rank, width, and how many heads of queries share one of keys.
RINGS = [("dp", (2, 2, 3, 4)), ("tp", (1, 2, 2, 3)), ("cp", (1, 1, 2, 5)), ("one", (1, 2, 4, 2)),
         ("tp", (2, 1, 4, 1)), ("cp", (1, 2, 3, 2, 2))]  # fmt: skip


def heads_of_queries(shape):
    _, heads, _, _, *group = shape
    return heads * (group[0] if group else 1)


def blocks(f, axis, shape, kinds):
    """Tensors of queries and keys, "q" and "k", of which each rank has a block of the rows."""
    batch, heads, rows, width, *_ = shape
    return [f.argument((batch, heads_of_queries(shape) if kind == "q" else heads, rows * MESH[axis], width), on(axis, 2))
            for kind in kinds]  # fmt: skip


def merge(f, out, lse, block, block_lse, bug):
    """Attention to some keys, and to others, as attention to all of them."""
    largest = f.aten("maximum", lse, block_lse)
    weight, other = (f.aten("exp", f.aten("sub", x, largest)) for x in (lse, block_lse))
    if bug == "not scaled again":
        other = f.aten("exp", block_lse)
    total = f.aten("add", weight, other)

    def share(x, of):
        return f.aten("mul", x, f.aten("unsqueeze", f.aten("div", of, total), dim=-1))

    first = out if bug == "first block as it was" else share(out, weight)
    merged = f.aten("log", total)
    return f.aten("add", first, share(block, other)), (
        merged if bug == "logarithm without its maximum" else f.aten("add", largest, merged))  # fmt: skip


def hidden(f, axis, step, value, number):
    """`number` where the block of a step is that of a rank behind, whose keys a causal mask takes."""
    return f.aten("masked_fill_scalar", value, f.aten("lt_scalar", f.axis_index(axis), other=step), value=number)


def ring(f, axis, shape, causal, bug=None):
    """Attention to all keys, block by block, as they go round."""
    q, k, v = blocks(f, axis, shape, "qkk")
    if not f.local:
        return f.give(f.attention(q, k, v, causal)[0], on(axis, 2))
    by = -1 if bug == "other way round" else 1
    own = k, v
    for step in range(MESH[axis] if bug != "one block less" else MESH[axis] - 1):
        block, block_lse = f.attention(q, k, v, causal and (step == 0) != (bug == "causal on another step"))
        if causal and step:
            late = step + {"mask a step late": 1, "mask a step early": -1}.get(bug, 0)
            block_lse = hidden(f, axis, late, block_lse, -INFINITY)
        if not step:
            out, lse = block, block_lse
        else:
            out, lse = merge(f, out, lse, block, block_lse, bug)
        if bug == "block twice" and step == 1:
            out, lse = merge(f, out, lse, block, block_lse, None)
        if step + 1 < MESH[axis]:
            k, v = (f.shift(x, axis, by) for x in (k, v))
        if bug == "stale values":
            v = own[1]
    f.give(f.aten("neg", out) if bug and axis == "one" else out, on(axis, 2))


def ring_gradient(f, axis, shape, causal, bug=None):
    """Gradients go round with the keys, and are at home after a whole round."""
    g, q, k, v, out = blocks(f, axis, shape, "qqkkq")
    batch, _, rows, *_ = shape
    lse = f.argument((batch, heads_of_queries(shape), rows * MESH[axis]), on(axis, 2))
    if not f.local:
        for result in f.attention_gradient(g, q, k, v, out, lse, causal):
            f.give(result, on(axis, 2))
        return
    total = None
    for step in range(MESH[axis]):
        seen = lse
        if causal and step:
            seen = hidden(f, axis, step + (bug == "mask a step late"), lse, INFINITY)
        parts = f.attention_gradient(g, q, k, v, out, seen, causal and step == 0)
        total = parts if total is None else [f.aten("add", a, b) for a, b in zip(total, parts, strict=True)]
        if bug != "gradients not at home" or step + 1 < MESH[axis]:
            total[1:] = [f.shift(x, axis, 1) for x in total[1:]]
        k, v = (f.shift(x, axis, 1) for x in (k, v))
    if bug == "gradients exchanged":
        total[1:] = total[:0:-1]
    for result in total:
        f.give(f.aten("neg", result) if bug and axis == "one" else result, on(axis, 2))


def rings(name, bug, causal=False, gradient=False):
    write = ring_gradient if gradient else ring
    lemma(name, *RINGS)(lambda f, axis, shape: write(f, axis, shape, causal, bug if f.wrong else None))


rings("attention", "not scaled again")
rings("exp-of-log", "first block as it was", causal=True)
rings("fraction-cancels", "logarithm without its maximum")
rings("fractions-add", "stale values")
rings("any-two-places", "other way round", causal=True)
rings("log-of-nothing", "mask a step late", causal=True)
rings("causal-mask", "causal on another step", causal=True)
rings("blocks-around", "block twice")
rings("attention-gradient", "gradients exchanged", gradient=True)
rings("filled-by-place", "mask a step late", causal=True, gradient=True)


@lemma("whole-place", *[("cp", shape) for _, shape in RINGS])
def ring_on_a_cut_axis(f, axis, shape):
    """What lies in parts of two factors cuts the axis, round which blocks go all the same."""
    x = f.argument((6, 2))
    flat = f.aten("view", f.aten("t", x), size=[12])
    f.give(f.reduce_scatter(f.aten("div_scalar", flat, other=4.0), 0, axis) if f.local else flat, on(axis))
    ring(f, axis, shape, True, "mask a step early" if f.wrong else None)


@lemma("log-of-product", ("dp", (4, 6)), ("tp", (2, 9)), ("cp", (1, 8)), ("dp tp", (3, 12)), ("one", (4, 5)))
def log_of_sum(f, axes, shape):
    """The logarithm of a sum of exponentials, less the largest, and as it is."""
    x = f.argument(shape, on(axes, 1))
    most = None if f.local and not f.wrong else f.all_reduce(f.aten("amax", x, dim=[1], keepdim=True), axes, "max")
    powers = x if most is None else f.aten("sub", x, most)
    total = f.all_reduce(f.aten("sum_dim_int_list", f.aten("exp", powers), dim=[1], keepdim=True), axes)
    logarithm = f.aten("log", total)
    f.give(logarithm if f.local else f.aten("add", logarithm, most))


OVER = [("dp", (4, 6)), ("tp", (2, 9)), ("cp", (1, 8)), ("dp tp", (3, 12)), ("one", (4, 5))]


@lemma("exp-of-sum", *OVER)
def softmax_as_it_is(f, axes, shape):
    """Without the largest taken off; wrong where each rank takes off its own."""
    x = f.argument(shape, on(axes, 1))
    if not f.local:
        return f.give(f.aten("_softmax", x, dim=1, half_to_float=False), on(axes, 1))
    most = f.aten("amax", x, dim=[1], keepdim=True)
    own = f.aten("exp", f.aten("sub", x, most) if f.wrong else x)
    total = f.all_reduce(f.aten("sum_dim_int_list", own, dim=[1], keepdim=True), axes)
    f.give(f.aten("div", f.aten("neg", own) if f.wrong and axes == "one" else own, total), on(axes, 1))


@lemma("softmax", *OVER)
def softmax(f, axes, shape):
    x = f.argument(shape, on(axes, 1))
    if not f.local:
        return f.give(f.aten("_softmax", x, dim=1, half_to_float=False), on(axes, 1))
    most = f.all_reduce(f.aten("amax", x, dim=[1], keepdim=True), axes, "max")
    own = f.aten("exp", f.aten("sub", x, most))
    total = f.all_reduce(f.aten("sum_dim_int_list", own, dim=[1], keepdim=True), axes)
    f.give(own if f.wrong else f.aten("div", own, total), on(axes, 1))


@lemma("softmax-gradient", *OVER)
def softmax_gradient(f, axes, shape):
    g, y = f.argument(shape, on(axes, 1)), f.argument(shape, on(axes, 1))
    if not f.local:
        d = f.aten("_softmax_backward_data", g, y, dim=1, input_dtype="f64")
        return f.give(d, on(axes, 1))
    own = f.aten("mul", g, y)
    total = f.all_reduce(f.aten("sum_dim_int_list", own, dim=[1], keepdim=True), axes)
    f.give(own if f.wrong else f.aten("sub", own, f.aten("mul", y, total)), on(axes, 1))


@lemma("selected-by-place", ("dp", (4, 6)), ("tp", (2, 9)), ("cp", (1, 8)), ("cp", (3, 4)), ("tp", (2, 3)))
def columns(f, axis, shape):
    """Of what all have, each rank takes its columns."""
    x = f.argument(shape)
    if not f.local:
        return f.give(x, on(axis, 1))
    own = shape[1] // MESH[axis]
    first = f.aten("mul_scalar", f.axis_index(axis), other=own - f.wrong)
    f.give(f.aten("index_select", x, f.aten("add", f.aten("arange_start", start=0, end=own), first), dim=1),
           on(axis, 1))  # fmt: skip

