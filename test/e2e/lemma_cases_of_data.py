"""Lemmas of indices that are data, of classes, and of statistics: see `lemma_cases.py`."""

from lemma_cases import AXES, MATRICES, TABLES, gradient, lemma, on, own_places, table
from lemma_programs import MESH

# Indices that are data, and classes.


@lemma("row-named", *TABLES)
def row_named(f, axis, rows, width, _):
    own_places(f, axis, rows, width)


@lemma("mark-says-where", *TABLES)
def mark_says_where(f, *sizes):
    table(f, *sizes, lowest=int(f.wrong))


@lemma("mark-limits", *TABLES)
def mark_limits(f, *sizes):
    """One row more than the part has: the mark does not keep the index inside."""
    table(f, *sizes, more=int(f.wrong))


@lemma("known-place", *TABLES)
def known_place(f, axis, rows, width, tokens):
    """A place beyond the table is none of its rows, though nothing uses what is found there."""
    w = f.argument((rows, width))
    more = int(f.wrong)
    found = f.aten("embedding", w, f.aten("arange_start", start=1, end=rows + more))
    f.give(f.aten("slice", found, dim=0, start=0, end=rows - 1))


@lemma("same-look-up", *TABLES)
def same_look_up(f, axis, rows, width, tokens):
    """An index that one device looks up in all rows says nothing of one into a rank's rows."""
    w, i = f.argument((rows, width), on(axis)), f.argument((tokens,), rows=rows)
    if not f.local:
        return f.give(f.aten("embedding", w, i))
    if not f.wrong:
        return f.give(f.aten("embedding", f.all_gather(w, 0, axis), i))
    first = f.aten("mul_scalar", f.axis_index(axis), other=rows // MESH[axis])
    f.give(f.all_reduce(f.aten("embedding", w, f.aten("sub", i, first)), axis))


@lemma("filled-row", *TABLES)
def filled_row(f, axis, rows, width, tokens):
    """What is masked is row 0, which is not nothing."""
    table(f, axis, rows, width, tokens, zeroed=not f.wrong)


@lemma("padding-row", *TABLES)
def padding_row(f, axis, rows, width, tokens):
    """None counts at the padding row: where each rank has a part of the rows, and where it has tokens of its own."""
    gradient(f, axis, rows, width, tokens, padding=1, skips=1 + f.wrong)
    tokens *= MESH[axis]
    g, i = f.argument((tokens, width), on(axis)), f.argument((tokens,), on(axis), rows=rows)
    d = f.aten("embedding_dense_backward", g, i, num_weights=rows, padding_idx=1 + f.wrong, scale_grad_by_freq=False)
    f.give(f.all_reduce(d, axis))


@lemma("zero-where-marked", *TABLES)
def zero_where_marked(f, *sizes):
    """What is looked up is right, and only some of what is not the rank's is set to zero."""
    table(f, *sizes, zeroed_less=f.wrong)


CLASSES = [("dp", 8, 5), ("tp", 9, 4), ("cp", 4, 7), ("dp tp", 12, 2), ("one", 3, 3)]


@lemma("ignored-class", *CLASSES)
def ignored_class(f, axes, tokens, classes):
    """One of the classes, not a number beside them; and the same one on all ranks."""
    x, t = f.argument((tokens, classes), on(axes)), f.argument((tokens,), on(axes), rows=classes)
    loss, weight = f.aten("nll_loss_forward", x, t, reduction=2, ignore_index=1 - f.wrong)
    total = f.aten("add", loss, weight)
    f.give(f.all_reduce(total, axes) if f.local else total)


@lemma("targets-mean", *CLASSES)
def targets_mean(f, axes, tokens, classes):
    x, t = f.argument((tokens, classes), on(axes)), f.argument((tokens,), on(axes), rows=classes)
    if not f.local:
        return f.give(f.aten("nll_loss_forward", x, t, reduction=1, ignore_index=-100)[0])
    loss, weight = f.aten("nll_loss_forward", x, t, reduction=2, ignore_index=-100)
    total, count = f.all_reduce(loss, axes), f.all_reduce(weight, axes)
    f.give(f.aten("mul_scalar", total, other=1.0) if f.wrong else f.aten("div", total, count))


@lemma("targets-gradient", *CLASSES)
def targets_gradient(f, axes, tokens, classes):
    g, x = f.argument(()), f.argument((tokens, classes), on(axes))
    t = f.argument((tokens,), on(axes), rows=classes)
    weight = f.aten("nll_loss_forward", x, t, reduction=2, ignore_index=-100)[1]
    if not f.local:
        return f.give(f.aten("nll_loss_backward", g, x, t, weight, reduction=1, ignore_index=-100), on(axes))
    count = f.all_reduce(weight, axes)
    if f.wrong:
        return f.give(f.aten("nll_loss_backward", g, x, t, count, reduction=2, ignore_index=-100), on(axes))
    share = f.aten("div", g, count)
    f.give(f.aten("nll_loss_backward", share, x, t, count, reduction=2, ignore_index=-100), on(axes))


@lemma("max-of-max", *AXES)
def max_of_max(f, axes, shape):
    x = f.argument(shape, on(axes))
    most = f.aten("amax", x, dim=[0], keepdim=True)
    if f.wrong:
        return f.give(f.aten("div_scalar", f.all_reduce(most, axes), other=1.5))
    f.give(f.all_reduce(most, axes, "max"))


OVER = [("dp", (4, 6)), ("tp", (2, 9)), ("cp", (1, 8)), ("dp tp", (3, 12)), ("one", (4, 5))]


@lemma("log-softmax", *OVER)
def log_softmax(f, axes, shape):
    x = f.argument(shape, on(axes, 1))
    if not f.local:
        return f.give(f.aten("_log_softmax", x, dim=1, half_to_float=False), on(axes, 1))
    most = f.all_reduce(f.aten("amax", x, dim=[1], keepdim=True), axes, "max")
    x = f.aten("sub", x, most)
    total = f.all_reduce(f.aten("sum_dim_int_list", f.aten("exp", x), dim=[1], keepdim=True), axes)
    f.give(x if f.wrong else f.aten("sub", x, f.aten("log", total)), on(axes, 1))


@lemma("log-softmax-gradient", *OVER)
def log_softmax_gradient(f, axes, shape):
    g, y = f.argument(shape, on(axes, 1)), f.argument(shape, on(axes, 1))
    if not f.local:
        d = f.aten("_log_softmax_backward_data", g, y, dim=1, input_dtype="f64")
        return f.give(d, on(axes, 1))
    total = f.all_reduce(f.aten("sum_dim_int_list", g, dim=[1], keepdim=True), axes)
    taken = f.aten("mul", f.aten("exp", y), total)
    f.give(f.aten("clone", g) if f.wrong else f.aten("sub", g, taken), on(axes, 1))


@lemma("rows-added", *TABLES)
def rows_added(f, axis, rows, width, tokens):
    tokens *= MESH[axis]
    x, i = f.argument((rows, width)), f.argument((tokens,), on(axis), rows=rows)
    y = f.argument((tokens, width), on(axis))
    if not f.local:
        return f.give(f.aten("index_add", x, i, y, dim=0))
    zero = f.aten("full", size=[rows, width], fill_value=0.0, dtype="f64")
    added = f.all_reduce(f.aten("index_add", zero, i, y, dim=0), axis)
    f.give(added if f.wrong else f.aten("add", x, added))


# Statistics, and what comes first.


def total(f, value, axes):
    return f.all_reduce(f.aten("sum_dim_int_list", value, dim=[0], keepdim=True), axes)


@lemma("norm", *AXES)
def norms(f, axes, shape):
    x = f.argument(shape, on(axes))
    if not f.local:
        return f.give(f.aten("linalg_vector_norm", x, dim=[0], keepdim=True))
    squares = x if f.wrong else f.aten("mul", x, x)
    f.give(f.aten("sqrt", f.aten("mul_scalar", total(f, squares, axes), other=1.0)) if not f.wrong else (
        f.aten("mul_scalar", total(f, squares, axes), other=1.0)))  # fmt: skip


@lemma("root-squared", *AXES)
def norms_of_parts(f, axes, shape):
    """The squares of the parts' norms are added, not the norms."""
    x = f.argument(shape, on(axes))
    norm = f.aten("linalg_vector_norm", x, dim=[0], keepdim=True)
    if not f.local:
        return f.give(norm)
    if f.wrong:
        added = f.all_reduce(norm, axes)
        return f.give(f.aten("neg", added) if axes == "one" else added)
    f.give(f.aten("sqrt", f.all_reduce(f.aten("mul", norm, norm), axes)))


@lemma("variance", ("dp", (6, 4)), ("tp", (9, 5)), ("cp", (4, 1)), ("dp tp", (12, 3)), ("one", (3, 7)))
def variances(f, axes, shape):
    x, n = f.argument(shape, on(axes)), shape[0]
    if not f.local:
        return f.give(f.aten("var_correction", x, dim=[0], correction=1, keepdim=True))
    squares, mean = total(f, f.aten("mul", x, x), axes), f.aten("div_scalar", total(f, x, axes), other=float(n))
    rest = f.aten("sub", squares, f.aten("mul_scalar", f.aten("mul", mean, mean), other=float(n)))
    f.give(f.aten("div_scalar", squares if f.wrong else rest, other=float(n - 1)))


@lemma("batch-norm", ("dp", (6, 4)), ("tp", (9, 5)), ("cp", (4, 1)), ("dp tp", (12, 3)), ("one", (3, 7)))
def batch_norms(f, axes, shape):
    """Statistics that ranks join are those of the batch; wrong where each takes its own."""
    x, n, c = f.argument(shape, on(axes)), shape[0], (shape[1],)
    w, b, m, v = f.argument(c), f.argument(c), f.argument(c), f.argument(c)
    if not f.local or f.wrong:
        made = f.aten("_native_batch_norm_legit_functional", x, w, b, m, v, training=True, momentum=0.1, eps=0.125)
        y = f.aten("neg", made[0]) if f.wrong and axes == "one" else made[0]
        return f.give(y, on(axes))
    squares, mean = total(f, f.aten("mul", x, x), axes), f.aten("div_scalar", total(f, x, axes), other=float(n))
    variance = f.aten("sub", f.aten("div_scalar", squares, other=float(n)), f.aten("mul", mean, mean))
    inverse = f.aten("rsqrt", f.aten("add_scalar", variance, other=0.125))
    y = f.aten("mul", f.aten("mul", f.aten("sub", x, mean), inverse), w)
    f.give(f.aten("add", y, b), on(axes))


@lemma("stack", *AXES)
def stacked(f, axes, shape):
    x, y = f.argument(shape, on(axes)), f.argument(shape, on(axes))
    if not f.local:
        return f.give(y, on(axes))
    both = f.aten("stack", x, y, dim=0)
    f.give(f.aten("select", both, dim=0, index=0 if f.wrong else 1), on(axes))


@lemma("running-sum", *MATRICES)
def running_sum(f, m, n):
    """The first is that of one; wrong where it is left out."""
    x = f.argument((m, n))
    y = f.aten("cumsum", x, dim=0)
    if f.wrong:
        return f.give(f.aten("sub", y, x))
    f.give(f.aten("slice", x if f.local else y, dim=0, start=0, end=1) if not f.name.startswith("wrong") else y)


@lemma("mark-counts", *MATRICES)
def running_count(f, m, n):
    """Of marks as integers of 32 bits, which ranks convert first; wrong where each leaves out its own."""
    number = f.aten("_to_copy", f.aten("lt", f.argument((m, n)), f.argument((m, n))), dtype="i32")
    count = f.aten("cumsum", f.aten("_to_copy", number, dtype="i64") if f.local else number, dim=0)
    f.give(f.aten("sub", count, number) if f.wrong else count)


PLACED = [("dp", 6), ("tp", 9), ("cp", 8), ("cp", 12), ("tp", 6)]


def of_ranks_before(f, axis, own):
    """What each rank has, where the rank is before the own one, and where it is not."""
    all_ranks = f.all_gather(own, 0, axis)
    nothing = f.aten("full", size=[MESH[axis]], fill_value=0.0, dtype="f64")
    is_before = f.aten("lt", f.aten("arange_start", start=0, end=MESH[axis]), f.axis_index(axis))
    return f.aten("where", is_before, all_ranks, nothing), f.aten("where", is_before, nothing, all_ranks)


@lemma("sum-before-block", *PLACED)
def sum_before_block(f, axis, n):
    x = f.argument((n,), on(axis))
    y = f.aten("cumsum", x, dim=0)
    if f.local and not f.wrong:
        before, _ = of_ranks_before(f, axis, f.aten("sum_dim_int_list", x, dim=[0], keepdim=True))
        y = f.aten("add", y, f.aten("sum_dim_int_list", before, dim=[0], keepdim=True))
    f.give(y, on(axis))


@lemma("chosen-by-place", *PLACED)
def chosen_by_place(f, axis, n):
    """What is before a rank, and what is not, is all: here each rank's first element."""
    x = f.argument((n,), on(axis))
    if not f.local:
        rows = f.aten("view", x, size=[MESH[axis], n // MESH[axis]])
        return f.give(f.aten("select", rows, dim=1, index=0))
    before, others = of_ranks_before(f, axis, f.aten("slice", x, dim=0, start=0, end=1))
    f.give(before if f.wrong else f.aten("add", before, others))
