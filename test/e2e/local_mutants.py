"""Programs of ranks that are right, each with the program of one device, and every small change of them.

The changes know nothing of how a proof is made, and neither do the programs: what a change does is measured by
running it.
"""

import dataclasses

import numpy as np
from local_programs import COLLECTIVES, Op, Program

F, I = "f64", "i64"


class Builder:
    """Writes a program op by op. Placements are words: "dp=0 tp=R"."""

    def __init__(self, name, **mesh):
        self.name, self.mesh = name, tuple(mesh.items())
        self.arguments, self.ops = [], []

    def _placement(self, text):
        given = dict(part.split("=") for part in text.split())
        return tuple((axis, int(on) if (on := given.get(axis, "R")).isdigit() else on) for axis, _ in self.mesh)

    def argument(self, shape, placement="", dtype=F):
        assert not self.ops
        self.arguments.append((shape, self._placement(placement), dtype))
        return len(self.arguments) - 1

    def __getattr__(self, name):
        def add(*inputs, **attributes):
            self.ops.append(Op(name, inputs, tuple(attributes.items())))
            return len(self.arguments) + len(self.ops) - 1

        return add

    def done(self, *results):
        placed = tuple((value, self._placement(text)) for value, text in results)
        return Program(self.name, self.mesh, tuple(self.arguments), tuple(self.ops), placed)


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
        builder.ranks = (lambda b: lambda axis: dict(b.mesh)[axis] if b.local else 1)(builder)
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
    part = b.only("reduce_scatter", g, dim=0, axis="tp")
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
    part = b.only("reduce_scatter", y, dim=0, axis="tp")
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


# Changes.


def _without(program, at, by):
    """The program without op `at`, whose result is value `by` instead."""
    first = len(program.arguments)
    gone = first + at

    def moved(value):
        value = by if value == gone else value
        return value - (value > gone)

    ops = [
        dataclasses.replace(op, inputs=tuple(map(moved, op.inputs))) for i, op in enumerate(program.ops) if i != at
    ]
    results = tuple((moved(value), on) for value, on in program.results)
    return dataclasses.replace(program, ops=tuple(ops), results=results)


def _after(program, at, op):
    """The program with `op`, on the result of op `at`, behind it; all uses are of the new one."""
    first = len(program.arguments)
    made = first + at

    def moved(value):
        return value + (value >= made)

    ops = list(program.ops[: at + 1]) + [op]
    ops += [dataclasses.replace(o, inputs=tuple(map(moved, o.inputs))) for o in program.ops[at + 1 :]]
    return dataclasses.replace(
        program, ops=tuple(ops), results=tuple((moved(value), on) for value, on in program.results)
    )


def _with(program, at, op):
    ops = list(program.ops)
    ops[at] = op
    return dataclasses.replace(program, ops=tuple(ops))


def mutants(program):
    """(kind, program) for each change of one op."""
    first = len(program.arguments)
    axes = [axis for axis, _ in program.mesh]
    for at, op in enumerate(program.ops):
        value = first + at
        communicates = op.name in COLLECTIVES
        for given in op.inputs:
            yield "drop a collective" if communicates else "drop an op", _without(program, at, given)
        if op.name == "all_reduce":
            for axis in axes:
                again = Op("all_reduce", (value,), (("kind", "sum"), ("axis", axis)))
                yield "double a collective", _after(program, at, again)
            for kind in ("sum", "avg", "max"):
                if kind != op.get("kind"):
                    yield "wrong reduction", _with(program, at, op.replace(kind=kind))
        if communicates or op.name == "axis_index":
            for axis in axes:
                if axis != op.get("axis"):
                    yield "wrong axis", _with(program, at, op.replace(axis=axis))
        if communicates and at > 0 and op.inputs == (value - 1,):
            # Before the op that makes what is communicated, on each of its operands in turn.
            maker = program.ops[at - 1]
            for i, given in enumerate(maker.inputs):
                inputs = tuple(value - 1 if j == i else v for j, v in enumerate(maker.inputs))
                later = Op(maker.name, inputs, maker.attributes)
                earlier = dataclasses.replace(op, inputs=(given,))
                yield "move a collective", _with(_with(program, at - 1, earlier), at, later)
        if communicates and at + 1 < len(program.ops):
            user = program.ops[at + 1]
            if value in user.inputs:
                inputs = tuple(op.inputs[0] if v == value else v for v in user.inputs)
                swapped = dataclasses.replace(user, inputs=inputs)
                moved = dataclasses.replace(op, inputs=(value,))
                yield "move a collective", _with(_with(program, at, swapped), at + 1, moved)
        if "reduction" in dict(op.attributes):
            yield "wrong count", _with(program, at, op.replace(reduction=3 - op.get("reduction")))
        for key in ("dim", "split", "concat"):
            if key in dict(op.attributes):
                for dim in range(3):
                    if dim != op.get(key):
                        yield "wrong dimension", _with(program, at, op.replace(**{key: dim}))
        if op.name == "slice":
            for start, end in ((1, 1), (-1, -1), (1, 0), (0, -1)):
                shifted = op.replace(start=op.get("start") + start, end=op.get("end") + end)
                yield "shift a slice", _with(program, at, shifted)
        if op.name == "shift":
            for by in (-1, 0, 1, 2):
                if by != op.get("by"):
                    yield "wrong shift", _with(program, at, op.replace(by=by))
        for key in ("other", "value", "num_weights", "padding_idx", "correction", "end"):
            if key in dict(op.attributes) and isinstance(op.get(key), int):
                for change in (-1, 1, op.get(key)):
                    kind = "wrong mask offset" if op.name in ("lt_scalar", "ge_scalar") else "wrong number"
                    yield kind, _with(program, at, op.replace(**{key: op.get(key) + change}))
        for factor in (2.0, 0.5, 4.0, 0.25, -1.0):
            yield "scale", _after(program, at, Op("mul_scalar", (value,), (("other", factor),)))
        yield "apply too early", _after(program, at, Op("tanh", (value,)))
        yield "accumulate twice", _after(program, at, Op("add", (value, value)))
        for i in range(len(op.inputs)):
            for other in range(value):
                if other != op.inputs[i]:
                    changed = tuple(other if j == i else v for j, v in enumerate(op.inputs))
                    yield "stale value", _with(program, at, dataclasses.replace(op, inputs=changed))
    for i, (value, on) in enumerate(program.results):
        for other in range(first + len(program.ops)):
            if other != value:
                results = tuple((other, on) if j == i else r for j, r in enumerate(program.results))
                yield "wrong result", dataclasses.replace(program, results=results)
