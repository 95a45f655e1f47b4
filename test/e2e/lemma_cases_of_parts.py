"""Lemmas of what is put together of parts: the prover uses them where a program of ranks concatenates what the one of
one device does not."""

from lemma_cases import AXES, lemma, on
from lemma_programs import MESH


@lemma("concatenation", *AXES)
def second_part(f, axes, shape):
    """What was put behind another part is there; wrong where the first one is taken."""
    x, y = f.argument(shape, on(axes)), f.argument(shape, on(axes))
    if not f.local:
        return f.give(f.aten("tanh", y), on(axes))
    own = shape[0] // f.ranks(*axes.split())
    both = f.aten("tanh", f.aten("cat", x, y, dim=0))
    f.give(f.aten("slice", both, dim=0, start=0 if f.wrong else own, end=own if f.wrong else 2 * own), on(axes))


RINGS = [("dp", 2, 3), ("tp", 2, 5), ("cp", 3, 1), ("dp", 1, 4), ("cp", 2, 2)]


@lemma("condition-on-digits", *RINGS)
@lemma("equal-places", *RINGS)
def rows_of_a_ring(f, axis, own, width):
    """Blocks that came round a ring, put where they belong; wrong where they went the other way."""
    ranks = MESH[axis]
    x, w = f.argument((ranks * own, width), on(axis)), f.argument((width, 3))
    if not f.local:
        return f.give(f.aten("mm", x, w))
    f.give(multiply_ring(f, axis, x, w, own))


def multiply_ring(f, axis, x, w, own, turns=True):
    """`turns`: where it is wrong, blocks go the other way."""
    ranks, blocks = MESH[axis], []
    for _ in range(ranks):
        blocks.append(f.aten("mm", x, w))
        x = f.shift(x, axis, -1 if f.wrong and turns else 1)
    split = f.aten("view", f.aten("cat", *blocks, dim=0), size=[ranks, own, 3])
    before = f.aten("sub", f.axis_index(axis), f.aten("arange_start", start=0, end=ranks))
    order = f.aten("where", f.aten("lt_scalar", before, other=0), f.aten("add_scalar", before, other=ranks), before)
    return f.aten("view", f.aten("index_select", split, order, dim=0), size=[ranks * own, 3])


@lemma("parts-of-wholes", *RINGS)
@lemma("joined-differences", *RINGS)
def columns_of_a_ring(f, axis, own, width):
    """The same where each rank has three columns of the weight: parts of rows by parts of columns."""
    ranks = MESH[axis]
    x, w = f.argument((ranks * own, width), on(axis)), f.argument((width, 3 * ranks), on(axis, 1))
    f.give(multiply_ring(f, axis, x, w, own) if f.local else f.aten("mm", x, w), on(axis, 1))


@lemma("parts-alike", ("dp", 2, 3), ("tp", 2, 5), ("cp", 3, 1), ("dp", 3, 4), ("cp", 2, 2), ("tp", 1, 5), ("cp", 1, 2))
def columns_of_chunks(f, axis, own, width):
    """Each block in two chunks of rows, of what is the difference of two values; wrong where the chunks change places."""
    ranks = MESH[axis]
    shape = ranks * 2 * own, width
    x, y, w = f.argument(shape, on(axis)), f.argument(shape, on(axis)), f.argument((width, 3 * ranks), on(axis, 1))
    if not f.local:
        return f.give(f.aten("mm", f.aten("tanh", f.aten("sub", x, y)), w), on(axis, 1))
    both = f.aten("sub", x, y)
    chunks = [f.aten("tanh", f.aten("slice", both, dim=0, start=i * own, end=(i + 1) * own)) for i in range(2)]
    f.give(multiply_ring(f, axis, f.aten("cat", *(chunks[::-1] if f.wrong else chunks), dim=0), w, 2 * own, turns=False), on(axis, 1))


@lemma("part-stays", ("dp", 2, 3), ("tp", 2, 5), ("cp", 3, 1), ("dp", 3, 4), ("cp", 2, 2), ("tp", 1, 5), ("cp", 1, 2))
def chunks_of_a_running_sum(f, axis, own, width):
    """Chunks of a rank's rows of what is made of a running sum; wrong where the chunks change places."""
    ranks = MESH[axis]
    x, w = f.argument((ranks * 2 * own, width)), f.argument((width, 3 * ranks), on(axis, 1))
    total = f.aten("tanh", f.aten("cumsum", x, dim=0))
    if not f.local:
        return f.give(f.aten("mm", f.aten("tanh", total), w), on(axis, 1))
    blocks = f.aten("view", total, size=[ranks, 2 * own, width])
    rows = f.aten("squeeze_dim", f.aten("index_select", blocks, f.aten("unsqueeze", f.axis_index(axis), dim=0), dim=0), dim=0)
    chunks = [f.aten("tanh", f.aten("slice", rows, dim=0, start=i * own, end=(i + 1) * own)) for i in range(2)]
    f.give(multiply_ring(f, axis, f.aten("cat", *(chunks[::-1] if f.wrong else chunks), dim=0), w, 2 * own, turns=False), on(axis, 1))


@lemma("elements-alike", ("dp", 2, 3), ("tp", 4, 5), ("cp", 3, 2), ("one", 3, 4), ("dp", 1, 7))
def element_of_a_row(f, axis, rows, width):
    """What is made of the second element of each of two rows, of which ranks have terms, and of these and the second run of values
    that lie in one row; wrong where they are the first."""
    x, y = f.argument((rows, width), f"{axis}=P"), f.argument((rows, width), f"{axis}=P")
    runs = f.aten("view", f.argument((width * rows,)), size=[width, rows])
    if not f.local:
        both = f.aten("sub", x, y), f.aten("mul", x, f.aten("t", runs))
        return [f.give(f.aten("select", f.aten("tanh", value), dim=1, index=1)) for value in both]
    x, y = (f.aten("select", value, dim=1, index=int(not f.wrong)) for value in (x, y))
    f.give(f.aten("tanh", f.all_reduce(f.aten("sub", x, y), axis)))
    f.give(f.aten("tanh", f.aten("mul", f.all_reduce(x, axis), f.aten("select", runs, dim=0, index=int(not f.wrong)))))
