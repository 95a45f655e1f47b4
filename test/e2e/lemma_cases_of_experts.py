"""Lemmas of rows in an order that data decide: counts, numbers, sorted rows, and rows that ranks exchange: see
`lemma_cases.py`."""

import math
from types import SimpleNamespace

from lemma_cases import AXES, lemma, on
from lemma_programs import MESH


def choices(f, rows, experts, where=""):
    """An expert for each row, by each op that chooses one."""
    scores = f.argument((rows, experts), where)
    if experts % 2:
        return f.aten("argmax", scores, dim=-1)
    if experts % 4:
        return f.aten("max_dim", scores, dim=1)[1]
    return f.aten("view", f.aten("topk", scores, k=1)[1], size=[-1])


COUNTS = [("dp", 8, 4), ("tp", 9, 5), ("cp", 12, 3), ("dp", 2, 2), ("one", 7, 6)]


def bins(f, keys, experts, on=""):
    return f.aten("histc", f.aten("_to_copy", keys, dtype="f64"), bins=experts, max=experts)


@lemma("counted", *COUNTS)
def counted(f, axis, rows, experts):
    """How many of each, by the bins of an interval, or added up by each rank for its own rows."""
    keys = choices(f, rows, experts, on(axis))
    if not f.local:
        return f.give(f.aten("_to_copy", bins(f, keys, experts), dtype="i64"))
    ones = f.aten("full", size=[rows // MESH[axis]], fill_value=1 + f.wrong, dtype="i64")
    counts = f.aten("full", size=[experts], fill_value=0, dtype="i64")
    f.give(f.all_reduce(f.aten("scatter_add", counts, keys, ones, dim=0), axis))


@lemma("count-converted", *COUNTS)
def count_converted(f, axis, rows, experts):
    """A real number of rows is their number."""
    keys = choices(f, rows, experts, on(axis))
    if not f.local:
        return f.give(f.aten("bincount", keys, minlength=experts))
    counts = f.aten("_to_copy", bins(f, keys, experts), dtype="i64")
    f.give(f.aten("clone", counts) if f.wrong and MESH[axis] > 1 else f.all_reduce(counts, axis))


PARTS = [(6, 4), (3, 5), (12, 2), (9, 7), (2, 2), (5, 0)]


@lemma("parts-joined", *PARTS)
def parts_joined(f, rows, more):
    x = f.aten("bincount", choices(f, 3 * rows, rows + more), minlength=rows + more)
    if not f.local:
        return f.give(f.aten("mul_scalar", x, other=2))
    first, rest = (f.aten("slice", x, dim=0, start=start, end=end) for start, end in ((0, rows), (rows, rows + more)))
    joined = f.aten("cat", rest, first, dim=0) if f.wrong else f.aten("cat", first, rest, dim=0)
    f.give(f.aten("mul_scalar", joined, other=2))


@lemma("taken-at-places", *[(axes, shape) for axes, shape in AXES])
def taken_at_places(f, axes, shape):
    """A rank's part, by its places."""
    x = f.argument(shape, rows=100)
    if not f.local:
        return f.give(f.aten("mul_scalar", x, other=3), on(axes))
    own = shape[0] // f.ranks(*axes.split())
    places = f.aten("arange_start", start=0, end=own)
    first = f.aten("mul_scalar", f.axis_index(axes), other=own)
    if not f.wrong:
        places = f.aten("add", places, first)
    f.give(f.aten("mul_scalar", f.aten("index_select", x, places, dim=0), other=3), on(axes))


@lemma("divided-place", (12, 4), (6, 3), (4, 1), (8, 8), (15, 5))
def divided_place(f, count, by):
    if not f.local:
        places = f.aten("arange_start", start=0, end=count)
        return f.give(f.aten("floor_divide_scalar", places, other=by))
    major = f.aten("arange_start", start=0, end=count // by)
    each = f.aten("expand", f.aten("unsqueeze", major, dim=-1), size=[count // by, by])
    each = f.aten("clone", each, memory_format="contiguous_format")
    f.give(f.aten("add_scalar", f.aten("view", each, size=[count]), other=int(f.wrong)))


# Rows sorted, worked on and put back.

SORTED = [(8, 4, 3), (9, 5, 1), (12, 2, 7), (6, 6, 2), (15, 3, 4)]


def put(f, rows, places):
    return f.aten("index_put", f.aten("mul_scalar", rows, other=0.0), places, rows)


@lemma("sorted-rows", *SORTED)
def sorted_rows(f, rows, experts, width):
    """What a row's place in the order takes is put back where it was."""
    keys, x = choices(f, rows, experts), f.argument((rows, width))
    if f.local:
        order = f.aten("sort_stable", keys, stable=True)[1]
        x = put(f, f.aten("index", x, order), order)
    f.give(f.aten("mul_scalar", x, other=2.0 + f.wrong))


@lemma("put-back", *SORTED)
def put_back(f, rows, experts, width):
    keys, others, x = choices(f, rows, experts), choices(f, rows, experts), f.argument((rows, width))
    if f.local:
        order, other = (f.aten("sort_stable", each, stable=True)[1] for each in (keys, others))
        x = put(f, f.aten("index", x, order), other if f.wrong else order)
    f.give(f.aten("mul_scalar", x, other=2.0))


@lemma("row-by-itself", *SORTED)
def row_by_itself(f, rows, experts, width):
    keys, x = choices(f, rows, experts), f.argument((rows, width))
    if not f.local:
        return f.give(f.aten("tanh", x))
    order = f.aten("sort_stable", keys, stable=True)[1]
    f.give(put(f, f.aten("relu" if f.wrong else "tanh", f.aten("index", x, order)), order))


WIDE = [("dp", 6, 4, 2), ("tp", 5, 3, 3), ("cp", 4, 2, 1), ("dp", 3, 5, 4), ("tp", 8, 6, 1)]


@lemma("row-on-ranks", *WIDE)
def row_on_ranks(f, axis, rows, experts, width):
    """Ranks put together what they have of each row, add it up, and take their part again; wrong where each has put the
    rows in an order of its own."""
    ranks = MESH[axis]
    keys, others = choices(f, rows, experts), choices(f, ranks * rows, experts, on(axis))
    x = f.argument((rows, ranks * width), on(axis, 1))
    if not f.local:
        f.give(f.aten("tanh", x), on(axis, 1))
        return f.give(f.aten("sum_dim_int_list", x, dim=[1], keepdim=True))
    order = f.aten("sort_stable", others if f.wrong else keys, stable=True)[1]
    sorted_rows = f.aten("index", x, order)
    whole = f.aten("tanh", f.all_gather(sorted_rows, 1, axis))
    part = f.aten("div_scalar", f.reduce_scatter(whole, 1, axis), other=float(ranks))
    f.give(put(f, part, order), on(axis, 1))
    total = f.all_reduce(f.aten("sum_dim_int_list", sorted_rows, dim=[1], keepdim=True), axis)
    f.give(put(f, total, order))


def ends_of(f, keys, experts):
    counts = f.aten("bincount", keys, minlength=experts)
    return f.aten("_to_copy", f.aten("cumsum", counts, dim=0), dtype="i32")


def multiply(f, keys, experts, x, w, *, ends=None):
    """Each row by its expert's matrix."""
    order = f.aten("sort_stable", keys, stable=True)[1]
    ends = ends_of(f, keys, experts) if ends is None else ends
    return put(f, f.aten("_grouped_mm", f.aten("index", x, order), w, ends), order)


@lemma("group-ends", *SORTED)
def group_ends(f, rows, experts, width):
    keys, x, w = choices(f, rows, experts), f.argument((rows, width)), f.argument((experts, width, 3))
    ends = None
    if f.wrong:
        # The greatest number of all, for each but the last: those before have no rows.
        ends = f.aten("_to_copy", f.aten("full", size=[experts], fill_value=rows, dtype="i64"), dtype="i32")
    f.give(multiply(f, keys, experts, x, w, ends=ends))


@lemma("grouped-rows", *SORTED)
def grouped_rows(f, rows, experts, width):
    """By its own expert, not by just any."""
    keys, others = choices(f, rows, experts), choices(f, rows, experts)
    x, w = f.argument((rows, width)), f.argument((experts, width, 3))
    f.give(multiply(f, others if f.wrong else keys, experts, x, w))


# Sorted rows of which each rank has a part.

PARTED = [("dp", 4, 4, 3), ("tp", 3, 5, 1), ("cp", 2, 2, 7), ("dp tp", 2, 6, 2), ("dp", 6, 3, 4)]


def own_part(f, axes, own, order, *, first=True):
    """What lies at the rank's own places of the order that all ranks have."""
    places = f.aten("arange_start", start=0, end=own)
    if first:
        places = f.aten("add", places, f.aten("mul_scalar", f.axis_index(axes), other=own))
    return f.aten("index_select", order, places, dim=0)


@lemma("part-of-sorted", *PARTED, ("dp", 4, 2, 3, True), ("tp", 3, 3, 2, True), ("dp", 4, 4, 3, False, True))
def part_of_sorted(f, axes, own, experts, width, masked=False, summed=False):
    """Each rank multiplies the rows at its own places, by groups that end there or beside them. Wrong are the places of
    another rank, zeros behind as many as there are rows of the expert with the rank's number, or a mean of the rows that
    ranks have at one place each, which are others."""
    ranks = math.prod(MESH[axis] for axis in axes.split())
    keys, x = choices(f, ranks * own, experts, on(axes)), f.argument((ranks * own, width), on(axes))
    w, y = f.argument((experts, width, 3)), f.argument((ranks * own, 3), on(axes))
    if not f.local:
        f.give(multiply(f, keys, experts, x, w), on(axes))
        order = f.aten("sort_stable", keys, stable=True)[1]
        left = f.aten("t", f.aten("index", x, order))
        return f.give(f.aten("_grouped_mm", left, f.aten("index", y, order), ends_of(f, keys, experts)))
    keys, x, y = (f.all_gather(value, 0, axes) for value in (keys, x, y))
    order = own_part(f, axes, own, f.aten("sort_stable", keys, stable=True)[1], first=masked or summed or not f.wrong)
    ends = f.aten("sub", f.aten("cumsum", f.aten("bincount", keys, minlength=experts), dim=0),
                  f.aten("mul_scalar", f.axis_index(axes), other=own))  # fmt: skip
    ends = f.aten("_to_copy", f.aten("clamp", ends, min=0, max=own), dtype="i32")
    rows = f.aten("index", x, order)
    if masked and f.wrong:
        number = f.aten("view", f.axis_index(axes), size=[1])
        count = f.aten("index_select", f.aten("bincount", keys, minlength=experts), number, dim=0)
        behind = f.aten("ge", f.aten("arange_start", start=0, end=own), count)
        rows = f.aten("masked_fill_scalar", rows, f.aten("unsqueeze", behind, dim=-1), value=0.0)
    if summed and f.wrong:
        rows = f.aten("div_scalar", f.all_gather(f.reduce_scatter(rows, 0, axes), 0, axes), other=float(ranks))
    zeros = f.aten("full", size=[ranks * own, 3], fill_value=0.0, dtype="f64")
    made = f.aten("index_put", zeros, order, f.aten("_grouped_mm", rows, w, ends))
    f.give(f.reduce_scatter(made, 0, axes), on(axes))
    made = f.aten("_grouped_mm", f.aten("t", rows), f.aten("index", y, order), ends)
    f.give(f.all_reduce(made, axes))


@lemma("chosen-once", *PARTED)
def chosen_once(f, axes, own, experts, width):
    """Counts of the parts, added up, are those of all rows; and so are sums."""
    ranks = math.prod(MESH[axis] for axis in axes.split())
    keys, x = choices(f, ranks * own, experts, on(axes)), f.argument((ranks * own, width), on(axes))
    if not f.local:
        f.give(f.aten("bincount", keys, minlength=experts))
        return f.give(f.aten("sum_dim_int_list", f.aten("tanh", x), dim=[0]))
    keys, x = f.all_gather(keys, 0, axes), f.all_gather(x, 0, axes)
    sorted_keys, order = f.aten("sort_stable", keys, stable=True)
    own_keys, order = (own_part(f, axes, own, value, first=not f.wrong) for value in (sorted_keys, order))
    f.give(f.all_reduce(f.aten("bincount", own_keys, minlength=experts), axes))
    rows = f.aten("tanh", f.aten("index", x, order))
    f.give(f.all_reduce(f.aten("sum_dim_int_list", rows, dim=[0]), axes))


SWAPPED = [("dp tp", 2, 4, 6), ("tp dp", 1, 3, 6), ("cp dp", 1, 2, 8), ("dp cp", 3, 5, 16), ("tp cp", 1, 3, 12)]


@lemma("rows-for-columns", *SWAPPED)
def rows_for_columns(f, axes, own, experts, width):
    """Each rank makes something of a part of all rows, then has its own rows again; wrong where parts come in another order."""
    ranks = math.prod(MESH[axis] for axis in axes.split())
    keys, x = choices(f, ranks * own, experts, on(axes)), f.argument((ranks * own, width), on(axes))
    others = " ".join(reversed(axes.split())) if f.wrong else axes
    if not f.local:
        f.give(f.aten("tanh", x), on(others, 1))
        return f.give(f.aten("tanh", x), on(axes))
    keys, x = f.all_gather(keys, 0, axes), f.all_gather(x, 0, axes)
    all_order = f.aten("sort_stable", keys, stable=True)[1]
    order = own_part(f, axes, own, all_order)
    rows = f.aten("index", x, order)
    f.give(put(f, f.aten("tanh", f.all_to_all(rows, others, split=1, concat=0)), all_order), on(others, 1))
    made = f.all_to_all(f.aten("tanh", f.all_to_all(rows, axes, split=1, concat=0)), axes, split=0, concat=1)
    zeros = f.aten("full", size=[ranks * own, width], fill_value=0.0, dtype="f64")
    f.give(f.reduce_scatter(f.aten("index_put", zeros, order, made), 0, axes), on(axes))


# Rows turned round until those of the rank's experts come first.

TURNED = [("dp", 8, 2, 3), ("tp", 5, 1, 2), ("cp", 9, 2, 1), ("dp tp", 7, 1, 4), ("tp", 6, 3, 2), ("dp", 6, 3, 2, "tp"), ("tp", 4, 1, 3, "dp"), ("tp", 3, 1, 2)]


def turned(f, axes, rows, per_rank, width, of="", *, back=-1, fills=True):
    """Each rank multiplies the rows of its experts, of all rows or of its part of them along `of`. Without `fills` zeros are behind
    all rows, or behind as many columns, where there are as many of these."""
    ranks = math.prod(MESH[axis] for axis in axes.split())
    experts, count = ranks * per_rank, rows * (MESH[of] if of else 1)
    keys, x, y = choices(f, count, experts, on(of)), f.argument((count, width), on(of)), f.argument((count, 3), on(of))
    w = f.argument((experts, width, 3), on(axes))
    if not f.local:
        f.give(multiply(f, keys, experts, x, w), on(of))
        order = f.aten("sort_stable", keys, stable=True)[1]
        left = f.aten("t", f.aten("index", x, order))
        return f.give(f.aten("_grouped_mm", left, f.aten("index", y, order), ends_of(f, keys, experts)), on(axes))
    places, rank = f.aten("arange_start", start=0, end=rows), f.axis_index(axes)
    if of:
        keys, x, y = (f.all_gather(value, 0, of) for value in (keys, x, y))
        order = own_part(f, of, rows, f.aten("sort_stable", keys, stable=True)[1])
        ends = f.aten("sub", f.aten("cumsum", f.aten("bincount", keys, minlength=experts), dim=0),
                      f.aten("mul_scalar", f.axis_index(of), other=rows))  # fmt: skip
        ends = f.aten("_to_copy", f.aten("clamp", ends, min=0, max=rows), dtype="i32")
    else:
        order, ends = f.aten("sort_stable", keys, stable=True)[1], ends_of(f, keys, experts)
    nothing = f.aten("full", size=[1], fill_value=0, dtype="i32")
    begins = f.aten("cat", nothing, f.aten("slice", ends, dim=0, start=0, end=experts - 1), dim=0)
    numbers = f.aten("add", f.aten("arange_start", start=0, end=per_rank), f.aten("mul_scalar", rank, other=per_rank))
    begin = f.aten("index_select", begins, f.aten("slice", numbers, dim=0, start=0, end=1), dim=0)
    own_ends = f.aten("sub", f.aten("index_select", ends, numbers, dim=0), begin)
    turn = f.aten("remainder_scalar", f.aten("add", places, begin), other=rows)
    first, left, right = f.aten("index", x, order), f.aten("t", f.aten("index", x, order)), f.aten("index", y, order)
    made = f.aten("_grouped_mm", f.aten("index_select", first, turn, dim=0), w, own_ends)
    if fills or rows == 3:
        here = f.aten("slice", own_ends, dim=0, start=per_rank - 1, end=per_rank)
    else:
        here = f.aten("full", size=[1], fill_value=rows, dtype="i32")
    behind = f.aten("unsqueeze", f.aten("ge", places, here), dim=int(fills or rows != 3))
    made = f.aten("masked_fill_scalar", made, behind, value=0.0)
    turn_back = f.aten("remainder_scalar", f.aten("add" if back > 0 else "sub", places, begin), other=rows)
    made = f.all_reduce(f.aten("index_select", made, turn_back, dim=0), axes)
    if of:
        zeros = f.aten("full", size=[count, 3], fill_value=0.0, dtype="f64")
        f.give(f.reduce_scatter(f.aten("index_put", zeros, order, made), 0, of), on(of))
    else:
        f.give(put(f, made, order))
    left, right = f.aten("index_select", left, turn, dim=1), f.aten("index_select", right, turn, dim=0)
    gradient = f.aten("_grouped_mm", left, right, own_ends)
    f.give(f.all_reduce(gradient, of) if of else gradient, on(axes))


@lemma("turned-rows", *TURNED)
def turned_rows(f, *sizes):
    """Turned back the same way, not on."""
    turned(f, *sizes, back=1 if f.wrong else -1)


@lemma("zeros-behind", *TURNED)
def zeros_behind(f, *sizes):
    """What lies behind a rank's last group is anything: zeros must fill all of it."""
    turned(f, *sizes, fills=not f.wrong)


# Rows that ranks exchange.

EXCHANGED = [("dp", 4, 2, 3), ("tp", 2, 1, 2), ("cp", 3, 2, 1), ("dp", 2, 3, 4), ("tp", 5, 2, 2)]
OF_PARTS = [("dp", 4, 2, 3, True), ("tp", 2, 3, 2, True), ("tp", 4, 3, 1, True), ("dp", 3, 3, 4, True), ("tp", 5, 2, 2, True)]


def at_numbers(f, axis, keys, own, per_part, of_part=False, *, room=None, **wrong):
    """How a rank's rows, or those of its part of all, get to the ranks of their experts, where they lie at their numbers,
    and back; the ends of experts' rows there, and where no row lies."""
    ranks = MESH[axis]
    experts, rows = ranks * per_part, ranks * own
    room = room or rows
    rank = f.axis_index(axis)

    def zeros(*size):
        return f.aten("full", size=list(size), fill_value=0, dtype="i64")

    def behind(value, dim, start, end, size):
        """Shifted by one along a dimension, a zero first."""
        if end == 0:
            return zeros(*size)
        return f.aten("cat", zeros(*size), f.aten("slice", value, dim=dim, start=start, end=end), dim=dim)

    # Numbers.
    ones = f.aten("full", size=[own], fill_value=1, dtype="i64")
    counts = f.aten("scatter_add", zeros(experts), keys, ones, dim=0)
    total = f.all_reduce(counts, axis)
    by_part = f.aten("view", f.aten("cumsum", total, dim=0), size=[ranks, per_part])
    last = f.aten("slice", by_part, dim=1, start=per_part - 1, end=per_part)
    in_part = f.aten("sub", by_part, behind(last, 0, 0, ranks - 1, (1, 1)))
    first = f.aten("view", behind(in_part, 1, 0, per_part - 1, (ranks, 1)), size=[experts])
    all_counts = f.all_gather(f.aten("unsqueeze", counts, dim=0), 0, axis)
    before = f.aten("lt", f.aten("arange_start", start=0, end=ranks), rank)
    earlier = f.aten("where", f.aten("unsqueeze", before, dim=-1), all_counts, zeros())
    shift = f.aten("add", f.aten("sum_dim_int_list", earlier, dim=[0]), counts)
    shift = f.aten("sub", shift, f.aten("cumsum", counts, dim=0))
    if not wrong.get("no_first"):
        shift = f.aten("add", shift, first)
    expert, order = f.aten("sort_stable", keys, stable=True)
    place = f.aten("add", f.aten("gather", shift, expert, dim=0), f.aten("arange_start", start=0, end=own))
    part = f.aten("floor_divide_scalar", expert, other=per_part)
    number = f.aten("add", place, f.aten("mul_scalar", part, other=room))
    numbers = f.aten("scatter_src", number, order, number, dim=0)

    if of_part:
        # Not the rank's own rows, but those at its places of the order of all.
        keys, numbers = (f.all_gather(value, 0, axis) for value in (keys, numbers))
        all_order = own_part(f, axis, own, f.aten("sort_stable", keys, stable=True)[1])
        numbers = f.aten("index", numbers, all_order)

    # To the ranks of the parts, and back.
    part = f.aten("floor_divide_scalar", numbers, other=room)
    order = f.aten("sort_stable", part, stable=True)[1]
    sends = f.aten("bincount", part, minlength=ranks)
    receives = f.all_to_all(sends, axis)
    place = f.aten("index_select", f.aten("remainder_scalar", numbers, other=room), order, dim=0)
    places = f.exchange(place, sends, receives, room, axis)
    all_places = f.aten("arange_start", start=0, end=room)
    unused = f.aten("ge", all_places, f.aten("sum", receives))
    if wrong.get("of_receiver"):
        ranks_of_rows = f.aten("floor_divide_scalar", f.aten("arange_start", start=0, end=rows), other=own)
        ranks_of_rows = f.aten("index_select", f.aten("index", ranks_of_rows, all_order), order, dim=0)
        received = f.exchange(ranks_of_rows, sends, receives, room, axis)
        places = f.aten("add", places, f.aten("sub", rank, received))
    places = f.aten("where", unused, all_places, places)
    if wrong.get("filled"):
        places = f.aten("masked_fill_scalar", places, unused, value=0)
    ends = f.aten("index_select", f.aten("view", in_part, size=[experts]), f.aten(
        "add", f.aten("arange_start", start=0, end=per_part), f.aten("mul_scalar", rank, other=per_part)), dim=0)  # fmt: skip

    def write(x, zero=0.0):
        if of_part:
            x = f.aten("index", f.all_gather(x, 0, axis), all_order)
        there = f.exchange(f.aten("index_select", x, order, dim=0), sends, receives, room, axis)
        return f.aten("index_put", f.aten("mul_scalar", there, other=zero), places, there)

    def read(made):
        way = (sends, receives) if wrong.get("same_way") else (receives, sends)
        back = f.exchange(f.aten("index_select", made, places, dim=0), *way, own, axis)
        back = put(f, back, order)
        if of_part:
            whole = f.aten("full", size=[rows, 3], fill_value=0.0, dtype="f64")
            back = f.reduce_scatter(f.aten("index_put", whole, all_order, back), 0, axis)
        return back

    last = f.aten("slice", ends, dim=0, start=per_part - 1, end=per_part)
    return SimpleNamespace(write=write, read=read, ends=ends, unused=f.aten("ge", all_places, last), numbers=numbers)


def exchanged(f, axis, own, per_part, width, of_part=False, **wrong):
    """Rows of ranks go to the ranks that have their experts, are multiplied there, and come back."""
    rows = MESH[axis] * own
    experts = MESH[axis] * per_part
    keys, x = choices(f, rows, experts, on(axis)), f.argument((rows, width), on(axis))
    w = f.argument((experts, width, 3), on(axis))
    if not f.local:
        return f.give(multiply(f, keys, experts, x, w), on(axis))
    numbered = at_numbers(f, axis, keys, own, per_part, of_part, **wrong)
    there = numbered.write(x)
    f.give(numbered.read(f.aten("_grouped_mm", there, w, f.aten("_to_copy", numbered.ends, dtype="i32"))), on(axis))


@lemma("numbered-rows", *EXCHANGED, *OF_PARTS, ("dp", 4, 2, 3, False, "filled"), ("tp", 5, 2, 2, True, "filled"), ("dp", 4, 2, 3, True, "of_receiver"))
def numbered_rows(f, axis, own, per_part, width, of_part=False, error="no_first"):
    """Without the rows of experts before, several rows have one number; so have they where the places of none are all the first, or
    where the rank that has a row adds how far it is from the row's own."""
    exchanged(f, axis, own, per_part, width, of_part, **{error: f.wrong})


@lemma("rows-exchanged", *EXCHANGED, *OF_PARTS)
def rows_exchanged(f, *sizes):
    """As many go back as have come, not as many as were sent."""
    exchanged(f, *sizes, same_way=f.wrong)


def added(f, axis, own, per_part, width, of_part=False, *, is_masked=True, times=1):
    """Rows and their experts' rows of a table are added up by expert, where they were sent."""
    rows, experts = MESH[axis] * own, MESH[axis] * per_part
    keys, x = choices(f, rows, experts, on(axis)), f.argument((rows, width), on(axis))
    table = f.argument((experts, width))
    zeros = f.aten("full", size=[experts, width], fill_value=0.0, dtype="f64")

    def add(keys, x):
        return f.aten("add", f.aten("tanh", x), f.aten("index", table, keys))

    if not f.local:
        expert, order = f.aten("sort_stable", keys, stable=True)
        made = add(expert, f.aten("index", x, order))
        return f.give(f.aten("index_put", zeros, expert, made, accumulate=True))
    numbered = at_numbers(f, axis, keys, own, per_part, of_part)
    expert = numbered.write(keys, 0)
    made = add(expert, numbered.write(x))
    if is_masked:
        made = f.aten("masked_fill_scalar", made, f.aten("unsqueeze", numbered.unused, dim=1), value=0.0)
    total = f.all_reduce(f.aten("index_put", zeros, expert, made, accumulate=True), axis)
    f.give(f.aten("mul_scalar", total, other=float(times)))


@lemma("without-row", *EXCHANGED, *OF_PARTS)
def without_row(f, *sizes):
    """At places without a row lie zeros; wrong where the first expert's row of the table does."""
    added(f, *sizes, is_masked=not f.wrong)


@lemma("added-by-expert", *EXCHANGED, *OF_PARTS)
def added_by_expert(f, axis, *sizes):
    """Each row is added once, and not by each rank."""
    added(f, axis, *sizes, times=1 / MESH[axis] if f.wrong else 1)


@lemma("gathered-numbers", *EXCHANGED)
def gathered_numbers(f, axis, own, per_part, width):
    """All ranks' parts side by side, from which each takes all rows in the order of all experts; and rows that it puts there
    and takes again. Wrong are the numbers of rows that chose others."""
    rows, experts = MESH[axis] * own, MESH[axis] * per_part
    keys, others = choices(f, rows, experts, on(axis)), choices(f, rows, experts, on(axis))
    x = f.argument((rows, width), on(axis))
    if not f.local:
        f.give(f.aten("tanh", x))
        return f.give(f.aten("tanh", x))
    numbered, other = (at_numbers(f, axis, chosen, own, per_part) for chosen in (keys, others))
    order = f.aten("sort_stable", f.all_gather(keys, 0, axis), stable=True)[1]
    numbers, wrong = (f.aten("index", f.all_gather(each.numbers, 0, axis), order) for each in (numbered, other))
    taken = wrong if f.wrong else numbers
    parts = f.all_gather(f.aten("tanh", numbered.write(x)), 0, axis)
    f.give(put(f, f.aten("index", parts, taken), order))
    zeros = f.aten("full", size=[MESH[axis] * rows, width], fill_value=0.0, dtype="f64")
    parts = f.aten("index_put", zeros, numbers, f.aten("index", f.all_gather(x, 0, axis), order))
    f.give(put(f, f.aten("tanh", f.aten("index", parts, taken)), order))
