"""For each lemma of the prover, by its name: functions that are equal since it holds, in at least five shapes, and what
looks much like them and is something else.

Each is written once, for one device and for ranks: `f.local` says for which, `f.wrong` asks for the wrong one. Shapes are
uneven (3 ranks), of size 1, and merged: several dimensions, or axes, in one.
"""

from lemma_programs import MESH

CASES = {}


def lemma(name, *shapes):
    """Says which lemma the function is of: it is called with each of the shapes."""
    assert len(shapes) >= 5, name

    def add(write):
        CASES[name] = (write, shapes)
        return write

    return add


MATRICES = [(6, 4), (3, 5), (12, 1), (24, 7), (6, 1)]
AXES = [("dp", (6, 4)), ("tp", (9, 5)), ("cp", (4, 1)), ("dp tp", (12, 3)), ("one", (1, 7))]


def on(axes, dim=0):
    return " ".join(f"{axis}={dim}" for axis in axes.split())


def terms(axes):
    return on(axes, "P")


# Sums and conditions.


@lemma("condition-holds", ("dp", 8, 3), ("tp", 9, 2), ("cp", 4, 5), ("one", 4, 1), ("dp", 2, 1))
def circle(f, axis, m, n):
    """What goes around a circle is there again, whatever the place."""
    x = f.argument((m, n), on(axis))
    if not f.local:
        return f.give(f.aten("neg", x), on(axis))
    turns = MESH[axis] - 1 if f.wrong else MESH[axis]
    y = x
    for _ in range(turns):
        y = f.shift(y, axis, 1)
    f.give(f.aten("neg", y), on(axis))


def table(f, axis, rows, width, tokens, *, lowest=0, more=0, filled=0, zeroed=True, zeroed_less=False):
    """Rows of a table of which each rank has a part: what is not as it is by default makes it wrong."""
    w, i = f.argument((rows, width), on(axis)), f.argument((tokens,), rows=rows)
    if not f.local:
        return f.give(f.aten("embedding", w, i))
    own = rows // MESH[axis]
    first = f.aten("mul_scalar", f.axis_index(axis), other=own)
    place = f.aten("sub", i, first)
    outside = f.aten("logical_or", f.aten("lt_scalar", place, other=lowest),
                     f.aten("ge_scalar", place, other=own + more))  # fmt: skip
    found = f.aten("embedding", w, f.aten("masked_fill_scalar", place, outside, value=filled))
    if zeroed_less:
        outside = f.aten("ge_scalar", place, other=own)
    if zeroed:
        found = f.aten("masked_fill_scalar", found, f.aten("unsqueeze", outside, dim=-1), value=0.0)
    f.give(f.all_reduce(found, axis))


TABLES = [("dp", 8, 3, 5), ("tp", 6, 2, 4), ("cp", 12, 1, 24), ("dp", 4, 3, 1), ("tp", 12, 5, 9)]


def gradient(f, axis, rows, width, tokens, change=0):
    """The gradient of a table of which each rank has a part: what is outside goes to a row that is cut off."""
    g, i = f.argument((tokens, width)), f.argument((tokens,), rows=rows)
    if not f.local:
        whole = f.aten("embedding_dense_backward", g, i, num_weights=rows, padding_idx=-1, scale_grad_by_freq=False)
        return f.give(whole, on(axis))
    own = rows // MESH[axis]
    place = f.aten("sub", i, f.aten("mul_scalar", f.axis_index(axis), other=own))
    outside = f.aten("logical_or", f.aten("lt_scalar", place, other=0), f.aten("ge_scalar", place, other=own))
    skipped = f.aten("masked_fill_scalar", place, outside, value=own - change)
    back = f.aten("embedding_dense_backward", g, skipped, num_weights=own + 1, padding_idx=own, scale_grad_by_freq=False)
    f.give(f.aten("slice", back, dim=0, start=0, end=own), on(axis))


def own_places(f, axis, rows, width):
    """Each place has a row of the table, and one rank has the place: wrong where all have the first."""
    g = f.argument((rows, width), on(axis))
    own = rows // f.ranks(axis)
    i = f.aten("arange_start", start=0, end=own)
    if f.local and not f.wrong:
        i = f.aten("add", i, f.aten("mul_scalar", f.axis_index(axis), other=own))
    d = f.aten("embedding_dense_backward", g, i, num_weights=rows, padding_idx=-1, scale_grad_by_freq=False)
    f.give(f.all_reduce(d, axis))


