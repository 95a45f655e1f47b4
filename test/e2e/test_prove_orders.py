"""Digits that are read as one number are read in their order; what is made of elements at one place is an element of
what is made of the wholes; and dimensions that two values cut in unlike ways are each a function of all their places."""

import json
import subprocess

import lemma_programs
import pytest
from lemma_programs import MESH


def prove(build_dir, tmp_path, write):
    """What is answered of `write`'s programs of one device and of ranks, and by how much PyTorch says that they differ."""
    functions, paths = [], []
    for form in ("whole", "right"):
        f = lemma_programs.Function("f", form, 1)
        write(f)
        functions.append(f)
        paths.append(tmp_path / f"{form}.mlir")
        paths[-1].write_text((lemma_programs.print_mesh() if f.local else "") + f.text())
    made = subprocess.run(
        [build_dir / "bin" / "cleave-prove", *paths, "--execute=false", "--json"], capture_output=True, text=True, timeout=60
    )
    assert made.returncode in (0, 2), made.stderr
    return json.loads(made.stdout)["answer"], lemma_programs.difference(functions[1], functions[0])


# Of a row of all places; each depends on their order.
READERS = {
    "softmax": lambda f, x: f.aten("_softmax", x, dim=0, half_to_float=False),
    "log_softmax": lambda f, x: f.aten("_log_softmax", x, dim=0, half_to_float=False),
    "running sum": lambda f, x: f.aten("cumsum", x, dim=0),
    "slice": lambda f, x: f.aten("slice", x, dim=0, start=1, end=5),
    "select": lambda f, x: f.aten("select", x, dim=0, index=5),
    "concatenation": lambda f, x: f.aten("cat", x, f.aten("tanh", x), dim=0),
    "stack": lambda f, x: f.aten("stack", x, f.aten("tanh", x), dim=1),
    "rows in another cut": lambda f, x: f.aten("view", f.aten("view", x, size=[4, x.shape[0] // 4]), size=[x.shape[0]]),
    "slice of a softmax": lambda f, x: f.aten(
        "slice", f.aten("_softmax", x, dim=0, half_to_float=False), dim=0, start=1, end=7
    ),
}  # fmt: skip
# The digits of a row, and in which order the ranks read them.
ORDERS = [((2, 3, 2), (0, 2, 1)), ((2, 2, 3), (1, 0, 2)), ((3, 2, 2), (2, 1, 0)), ((2, 4, 3), (0, 2, 1)), ((4, 3, 2), (2, 0, 1)), ((1, 4, 3), (0, 2, 1))]  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("digits", "order"), ORDERS)
@pytest.mark.parametrize("merged", [(0, 1), (1, 2), (0, 2)])
def test_digits_are_read_in_their_order(build_dir, tmp_path, name, digits, order, merged):
    """Of an argument in which two of the digits are one dimension."""
    first, second = merged
    (other,) = {0, 1, 2} - set(merged)
    argument = (digits[first] * digits[second], digits[other])

    def write(f, permuted):
        x = f.aten("view", f.argument(argument), size=[digits[first], digits[second], digits[other]])
        kept = [[first, second, other].index(i) for i in range(3)]
        dims = [kept[i] for i in order] if permuted and f.local else kept
        count = digits[0] * digits[1] * digits[2]
        f.give(READERS[name](f, f.aten("view", f.aten("permute", x, dims=dims), size=[count])))

    answer, gap = prove(build_dir, tmp_path, lambda f: write(f, True))
    assert answer == "unknown" or gap < 1e-9, gap
    if name not in ("rows in another cut",):
        answer, gap = prove(build_dir, tmp_path, lambda f: write(f, False))
        assert answer == "proved" and gap == 0


def element(f, value, index):
    return f.aten("select", value, dim=1, index=index)


def row(f, value, index):
    return f.aten("slice", value, dim=1, start=index, end=index + 1)


def token(f, axis, rows, change=None):
    """A gradient of a class token: the sum over examples of the first row of what ranks have terms of."""
    x, w = f.argument((2, rows, 6), f"{axis}=P"), f.argument((6, 4))
    flat = f.aten("view", f.aten("add", x, x), size=[2 * rows, 6])
    y = f.aten("view", f.aten("mm", flat, w), size=[2, rows, 4])
    if change == "not linear":
        y = f.aten("tanh", y)
    first = element(f, y, 0)
    if f.local and change == "another place":
        first = element(f, y, 1)
    if f.local and change == "one example":
        first = f.aten("slice", first, dim=0, start=0, end=1)
    if f.local and change == "twice":
        first = f.aten("add", first, first)
    total = f.aten("sum_dim_int_list", first, dim=[0], keepdim=True)
    if f.local and change == "last of squares":
        total = f.aten("sum_dim_int_list", element(f, f.aten("mul", y, y), rows - 1), dim=[0], keepdim=True)
    if f.local and change == "reduced":
        total = f.all_reduce(total, axis)
    f.give(total, f"{axis}=P")


SHAPES = [("dp", 5), ("tp", 4), ("cp", 3), ("dp", 2), ("tp", 7)]


@pytest.mark.parametrize(("axis", "rows"), SHAPES)
@pytest.mark.parametrize("change", [None, "another place", "one example", "twice", "reduced", "not linear", "last of squares"])
def test_a_row_of_a_sum_is_the_sum_of_rows(build_dir, tmp_path, axis, rows, change):
    answer, gap = prove(build_dir, tmp_path, lambda f: token(f, axis, rows, change))
    assert answer == ("unknown" if change else "proved"), gap
    assert (gap > 1e-9) == bool(change)


def in_layers(f, axis, rows, change):
    """The same behind a softmax, where an element of one argument meets one of another."""
    x, y = f.argument((3, rows, 4)), f.argument((3, rows, 4))
    if not f.local:
        made = f.aten("_softmax", f.aten("sub", f.aten("mul", x, y), y), dim=2, half_to_float=False)
        return f.give(row(f, made, 1))
    one = row(f, x, 0 if change in ("first", "both") else 1)
    other = row(f, y, 0 if change in ("second", "both") else 1)
    made = f.aten("sub", f.aten("mul", one, other), row(f, y, 0) if change == "third" else other)
    f.give(f.aten("_softmax", made, dim=0 if change == "dimension" else 2, half_to_float=False))


@pytest.mark.parametrize(("axis", "rows"), SHAPES)
@pytest.mark.parametrize("change", [None, "first", "second", "both", "third", "dimension"])
def test_elements_of_arguments_are_at_their_places(build_dir, tmp_path, axis, rows, change):
    answer, gap = prove(build_dir, tmp_path, lambda f: in_layers(f, axis, rows, change))
    assert answer == ("unknown" if change else "proved"), gap
    assert (gap > 1e-9) == bool(change)


# An axis, and the two ways in which a row of as many places is numbered.
CUTS = [("dp", (7, 2), (2, 7)), ("tp", (3, 4), (4, 3)), ("cp", (2, 5), (5, 2)), ("one", (6, 4), (4, 6)), ("dp", (3, 2, 5), (5, 6))]  # fmt: skip


def turned(f, x, digits, order):
    """Rows with their digits in another order."""
    rows, count = x.shape[0], x.shape[1]
    split = f.aten("view", x, size=[rows, *digits])
    return f.aten("view", f.aten("permute", split, dims=[0, *(1 + i for i in order)]), size=[rows, count])


@pytest.mark.parametrize(("axis", "one", "other"), CUTS)
@pytest.mark.parametrize("change", [None, "not turned", "turned alike", "in another order", "of another row"])
def test_values_that_are_cut_in_unlike_ways_meet(build_dir, tmp_path, axis, one, other, change):
    """Of two values whose places are turned in two ways each rank has some rows."""
    count = 1
    for size in one:
        count *= size

    def write(f):
        shape = 2 * MESH[axis], count
        x, y = f.argument(shape, f"{axis}=0"), f.argument(shape, f"{axis}=0")
        left = turned(f, x, one, range(len(one))[::-1])
        right = turned(f, y, other, range(len(other))[::-1])
        if f.local and change == "not turned":
            right = y
        elif f.local and change == "turned alike":
            right = turned(f, y, one, range(len(one))[::-1])
        elif f.local and change == "in another order":
            left, right = turned(f, x, other, range(len(other))[::-1]), turned(f, y, one, range(len(one))[::-1])
        elif f.local and change == "of another row":
            right = f.aten("view", f.aten("stack", *(f.aten("select", right, dim=0, index=i) for i in (1, 0)), dim=0), size=[2, count])
        f.give(f.aten("tanh", f.aten("mul", left, f.aten("tanh", right))), f"{axis}=0")

    answer, gap = prove(build_dir, tmp_path, write)
    assert answer == ("unknown" if change else "proved"), gap
    assert (gap > 1e-9) == bool(change)
