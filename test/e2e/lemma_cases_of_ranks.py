"""Lemmas of random numbers, and of communication: see `lemma_cases.py`."""

from lemma_cases import AXES, lemma, on, terms
from lemma_programs import MESH

# Random numbers.


@lemma("draw-by-place", ("dp", (4, 6)), ("tp", (9, 2)), ("cp", (8, 1)), ("dp tp", (6, 5)), ("tp", (3, 3)))
def draw_by_place(f, axes, shape):
    """A rank's part of the numbers of the whole; wrong where it draws as if its part were the whole."""
    x, seed = f.argument(shape, on(axes), typed=True), f.argument((), rows=9, typed=True)
    if not f.local:
        return f.give(f.uniform(x, seed, whole=shape))
    if f.wrong:
        like = f.aten("full", size=list(x.shape), fill_value=0.0, dtype="f64", on="")
        own = f.uniform(like, seed, on="", whole=x.shape)
        for to in ("V", "0"):
            for axis in axes.split():
                given = dict(part.split("=") for part in own.on.split())
                own = f.reinterpret(own, " ".join(f"{name}={how}" for name, how in {**given, axis: to}.items()))
        return f.give(own, on(axes))
    f.give(f.uniform(x, seed, on=on(axes), whole=shape), on(axes))


@lemma("memory-order", (4, 6), (9, 2), (3, 3), (8, 5), (2, 7))
def memory_order(f, m, n):
    """Numbers lie in the memory of what they are drawn for: of a transposed matrix, column by column."""
    x, seed = f.argument((m, n)), f.argument((), rows=9)
    if not f.local:
        return f.give(f.aten("mul_scalar", f.uniform(f.aten("t", x), seed), other=1.0))
    if f.wrong:
        dense = f.aten("clone", f.aten("t", x), memory_format="contiguous_format")
        return f.give(f.uniform(dense, seed))
    f.give(f.aten("t", f.uniform(x, seed)))


@lemma("dropout-mask", ("dp", (4, 6)), ("tp", (9, 2)), ("cp", (8, 1)), ("dp tp", (6, 5)), ("one", (3, 3)))
def dropout_mask(f, axes, shape):
    """All draw for the whole: noise, with which the input is multiplied."""
    x, seed = f.argument(shape), f.argument((), rows=9)
    if not f.local:
        return f.give(f.dropout(x, seed))
    ones = f.aten("full", size=list(shape), fill_value=1.0, dtype="f64")
    f.give(f.aten("clone", x) if f.wrong else f.aten("mul", x, f.dropout(ones, seed)))


# Communication, and the signature.


@lemma("reduce-sum", *AXES)
def reduce_sum(f, axes, shape):
    x = f.argument(shape, on(axes))
    total = f.aten("sum_dim_int_list", f.aten("exp", x), dim=[0], keepdim=True)
    if f.wrong:
        return f.give(f.aten("neg", total) if axes == "one" else total)
    f.give(f.all_reduce(total, axes))


@lemma("reduce-mean", *AXES)
def reduce_mean(f, axes, shape):
    x = f.argument(shape, on(axes))
    mean = f.aten("mean_dim", f.aten("exp", x), dim=[0], keepdim=True)
    mean = f.all_reduce(mean, axes, "sum" if f.wrong else "avg")
    f.give(f.aten("neg", mean) if f.wrong and axes == "one" else mean)


@lemma("reduce-max", *AXES)
def reduce_max(f, axes, shape):
    x = f.argument(shape, on(axes))
    most = f.aten("amax", x, dim=[0], keepdim=True)
    if f.wrong:
        return f.give(f.aten("neg", most) if axes == "one" else most)
    f.give(f.all_reduce(most, axes, "max"))


@lemma("reduce-same", *AXES)
def reduce_same(f, axes, shape):
    x = f.argument(shape)
    y = f.all_reduce(x, axes, "product" if f.wrong else "min")
    f.give(f.aten("neg", y) if f.wrong and axes == "one" else y)


