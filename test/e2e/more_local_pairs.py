"""More pairs of the program of one device and that of a rank, as local_pairs.py has them: steps as trainers write them, with
their gradients."""

from local_pairs import I, both


def _zero_1(b):
    """Momentum in shards: gradients are scattered, parameters gathered."""
    x, t, w, m = b.argument((8, 4), "dp=0"), b.argument((8, 4), "dp=0"), b.argument((4, 4)), b.argument((4, 4), "dp=0")
    y = b.relu(b.mm(x, w))
    e = b.mul_scalar(b.sub(y, t), other=0.125)
    g = b.mm(b.t(x), b.mul(e, b.exp(y)))
    g = b.only("reduce_scatter", g, kind="sum", dim=0, axis="dp")
    new = b.add(b.mul_scalar(m, other=0.5), g)
    step = b.mul_scalar(new, other=0.25)
    step = b.only("all_gather", step, dim=0, axis="dp")
    loss = b.only("all_reduce", b.sum(b.sum(b.mul(e, e), dim=0), dim=1), kind="sum", axis="dp")
    return b.done((b.sub(w, step), ""), (new, "dp=0"), (loss, ""))


def _layer(b):
    """A layer norm of rows, tensor-parallel columns and rows, with the gradient of both, and a residual."""
    x, gain = b.argument((4, 8)), b.argument((1, 8))
    up, down, g = b.argument((8, 8), "tp=1"), b.argument((8, 8), "tp=0"), b.argument((4, 8))
    c = b.sub(x, b.mean(x, dim=1))
    n = b.mul(c, b.rsqrt(b.mean(b.mul(c, c), dim=1)))
    h = b.mul(n, gain)
    u = b.tanh(b.mm(h, up))
    y = b.only("all_reduce", b.mm(u, down), kind="sum", axis="tp")
    d_u = b.mm(g, b.t(down))
    d_p = b.mul(d_u, b.sub(b.exp(u), b.mul(u, u)))
    d_up = b.mm(b.t(h), d_p)
    d_h = b.only("all_reduce", b.mm(d_p, b.t(up)), kind="sum", axis="tp")
    d_gain = b.sum(b.mul(d_h, n), dim=0)
    return b.done((b.add(x, y), ""), (d_up, "tp=1"), (d_gain, ""), (b.mm(b.t(u), g), "tp=0"))


def _hybrid(b):
    """Parameters in shards over one axis, replicas over another; clipped by the norm of all gradients."""
    x, w, v = b.argument((8, 4), "dp=0 fs=0"), b.argument((4, 4), "fs=0"), b.argument((4, 4), "fs=1")
    one = b.only("all_gather", w, dim=0, axis="fs")
    two = b.only("all_gather", v, dim=1, axis="fs")
    h = b.tanh(b.mm(x, one))
    y = b.mm(h, two)
    d_two = b.mm(b.t(h), y)
    d_h = b.mm(y, b.t(two))
    d_one = b.mm(b.t(x), b.mul(d_h, b.exp(h)))
    d_one = b.only("reduce_scatter", d_one, kind="sum", dim=0, axis="fs")
    d_two = b.only("reduce_scatter", d_two, kind="sum", dim=1, axis="fs")
    d_one = b.only("all_reduce", d_one, kind="sum", axis="dp")
    d_two = b.only("all_reduce", d_two, kind="sum", axis="dp")
    s = b.add(b.sum(b.sum(b.mul(d_one, d_one), dim=0), dim=1), b.sum(b.sum(b.mul(d_two, d_two), dim=0), dim=1))
    norm = b.sqrt(b.only("all_reduce", s, kind="sum", axis="fs"))
    return b.done((b.sub(w, b.div(d_one, norm)), "fs=0"), (b.sub(v, b.div(d_two, norm)), "fs=1"))


def _experts(b):
    """Each rank has some experts; all see all rows, weighted by a gate."""
    x, gate, w, v = b.argument((4, 4)), b.argument((4, 4)), b.argument((4, 8), "ep=1"), b.argument((8, 4), "ep=0")
    p = b.softmax(b.mm(x, gate), dim=1)
    h = b.relu(b.mm(x, w))
    y = b.only("all_reduce", b.mm(h, v), kind="sum", axis="ep")
    z = b.mul(y, p)
    count = b.sum(p, dim=0)
    balance = b.sum(b.mul(count, count), dim=1)
    return b.done((z, ""), (balance, ""), (b.mul_scalar(b.mm(b.t(h), z), other=0.5), "ep=0"))