@lemma("condition-solved", *TABLES)
def place_of_a_row(f, axis, rows, width, _):
    own_places(f, axis, rows, width)


@lemma("condition-chosen", *TABLES)
def rank_of_a_row(f, axis, rows, width, _):
    own_places(f, axis, rows, width)


@lemma("sum-of-unused", *AXES)
def same_on_all(f, axes, shape):
    """The sum over ranks of what all have."""
    x = f.argument(shape)
    y = f.all_reduce(x, axes)
    f.give(f.aten("div_scalar", y, other=float(f.ranks(*axes.split())) * (3 if f.wrong else 1)))


@lemma("merged-digits", *AXES)
def sum_of_parts(f, axes, shape):
    x = f.argument(shape, on(axes))
    y = f.aten("sum_dim_int_list", x, dim=[1 if f.wrong else 0], keepdim=False)
    y = f.aten("sum_dim_int_list", y, dim=[0], keepdim=False)
    if f.wrong:
        y = f.aten("mul", y, y)
    f.give(f.all_reduce(y, axes))


@lemma("sum-inwards", *AXES)
def sum_of_products(f, axes, shape):
    """A row-parallel layer; wrong where a function that is not linear comes before the sum."""
    m, n = shape
    x, w = f.argument((n, m), on(axes, 1)), f.argument((m, n), on(axes))
    y = f.aten("mm", x, w)
    if f.wrong:
        f.give(f.aten("div_scalar", f.all_reduce(f.aten("tanh", y), axes), other=0.9 if axes == "one" else 1.0))
    else:
        f.give(f.aten("tanh", f.all_reduce(y, axes)))


@lemma("rows-of-part", *TABLES)
def rows_of_part(f, axis, rows, width, tokens):
    """A part of the gradient's rows, of all tokens."""
    gradient(f, axis, rows, width, tokens, change=int(f.wrong))


@lemma("like-terms", *MATRICES)
def like_terms(f, m, n):
    x, y = f.argument((m, n), "tp=0"), f.argument((m, n), "tp=0")
    if f.local:
        x = f.aten("sub", f.aten("add", x, y), f.aten("add", y, y) if f.wrong else y)
    f.give(f.aten("tanh", x), "tp=0")


@lemma("joined-intervals", ("dp", 8, 3), ("tp", 9, 2), ("cp", 4, 5), ("cp", 8, 1), ("tp", 3, 1))
def there_and_back(f, axis, m, n):
    x = f.argument((m, n), on(axis))
    y = x
    if f.local:
        y = f.shift(f.shift(x, axis, 1), axis, 1 if f.wrong and axis != "dp" else -1)
        y = f.shift(y, axis, 1) if f.wrong and axis == "dp" else y
    f.give(f.aten("tanh", y), on(axis))


@lemma("places-add", *TABLES)
def places_add(f, axis, rows, width, tokens):
    """A place beside a place."""
    w = f.argument((rows, width))
    i = f.aten("arange_start", start=1, end=rows)
    if f.local:
        i = f.aten("add_scalar", f.aten("arange_start", start=0, end=rows - 1), other=0 if f.wrong else 1)
    f.give(f.aten("embedding", w, i))


@lemma("factor-of-linear", *AXES)
def factor_of_linear(f, axes, shape):
    x, y = f.argument(shape, on(axes)), f.argument(shape, on(axes))
    if f.local:
        product = f.aten("mul_scalar", f.aten("mul", x, y), other=4.0 if f.wrong else 6.0)
    else:
        product = f.aten("mul", f.aten("mul_scalar", x, other=2.0), f.aten("mul_scalar", y, other=3.0))
    f.give(product, on(axes))


@lemma("product-commutes", *AXES)
def product_commutes(f, axes, shape):
    x, y, z = (f.argument(shape, on(axes)) for _ in range(3))
    t = f.aten("tanh", x)
    product = f.aten("mul", y, t) if f.local else f.aten("mul", t, y)
    f.give(f.aten("mul", product, x if f.wrong else z), on(axes))


@lemma("product-with-one", *AXES)
def product_with_one(f, axes, shape):
    x = f.argument(shape, on(axes))
    if f.local:
        one = f.aten("full", size=list(x.shape), fill_value=2.0 if f.wrong else 1.0, dtype="f64")
        x = f.aten("mul", x, one)
    f.give(f.aten("tanh", x), on(axes))


