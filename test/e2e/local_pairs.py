"""Programs of ranks that are right, each with the program of one device: what tests of the prover change.

They know nothing of how a proof is made.
"""

import math

import numpy as np
from local_programs import Op, Program

F, I = "f64", "i64"


class Builder:
    """Writes a program op by op. Placements are words: "dp=0 tp=R"."""

    def __init__(self, name, **mesh):
        self.name, self.mesh = name, tuple(mesh.items())
        self.arguments, self.ops, self.given = [], [], []
        self.microbatch = None  # to which what follows belongs

    def _placement(self, text):
        given = dict(part.split("=") for part in text.split())
        return tuple((axis, int(on) if (on := given.get(axis, "R")).isdigit() else on) for axis, _ in self.mesh)

    def argument(self, shape, placement="", dtype=F):
        assert not self.ops
        if self.microbatch is not None:
            self.given.append((len(self.arguments), self.microbatch))
        self.arguments.append((shape, self._placement(placement), dtype))
        return len(self.arguments) - 1

    def __getattr__(self, name):
        def add(*inputs, **attributes):
            self.ops.append(Op(name, inputs, tuple(attributes.items()), self.microbatch))
            return len(self.arguments) + len(self.ops) - 1

        return add

    def done(self, *results):
        placed = tuple((value, self._placement(text)) for value, text in results)
        return Program(self.name, self.mesh, tuple(self.arguments), tuple(self.ops), placed, tuple(self.given))


def _only_on_ranks(builder):
    def add(op, value, **attributes):
        return getattr(builder, op)(value, **attributes) if builder.local else value

    return add


def both(name, mesh, write):
    """The program of one device and that of a rank, from one description: `write` asks which it is for."""
    programs = []
    for is_local in (False, True):
        builder = Builder(name, **mesh)
        builder.local = is_local
        builder.ranks = (lambda b: lambda *axes: math.prod(dict(b.mesh)[a] for a in axes) if b.local else 1)(builder)
        # On one device communication does nothing.
        builder.only = _only_on_ranks(builder)
        programs.append(write(builder))
    return programs


def _tensor_parallel(b):
    """A column- and a row-parallel layer, and the gradients of both."""
    x, up, down, g = b.argument((4, 4)), b.argument((4, 8), "tp=1"), b.argument((8, 4), "tp=0"), b.argument((4, 4))
    h = b.mm(x, up)
    a = b.tanh(h)
    y = b.only("all_reduce", b.mm(a, down), kind="sum", axis="tp")
    z = b.relu(y)
    d_down = b.mm(b.t(a), g)
    d_a = b.mul(b.mm(g, b.t(down)), b.exp(h))
    d_up = b.mm(b.t(x), d_a)
    d_x = b.only("all_reduce", b.mm(d_a, b.t(up)), kind="sum", axis="tp")
    return b.done((z, ""), (d_down, "tp=0"), (d_up, "tp=1"), (d_x, ""))


def _data_parallel(b):
    """A mean over a sharded batch, its gradient as terms of a sum, and a reduction over both axes."""
    x, w, t = b.argument((8, 4), "dp=0"), b.argument((4, 4), "tp=0"), b.argument((8, 4), "dp=0")
    whole = b.only("all_gather", w, dim=0, axis="tp")
    e = b.sub(b.tanh(b.mm(x, whole)), t)
    loss = b.sum(b.mean(b.mul(e, e), dim=0), dim=1)
    loss = b.only("all_reduce", loss, kind="avg", axis="dp")
    g = b.mul_scalar(b.mm(b.t(x), e), other=0.25)
    part = b.only("reduce_scatter", g, kind="sum", dim=0, axis="tp")
    part = b.mul_scalar(part, other=1.0 / b.ranks("tp"))
    total = b.only("all_reduce", part, kind="sum", axis="dp")
    new = b.sub(w, b.mul_scalar(total, other=0.5))
    return b.done((loss, ""), (part, "dp=P tp=0"), (new, "tp=0"))


def _sequence_parallel(b):
    """Gathered before the columns, scattered after the rows."""
    x, up, down = b.argument((4, 4), "tp=0"), b.argument((4, 8), "tp=1"), b.argument((8, 4), "tp=0")
    n = b.softmax(x, dim=1)
    whole = b.only("all_gather", n, dim=0, axis="tp")
    y = b.mm(b.relu(b.mm(whole, up)), down)
    part = b.only("reduce_scatter", y, kind="sum", dim=0, axis="tp")
    return b.done((b.add(x, part), "tp=0"), (b.only("all_gather", part, dim=0, axis="tp"), ""))