@lemma("gather", ("dp", (6, 4)), ("tp", (9, 5)), ("cp", (12, 1)), ("dp tp", (24, 3)), ("cp", (8, 7)))
def gathers(f, axes, shape):
    x = f.argument(shape, on(axes))
    whole = f.all_gather(x, 0, axes)
    if f.wrong:
        # The same elements, the parts' first rows first.
        count = f.ranks(*axes.split())
        whole = f.aten("view", whole, size=[count, shape[0] // count, shape[1]])
        whole = f.aten("view", f.aten("permute", whole, dims=[1, 0, 2]), size=list(shape))
    f.give(whole)


@lemma("shard", ("dp", (6, 4)), ("tp", (9, 5)), ("cp", (12, 1)), ("dp tp", (24, 3)), ("cp", (8, 7)))
def shards(f, axes, shape):
    """What is summed over ranks and scattered lies at the rank's place."""
    x = f.argument(shape)
    if not f.local:
        return f.give(f.aten("exp", x), on(axes))
    part = f.reduce_scatter(f.aten("exp", x), 0, axes)
    if f.wrong:
        part = f.broadcast(part, axes, 0)
    f.give(f.aten("div_scalar", part, other=float(f.ranks(*axes.split()))), on(axes))


@lemma("broadcast", ("dp", (6, 4)), ("tp", (9, 5)), ("cp", (12, 1)), ("dp tp", (24, 3)), ("cp", (8, 7)))
def broadcasts(f, axes, shape):
    x = f.argument(shape, on(axes))
    count, own = MESH[axes.split()[0]], shape[0]
    for axis in axes.split()[1:]:
        count *= MESH[axis]
    own //= count
    if not f.local:
        return f.give(f.aten("slice", x, dim=0, start=shape[0] - own, end=shape[0]))
    f.give(f.broadcast(x, axes, 0 if f.wrong else count - 1))


@lemma("shift", ("tp", (9, 5)), ("cp", (12, 1)), ("cp", (8, 7)), ("tp", (3, 2)), ("cp", (4, 4)))
def shifts(f, axis, shape):
    """The second rank has what the first had."""
    x = f.argument(shape, on(axis))
    if not f.local:
        return f.give(f.aten("slice", x, dim=0, start=0, end=shape[0] // MESH[axis]))
    f.give(f.broadcast(f.shift(x, axis, -1 if f.wrong else 1), axis, 1))


@lemma("axis-index", ("dp tp", (24, 3)), ("tp dp", (6, 4)), ("cp dp", (8, 1)), ("dp cp", (16, 2)), ("tp cp", (12, 5)))
def axis_indices(f, axes, shape):
    """The number of a rank along several axes is that of its part."""
    w = f.argument(shape)
    own = shape[0]
    for axis in axes.split():
        own //= MESH[axis]
    if not f.local:
        return f.give(w, on(axes))
    number = f.axis_index(" ".join(reversed(axes.split())) if f.wrong else axes)
    i = f.aten("add", f.aten("arange_start", start=0, end=own), f.aten("mul_scalar", number, other=own))
    f.give(f.aten("embedding", w, i), on(axes))


@lemma("first-keeps", ("dp", (6, 4)), ("tp", (9, 5)), ("cp", (4, 1)), ("tp", (12, 3)), ("cp", (8, 7)))
def first_keeps(f, axis, shape):
    """What all ranks have, added as a term of a sum, counts once."""
    x = f.argument(shape, typed=True)
    if not f.local:
        return f.give(x)
    term = f.reinterpret(f.reinterpret(x, f"{axis}=V"), f"{axis}=P") if f.wrong else f.convert(x, f"{axis}=P")
    f.give(f.all_reduce(term, axis, on=""))


@lemma("partial-result", *AXES)
def partial_result(f, axes, shape):
    x = f.argument(shape, on(axes))
    total = f.aten("sum_dim_int_list", f.aten("exp", x), dim=[0], keepdim=True)
    if f.wrong:
        total = f.all_reduce(total, axes)
        total = f.aten("neg", total) if axes == "one" else total
    f.give(total, terms(axes))