@lemma("linear-of-zero", *AXES)
def linear_of_zero(f, axes, shape):
    x, y = f.argument(shape, on(axes)), f.argument(shape, on(axes))
    if f.local:
        zero = f.aten("full", size=list(x.shape), fill_value=1.0 if f.wrong else 0.0, dtype="f64")
        y = f.aten("add", y, f.aten("mul", x, zero))
    f.give(f.aten("tanh", y), on(axes))


# Arithmetic, constants, and parts of tensors.


@lemma("copy", *AXES)
def copy(f, axes, shape):
    """A copy is its operand, but in float32 it is another number."""
    x = f.argument(shape, on(axes))
    if f.wrong:
        x = f.aten("_to_copy", f.aten("_to_copy", x, dtype="f32"), dtype="f64")
    elif f.local:
        x = f.aten("clone", x)
    f.give(x, on(axes))


@lemma("reshape", ((6, 4), (2, 12)), ((9, 4), (3, 3, 4)), ((8, 3), (4, 6)), ((12, 2), (2, 3, 4)), ((4, 2, 3), (8, 3)))
def reshape(f, shape, new):
    """Elements keep their order, whatever is between; wrong where they are transposed."""
    x = f.argument(shape)
    if f.wrong:
        y = f.aten("permute", x, dims=list(reversed(range(len(shape)))))
        y = f.aten("view", y, size=list(new))
    else:
        y = f.aten("view", x, size=[x.tensors[0].numel()]) if f.local else x
        y = f.aten("view", y, size=list(new))
    f.give(f.aten("tanh", y))


@lemma("slice", ("dp", (8, 4)), ("tp", (6, 5)), ("cp", (4, 7)), ("one", (1, 4)), ("tp", (3, 9)))
def slices(f, axis, shape):
    x = f.argument(shape, on(axis))
    n = shape[1]
    if not f.local:
        return f.give(f.aten("slice", x, dim=1, start=2, end=n), on(axis))
    rest = f.aten("slice", x, dim=1, start=0 if f.wrong else 1, end=n - f.wrong)
    f.give(f.aten("slice", rest, dim=1, start=1, end=n - 1), on(axis))


@lemma("select", ("dp", (8, 4)), ("tp", (6, 5)), ("cp", (4, 7)), ("one", (1, 4)), ("tp", (3, 2)))
def selects(f, axis, shape):
    x = f.argument(shape, on(axis))
    if not f.local:
        return f.give(f.aten("select", x, dim=1, index=shape[1] - 1), on(axis))
    last = f.aten("slice", x, dim=1, start=shape[1] - 2, end=shape[1])
    f.give(f.aten("select", last, dim=1, index=0 if f.wrong else 1), on(axis))


@lemma("sum", *AXES)
def sums(f, axes, shape):
    x, y = f.argument(shape, on(axes)), f.argument(shape, on(axes))
    if f.local:
        value = f.aten("add", x, f.aten("mul_scalar", y, other=2.0 if f.wrong else -2.0))
    else:
        value = f.aten("sub", x, y, alpha=2)
    f.give(value, on(axes))


@lemma("product", *AXES)
def products(f, axes, shape):
    """Of the gradient of a weight each rank adds up its rows."""
    m, n = shape
    x, g, other = f.argument((m, n), on(axes)), f.argument((m, 3), on(axes)), f.argument((m, 3), on(axes))
    f.give(f.all_reduce(f.aten("mm", f.aten("t", x), other if f.wrong else g), axes))


@lemma("bias-once", *AXES)
def bias_once(f, axes, shape):
    m, n = shape
    b, x, w = f.argument((5, n)), f.argument((5, m), on(axes, 1)), f.argument((m, n), on(axes))
    if not f.local:
        return f.give(f.aten("addmm", b, x, w))
    if f.wrong:
        added = f.all_reduce(f.aten("addmm", b, x, w), axes)
        return f.give(added if axes != "one" else f.aten("add", added, b))
    f.give(f.aten("add", f.all_reduce(f.aten("mm", x, w), axes), b))


@lemma("quotient", *AXES)
def quotients(f, axes, shape):
    """A sum of numerators may be taken apart, one of denominators not."""
    x, y = f.argument(shape, on(axes)), f.aten("exp", f.argument(shape, on(axes)))
    add = lambda value: f.aten("sum_dim_int_list", value, dim=[0], keepdim=True)  # noqa: E731
    if f.wrong:
        one = f.aten("full", size=[1, shape[1]], fill_value=2.0 if axes == "one" else 1.0, dtype="f64")
        return f.give(f.all_reduce(f.aten("div", one, add(y)), axes))
    if not f.local and f.name.startswith("wrong"):
        one = f.aten("full", size=[1, shape[1]], fill_value=1.0, dtype="f64")
        return f.give(f.aten("div", one, add(y)))
    by = f.argument((1, shape[1]))
    f.give(f.all_reduce(f.aten("div", add(x), by), axes))