def _heads(b):
    """From sequence to heads and back; slices of what every rank has whole."""
    x, w = b.argument((4, 4, 4), "cp=0"), b.argument((4, 8))
    shuffled = b.only("all_to_all", x, split=1, concat=0, axis="cp")
    s = b.softmax(shuffled, dim=0)
    back = b.only("all_to_all", s, split=0, concat=1, axis="cp")
    rows = b.view(back, size=(16 // b.ranks("cp"), 4))
    left = b.slice(w, dim=1, start=0, end=4)
    right = b.slice(w, dim=1, start=4, end=8)
    y = b.add(b.mm(rows, left), b.tanh(b.mm(rows, right)))
    return b.done((y, "cp=0"), (b.sum(b.only("all_gather", y, dim=0, axis="cp"), dim=0), ""))


def _ring(b):
    """What goes around a ring comes back."""
    x, y = b.argument((4, 4), "cp=0"), b.argument((4, 4))
    if not b.local:
        return b.done((b.mm(b.tanh(x), y), "cp=0"), (b.exp(x), "cp=0"))
    sent = b.shift(x, by=1, axis="cp")
    part = sent
    for _ in range(b.ranks("cp") - 1):
        part = b.shift(part, by=1, axis="cp")
    back = b.shift(sent, by=-1, axis="cp")
    return b.done((b.mm(b.tanh(part), y), "cp=0"), (b.exp(back), "cp=0"))


def _vocabulary(b):
    """A table and its gradient, of which each rank has a part of the rows."""
    w, i, g = b.argument((8, 3), "tp=0"), b.argument((2, 4), "", I), b.argument((2, 4, 3))
    if not b.local:
        back = b.embedding_dense_backward(g, i, num_weights=8, padding_idx=-1)
        return b.done((b.embedding(w, i), ""), (back, "tp=0"))
    rows = 8 // b.ranks("tp")
    place = b.sub(i, b.mul_scalar(b.axis_index(axis="tp"), other=rows))
    outside = b.logical_or(b.lt_scalar(place, other=0), b.ge_scalar(place, other=rows))
    found = b.embedding(w, b.masked_fill_scalar(place, outside, value=0))
    terms = b.masked_fill_scalar(found, b.unsqueeze(outside), value=0.0)
    skipped = b.masked_fill_scalar(place, outside, value=rows)
    back = b.embedding_dense_backward(g, skipped, num_weights=rows + 1, padding_idx=rows)
    back = b.slice(back, dim=0, start=0, end=rows)
    return b.done((b.all_reduce(terms, kind="sum", axis="tp"), ""), (back, "tp=0"))


def _classes(b):
    """The logarithm of a softmax over sharded classes."""
    x, w = b.argument((4, 4), "dp=0"), b.argument((4, 8), "tp=1")
    y = b.mm(x, w)
    if not b.local:
        return b.done((b.log_softmax(y, dim=1), "dp=0 tp=1"))
    y = b.sub(y, b.all_reduce(b.amax(y, dim=1), kind="max", axis="tp"))
    total = b.all_reduce(b.sum(b.exp(y), dim=1), kind="sum", axis="tp")
    b.ops.append(Op("log", (total,)))
    return b.done((b.sub(y, len(b.arguments) + len(b.ops) - 1), "dp=0 tp=1"))


def _loss(b):
    """A mean over a sharded batch, in which some targets count, and its gradient."""
    x, t, w = b.argument((8, 4), "dp=0"), b.argument((8,), "dp=0", I), b.argument((4, 8))
    bias, seed = b.argument((8, 8), "dp=0"), b.argument(())
    y = b.log_softmax(b.addmm(bias, x, w), dim=1)
    if b.local:
        count = b.all_reduce(b.nll_weight(y, t, reduction=2), kind="sum", axis="dp")
        loss = b.div(b.nll_loss(y, t, reduction=2), count)
    else:
        loss, count = b.nll_loss(y, t, reduction=1), b.nll_weight(y, t, reduction=1)
    d = b.log_softmax_backward(b.nll_loss_backward(seed, y, t, count, reduction=1), y, dim=1)
    return b.done((loss, "dp=P"), (b.mm(b.t(x), d), "dp=P"), (d, "dp=0"))


def _statistics(b):
    """A normalized batch: its variance from the ranks' means and variances."""
    x, g = b.argument((8, 3), "dp=0"), b.argument((8, 3), "dp=0")
    if b.local:
        means = b.all_gather(b.mean(x, dim=0), dim=0, axis="dp")
        variances = b.all_gather(b.var(x, dim=0, correction=0), dim=0, axis="dp")
        mean = b.mean(means, dim=0)
        distance = b.sub(means, mean)
        variance = b.add(b.mean(variances, dim=0), b.mean(b.mul(distance, distance), dim=0))
    else:
        mean, variance = b.mean(x, dim=0), b.var(x, dim=0, correction=0)
    normal = b.mul(b.sub(x, mean), b.rsqrt(variance))
    total = b.only("all_reduce", b.sum(b.mul(g, normal), dim=0), kind="sum", axis="dp")
    return b.done((normal, "dp=0"), (variance, ""), (b.mul(normal, total), "dp=0"))


def _norms(b):
    """Gradients divided by the norm of all: of one the ranks have parts, the other all have."""
    one, other = b.argument((4, 6), "tp=0"), b.argument((2, 6))
    square = b.norm(one, dim=0)
    square = b.only("all_reduce", b.mul(square, square), kind="sum", axis="tp")
    square = b.sum(square, dim=1)
    rest = b.norm(b.norm(other, dim=0), dim=1)
    norm = b.sqrt(b.add(square, b.mul(rest, rest)))
    return b.done((b.div(one, norm), "tp=0"), (b.div(other, norm), ""))


def _running_sum(b):
    """Sums that go on from those of the ranks before."""
    x = b.argument((8, 3), "dp=0")
    running = b.cumsum(x, dim=0)
    if b.local:
        sums = b.all_gather(b.sum(x, dim=0), dim=0, axis="dp")
        before = b.view(b.lt(b.arange(end=b.ranks("dp")), b.axis_index(axis="dp")), size=(b.ranks("dp"), 1))
        running = b.add(running, b.sum(b.where(before, sums, b.mul_scalar(sums, other=0.0)), dim=0))
    return b.done((b.tanh(running), "dp=0"), (running, "dp=0"))


def _microbatches(b):
    """Two microbatches of one step: their gradients are added, then reduced; the loss is their mean."""
    weight = b.argument((4, 4))
    batches = []
    for b.microbatch in range(2):
        batches.append((b.argument((4, 4), "dp=0"), b.argument((4, 4), "dp=0")))
    losses, gradients = [], []
    for b.microbatch, (x, target) in enumerate(batches):
        e = b.sub(b.tanh(b.mm(x, weight)), target)
        losses.append(b.sum(b.mean(b.mul(e, e), dim=0), dim=1))
        gradients.append(b.mm(b.t(x), e))
    b.microbatch = None
    loss = b.only("all_reduce", b.mul_scalar(b.add(*losses), other=0.5), kind="avg", axis="dp")
    total = b.mul_scalar(b.add(*gradients), other=1.0 / 8)
    total = b.only("all_reduce", total, kind="sum", axis="dp")
    return b.done((loss, ""), (b.sub(weight, b.mul_scalar(total, other=0.25)), ""))


def _bucket(b):
    """Gradients of two weights, flat and in one buffer, are reduced together and taken apart again."""
    x, one, two = b.argument((8, 4), "dp=0"), b.argument((4, 2)), b.argument((4, 4))
    first, second = b.mm(b.t(x), b.tanh(b.mm(x, one))), b.mm(b.t(x), b.tanh(b.mm(x, two)))
    if b.local:
        flat = b.cat(b.view(first, size=(8,)), b.view(second, size=(16,)), dim=0)
        part = b.reduce_scatter(flat, kind="sum", dim=0, axis="dp")
        flat = b.all_gather(part, dim=0, axis="dp")
        first = b.view(b.slice(flat, dim=0, start=0, end=8), size=(4, 2))
        second = b.view(b.slice(flat, dim=0, start=8, end=24), size=(4, 4))
    return b.done((b.sub(one, b.mul_scalar(first, other=0.125)), ""), (b.sub(two, b.mul_scalar(second, other=0.125)), ""))


def _fused(b):
    """Queries, keys and values in one product, cut apart; heads are cut over ranks."""
    x, q, k, v = b.argument((4, 4)), *(b.argument((4, 8), "tp=1") for _ in range(3))
    out = b.argument((8, 4), "tp=0")
    width = 8 // b.ranks("tp")
    h = b.mm(x, b.cat(b.cat(q, k, dim=1), v, dim=1))
    q, k, v = (b.slice(h, dim=1, start=i * width, end=(i + 1) * width) for i in range(3))
    y = b.mul(b.mul(b.tanh(q), b.exp(k)), v)
    y = b.only("all_reduce", b.mm(y, out), kind="sum", axis="tp")
    return b.done((b.add(x, y), ""))


def _causal(b):
    """Attention of a rank's queries to the keys before them."""
    q, k, v = (b.argument((8, 4), "cp=0") for _ in range(3))
    rows = 8 // b.ranks("cp")
    keys, values = (b.only("all_gather", given, dim=0, axis="cp") for given in (k, v))
    scores = b.mul_scalar(b.mm(q, b.t(keys)), other=0.5)
    place = b.arange(end=rows)
    if b.local:
        place = b.add(place, b.mul_scalar(b.axis_index(axis="cp"), other=rows))
    later = b.lt(b.view(place, size=(rows, 1)), b.view(b.arange(end=8), size=(1, 8)))
    scores = b.masked_fill_scalar(scores, later, value=-1e30)
    return b.done((b.mm(b.softmax(scores, dim=1), values), "cp=0"))


def _dropout(b):
    """Each rank draws for the whole tensor: for what all have, and for what is gathered and cut again."""
    x, up, down = b.argument((4, 4), "tp=0"), b.argument((4, 8), "tp=1"), b.argument((8, 4), "tp=0")
    seed, offset = b.argument((), "", I), b.argument((), "", I)
    whole = b.dropout(b.only("all_gather", x, dim=0, axis="tp"), seed, offset, position=0)
    y = b.mm(b.relu(b.mm(whole, up)), down)
    y = b.dropout(b.only("all_reduce", y, kind="sum", axis="tp"), seed, offset, position=16)
    y = b.dropout(b.tanh(y), seed, offset, position=32)
    part = b.only("reduce_scatter", y, kind="avg", dim=0, axis="tp")
    return b.done((b.add(x, part), "tp=0"), (b.sum(y, dim=1), ""))


def _grid(b):
    """Collectives along both axes of a mesh at once."""
    x, w = b.argument((8, 4), "dp=0"), b.argument((8, 4), "dp=0 tp=0")
    whole = b.only("all_gather", w, dim=0, axis=("dp", "tp"))
    h = b.tanh(b.mm(x, b.t(whole)))
    g = b.mm(b.t(h), x)
    part = b.only("reduce_scatter", g, kind="sum", dim=0, axis=("dp", "tp"))
    part = b.mul_scalar(part, other=0.125 / b.ranks("tp"))
    square = b.sum(b.sum(b.mul(part, part), dim=0), dim=1)
    norm = b.sqrt(b.only("all_reduce", square, kind="sum", axis=("dp", "tp")))
    return b.done((b.div(part, norm), "dp=0 tp=0"), (norm, ""), (b.sum(h, dim=0), "dp=P"))


def programs():
    """Pairs of the program of one device and that of a rank."""
    return [
        both("tensor_parallel", {"tp": 2}, _tensor_parallel),
        both("tensor_parallel_4", {"tp": 4}, _tensor_parallel),
        both("data_parallel", {"dp": 2, "tp": 2}, _data_parallel),
        both("sequence_parallel", {"tp": 2}, _sequence_parallel),
        both("heads", {"cp": 2}, _heads),
        both("ring", {"cp": 4}, _ring),
        both("vocabulary", {"tp": 2}, _vocabulary),
        both("vocabulary_4", {"tp": 4}, _vocabulary),
        both("loss", {"dp": 2}, _loss),
        both("classes", {"dp": 2, "tp": 2}, _classes),
        both("statistics", {"dp": 2}, _statistics),
        both("statistics_4", {"dp": 4}, _statistics),
        both("norms", {"tp": 2}, _norms),
        both("running_sum", {"dp": 2}, _running_sum),
        both("running_sum_4", {"dp": 4}, _running_sum),
        both("microbatches", {"dp": 2}, _microbatches),
        both("bucket", {"dp": 2}, _bucket),
        both("fused", {"tp": 2}, _fused),
        both("causal", {"cp": 2}, _causal),
        both("dropout", {"tp": 2}, _dropout),
        both("grid", {"dp": 2, "tp": 2}, _grid),
    ]


def arguments(program, seed=0):
    """Whole tensors for the arguments of a program."""
    random = np.random.default_rng(seed)
    tensors = []
    for shape, _, dtype in program.arguments:
        tensor = random.integers(0, 8, shape) if dtype == I else random.standard_normal(shape)
        if program.name == "loss" and dtype == I:
            tensor[random.permutation(shape[0])[: 1 + seed]] = -100  # targets that do not count
        tensors.append(tensor)
    return tensors
