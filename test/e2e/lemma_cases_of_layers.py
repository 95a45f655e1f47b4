"""Cases of lemmas of layers: convolutions over channels that ranks have in parts, and projections that are put together
of parts of other sizes than ranks have."""

from lemma_cases import lemma, on

CHANNELS = [("dp", 2, 4, 3), ("tp", 1, 3, 5), ("cp", 3, 8, 1), ("dp", 1, 2, 2), ("one", 2, 3, 4)]
WINDOW = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False, "output_padding": [0, 0], "groups": 1}


@lemma("channels-add", *CHANNELS)
def convolutions(f, axis, n, channels, outputs):
    """Ranks add up what they make of their channels, and each its share of the bias; wrong where each adds all of it."""
    x, w = f.argument((n, channels, 4, 5), on(axis, 1)), f.argument((outputs, channels, 3, 3), on(axis, 1))
    b = f.argument((outputs,))
    if f.local:
        b = f.aten("div_scalar", b, other=float(f.ranks(axis)) * (0.5 if f.wrong else 1))
    f.give(f.all_reduce(f.aten("convolution", x, w, b, **WINDOW), axis))


@lemma("gradients-take", *CHANNELS)
def gradients(f, axis, n, channels, outputs):
    """Those of an input and of a bias do not depend on the input; wrong where the weight is another one, too."""
    shape, kernel = (n, channels, 4, 5), (outputs, channels, 3, 3)
    g = f.argument((n, outputs, 4, 5))
    x, other = f.argument(shape, on(axis, 1)), f.argument(shape, on(axis, 1))
    w, wrong = f.argument(kernel, on(axis, 1)), f.argument(kernel, on(axis, 1))
    taken = other if f.local else x, wrong if f.wrong else w
    made = f.aten("convolution_backward", g, *taken, bias_sizes=[outputs], **WINDOW, output_mask=[True, True, True])
    f.give(made[0], on(axis, 1))
    f.give(made[2])


# An axis, how many parts there are, how long each is, and how many rows and columns.
PARTS = [("dp", 3, 4, 2, 3), ("tp", 2, 6, 1, 5), ("cp", 3, 4, 4, 1), ("dp", 5, 2, 3, 2), ("tp", 4, 3, 2, 2)]


def projection(f, axis, count, size, rows, columns, order):
    """The product of stacked values, of which each rank takes its places along all of them, and a matrix."""
    values = [f.argument((rows, size)) for _ in range(count)]
    w = f.argument((count * size, columns), on(axis))
    both = f.aten("view", f.aten("stack", *(values[i] for i in order), dim=1), size=[rows, count * size])
    if not f.local:
        return f.give(f.aten("mm", both, w))
    part = f.aten("div_scalar", f.reduce_scatter(both, 1, axis), other=float(f.ranks(axis)))
    f.give(f.all_reduce(f.aten("mm", part, w), axis))


@lemma("sum-by-part", *PARTS)
def projections(f, axis, count, size, rows, columns):
    """Wrong where the parts are in another order."""
    order = list(range(count))
    projection(f, axis, count, size, rows, columns, order[::-1] if f.wrong else order)


@lemma("one-digit", *PARTS)
def own_places(f, axis, count, size, rows, columns):
    """Wrong where all parts are to be the first one."""
    is_first = f.name.startswith("wrong") and not f.local
    projection(f, axis, count, size, rows, columns, [0] * count if is_first else range(count))


# An axis, how many values are stacked, how many heads each has, how wide these are, and how many rows there are.
HEADS = [("dp", 3, 2, 4, 3), ("tp", 2, 3, 2, 5), ("cp", 3, 2, 2, 1), ("dp", 3, 4, 1, 2), ("tp", 4, 3, 1, 4)]


@lemma("made-again", *HEADS)
def biases(f, axis, count, heads, width, rows):
    """Each row has a factor for each head. Of sums over rows of which ranks have some places, which begin inside of a head, what one
    value has is taken; wrong where it is that of another value."""
    values = []
    for _ in range(count):
        x, factors = f.argument((1, heads * width)), f.argument((rows, heads, 1))
        x = f.aten("view", f.aten("expand", x, size=[rows, heads * width]), size=[rows, heads, width])
        values.append(f.aten("mul", x, f.aten("expand", factors, size=[rows, heads, width])))
    both = f.aten("view", f.aten("stack", *values, dim=1), size=[rows, count * heads * width])
    if f.local:
        both = f.aten("div_scalar", f.reduce_scatter(both, 1, axis), other=float(f.ranks(axis)))
    total = f.aten("sum_dim_int_list", both, dim=[0], keepdim=True)
    total = f.all_gather(total, 1, axis)
    own = heads * width
    f.give(f.aten("slice", total, dim=1, start=0 if f.wrong else own, end=own if f.wrong else 2 * own))


# Axes, how many examples there are, and what each is made of.
BATCHES = [("dp", 2, (3, 2)), ("tp", 3, (2, 5)), ("cp", 4, (1, 4)), ("dp tp", 6, (4, 1)), ("tp", 6, (5, 3))]


@lemma("factors-apart", *BATCHES)
def dropped_paths(f, axes, n, shape):
    """Of what has a part of which each example has a factor the variance, by ranks' own variances and means, and the mean of that
    part; wrong where it is by the mean of the factors."""
    channels, places = shape
    x, path = f.argument((1, channels, places)), f.argument((n, channels, places), on(axes))
    factors, bias = f.argument((n, 1, 1), on(axes)), f.argument((1, channels, 1))
    dropped = f.aten("mul", path, factors)
    values = f.aten("add", f.aten("add", x, bias), dropped)
    own = f.aten("var_correction", values, dim=[0, 2], correction=0, keepdim=True)

    def mean(value):
        return f.aten("mean_dim", value, dim=[0, 2], keepdim=True)

    def average(value):
        return f.aten("div_scalar", f.all_reduce(value, axes), other=float(f.ranks(*axes.split()))) if f.local else value

    rest = f.aten("sub", mean(values), average(mean(values)))
    f.give(f.aten("add", average(own), average(f.aten("mul", rest, rest))))
    if f.wrong:
        f.give(f.aten("mul_scalar", f.aten("mul", average(mean(path)), average(mean(factors))), other=float(n)))
    else:
        f.give(average(mean(dropped)))