@lemma("constant", *AXES)
def constants(f, axes, shape):
    x = f.argument(shape, on(axes))
    if f.local:
        filled = f.aten("full", size=list(x.shape), fill_value=0.25 if f.wrong else 0.5, dtype="f64")
        return f.give(f.aten("add", x, filled), on(axes))
    f.give(f.aten("add_scalar", x, other=0.5), on(axes))


@lemma("range", *TABLES)
def ranges(f, axis, rows, width, tokens):
    w = f.argument((rows, width))
    if not f.local:
        return f.give(f.aten("slice", w, dim=0, start=1, end=rows))
    i = f.aten("arange_start", start=1 - f.wrong, end=rows - f.wrong)
    f.give(f.aten("embedding", w, i))


# Ops by their sharding rules.


@lemma("whole-dims", ("dp", (4, 6)), ("tp", (2, 9)), ("cp", (1, 8)), ("dp tp", (3, 12)), ("one", (4, 5)))
def whole_dims(f, axes, shape):
    """A softmax needs its dimension whole."""
    x = f.argument(shape, on(axes, 1))
    if f.wrong:
        y = f.aten("_softmax", x, dim=1, half_to_float=False)
        return f.give(f.aten("neg", y) if axes == "one" else y, on(axes, 1))
    whole = f.all_gather(x, 1, axes)
    f.give(f.aten("_softmax", whole, dim=1, half_to_float=False))


@lemma("mean", *AXES)
def means(f, axes, shape):
    x = f.argument(shape, on(axes))
    if not f.local:
        return f.give(f.aten("mean_dim", x, dim=[0], keepdim=True))
    total = f.all_reduce(f.aten("sum_dim_int_list", x, dim=[0], keepdim=True), axes)
    f.give(f.aten("div_scalar", total, other=float(shape[0] + (1 if f.wrong else 0))))


@lemma("move", *AXES)
def moves(f, axes, shape):
    x = f.argument(shape, on(axes))
    if not f.local:
        return f.give(x, on(axes))
    back = f.aten("t", f.aten("t", x))
    f.give(f.aten("tanh", back) if f.wrong else back, on(axes))


@lemma("conversion-is-op", *AXES)
def conversions(f, axes, shape):
    """A sum in float32 is another one."""
    x = f.argument(shape, on(axes))
    add = lambda value: f.all_reduce(f.aten("sum_dim_int_list", value, dim=[0], keepdim=True), axes)  # noqa: E731
    if not f.wrong:
        return f.give(f.aten("_to_copy", add(x), dtype="f32"))
    short = f.aten("mul_scalar", f.aten("_to_copy", x, dtype="f32"), other=1.0)
    f.give(add(short))


@lemma("loss-by-count", *AXES)
def loss_by_count(f, axes, shape):
    g, x, y = f.argument(()), f.argument(shape, on(axes)), f.argument(shape, on(axes))
    if not f.local:
        return f.give(f.aten("mse_loss_backward", g, x, y, reduction=1), on(axes))
    count = float(shape[0] * shape[1]) * (2 if f.wrong else 1)
    f.give(f.aten("mse_loss_backward", f.aten("div_scalar", g, other=count), x, y, reduction=2), on(axes))


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
    """Each rank has tokens of its own, and none counts at the padding row."""
    tokens *= MESH[axis]
    g, i = f.argument((tokens, width), on(axis)), f.argument((tokens,), on(axis), rows=rows)
    d = f.aten("embedding_dense_backward", g, i, num_weights=rows, padding_idx=1 + f.wrong, scale_grad_by_freq=False)
    f.give(f.all_reduce(d, axis))


@lemma("zero-where-marked", *TABLES)
def zero_where_marked(f, *sizes):
    """What is looked up is right, and only some of what is not the rank's is set to zero."""
    table(f, *sizes, zeroed_less=f.wrong)


CLASSES = [("dp", 8, 5), ("tp", 9, 4), ("cp", 4, 7), ("dp tp", 12, 2), ("one", 3, 3)]


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
    x, i, y = f.argument((rows, width)), f.argument((tokens,), on(axis), rows=rows), f.argument((tokens, width), on(axis))
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