def _tokens(b):
    """A table all ranks have, rows of the batch over ranks, a head by columns with its loss from shards."""
    table, i, head = b.argument((8, 4)), b.argument((4, 2), "dp=0", I), b.argument((4, 8), "tp=1")
    x = b.embedding(table, i)
    rows = 8 // b.ranks("dp")
    x = b.view(x, size=(rows, 4))
    y = b.mm(b.tanh(x), head)
    m = b.only("all_reduce", b.amax(y, dim=1), kind="max", axis="tp")
    e = b.exp(b.sub(y, m))
    total = b.only("all_reduce", b.sum(e, dim=1), kind="sum", axis="tp")
    p = b.div(e, total)
    d = b.only("all_reduce", b.mm(p, b.t(head)), kind="sum", axis="tp")
    back = b.embedding_dense_backward(b.view(d, size=(4 // b.ranks("dp"), 2, 4)), i, num_weights=8, padding_idx=-1)
    back = b.only("all_reduce", back, kind="sum", axis="dp")
    return b.done((p, "dp=0 tp=1"), (b.sub(table, back), ""))


def _sequence(b):
    """Sequence parallel with the backward: gathered before, scattered after, and the other way."""
    x, up, down, g = b.argument((8, 4), "tp=0"), b.argument((4, 8), "tp=1"), b.argument((8, 4), "tp=0"), b.argument((8, 4), "tp=0")
    n = b.mul(x, b.rsqrt(b.mean(b.mul(x, x), dim=1)))
    whole = b.only("all_gather", n, dim=0, axis="tp")
    h = b.relu(b.mm(whole, up))
    y = b.only("reduce_scatter", b.mm(h, down), kind="sum", dim=0, axis="tp")
    d = b.only("all_gather", g, dim=0, axis="tp")
    d_down = b.mm(b.t(h), d)
    d_h = b.mul(b.mm(d, b.t(down)), b.exp(h))
    d_up = b.mm(b.t(whole), d_h)
    d_n = b.only("reduce_scatter", b.mm(d_h, b.t(up)), kind="sum", dim=0, axis="tp")
    return b.done((b.add(x, y), "tp=0"), (d_down, "tp=0"), (d_up, "tp=1"), (b.add(g, d_n), "tp=0"))


def _steps(b):
    """Two steps of data-parallel descent, one after the other, and an average of the weights."""
    w = b.argument((4, 4))
    batches = [b.argument((4, 4), "dp=0") for _ in range(2)]
    average = w
    for x in batches:
        h = b.tanh(b.mm(x, w))
        g = b.only("all_reduce", b.mul_scalar(b.mm(b.t(x), h), other=0.25), kind="sum", axis="dp")
        w = b.sub(w, b.mul_scalar(g, other=0.5))
        average = b.add(b.mul_scalar(average, other=0.75), b.mul_scalar(w, other=0.25))
    return b.done((w, ""), (average, ""))


def _attention(b):
    """Scores by heads' columns, summed over ranks, behind a gate; the output by rows, with the gradient of its weight."""
    x, q, k, v = b.argument((4, 4)), *(b.argument((4, 8), "tp=1") for _ in range(3))
    out, g = b.argument((8, 4), "tp=0"), b.argument((4, 4))
    scores = b.only("all_reduce", b.mm(b.mm(x, q), b.t(b.mm(x, k))), kind="sum", axis="tp")
    p = b.softmax(b.mul_scalar(scores, other=0.5), dim=1)
    h = b.mul(b.mm(p, b.mm(x, v)), b.tanh(b.mm(x, q)))
    y = b.only("all_reduce", b.mm(h, out), kind="sum", axis="tp")
    d_h = b.mm(g, b.t(out))
    d_p = b.only("all_reduce", b.mm(d_h, b.t(b.mm(x, v))), kind="sum", axis="tp")
    return b.done((b.add(x, y), ""), (b.mm(b.t(h), g), "tp=0"), (b.mul(p, d_p), ""), (b.mm(b.t(p), d_h), "tp=1"))


def _contrast(b):
    """Rows of each rank against those of all, both ways round, with a temperature; the loss is a mean."""
    x, y, w = b.argument((8, 4), "dp=0"), b.argument((8, 4), "dp=0"), b.argument((4, 4))
    one, other = b.tanh(b.mm(x, w)), b.mm(y, w)
    one = b.mul(one, b.rsqrt(b.sum(b.mul(one, one), dim=1)))
    other = b.mul(other, b.rsqrt(b.sum(b.mul(other, other), dim=1)))
    whole = b.only("all_gather", other, dim=0, axis="dp")
    back = b.only("all_gather", one, dim=0, axis="dp")
    p = b.log_softmax(b.mul_scalar(b.mm(one, b.t(whole)), other=5.0), dim=1)
    q = b.log_softmax(b.mul_scalar(b.mm(other, b.t(back)), other=5.0), dim=1)
    loss = b.mean(b.mean(b.add(p, q), dim=1), dim=0)
    loss = b.only("all_reduce", loss, kind="avg", axis="dp")
    return b.done((loss, ""), (b.sub(p, q), "dp=0"))


def _decay(b):
    """Sharded parameters, gathered, with an average of squares of their gradients, weight decay and a running average."""
    x, w = b.argument((8, 4), "dp=0"), b.argument((4, 4), "dp=0")
    squares, average = b.argument((4, 4), "dp=0"), b.argument((4, 4), "dp=0")
    whole = b.only("all_gather", w, dim=0, axis="dp")
    h = b.relu(b.mm(x, whole))
    g = b.mul_scalar(b.mm(b.t(x), b.mul(h, b.exp(h))), other=0.125)
    g = b.only("reduce_scatter", g, kind="sum", dim=0, axis="dp")
    new = b.add(b.mul_scalar(squares, other=0.75), b.mul_scalar(b.mul(g, g), other=0.25))
    step = b.mul(g, b.rsqrt(b.exp(new)))
    kept = b.sub(b.mul_scalar(w, other=0.875), b.mul_scalar(step, other=0.5))
    mean = b.add(b.mul_scalar(average, other=0.5), b.mul_scalar(kept, other=0.5))
    outputs = b.only("all_reduce", b.sum(h, dim=0), kind="sum", axis="dp")
    return b.done((kept, "dp=0"), (new, "dp=0"), (mean, "dp=0"), (outputs, ""))


def programs():
    return [
        both("zero_1", {"dp": 2}, _zero_1), both("layer", {"tp": 2}, _layer),
        both("hybrid", {"dp": 2, "fs": 2}, _hybrid), both("experts", {"ep": 2}, _experts),
        both("tokens", {"dp": 2, "tp": 2}, _tokens), both("sequence", {"tp": 2}, _sequence), both("steps", {"dp": 2}, _steps),
    ]


def untuned():
    """Pairs that were written after the ways to name ops had been chosen, which were chosen on all the others."""
    return [both("attention", {"tp": 2}, _attention), both("contrast", {"dp": 2}, _contrast), both("decay", {"dp": 4}, _decay)]
