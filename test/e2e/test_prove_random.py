"""Random functions of ranks, and the same with a few changes: what is proved all the same is run, and equal.

The generator does not know the prover: it changes where elements lie, which parts are taken, what is added, and how often.
Each rank has some of the rows; what a row is made of is drawn by the run's seed.
"""

import json
import random
import subprocess

import lemma_programs
import pytest
from combinations_cover import run_all, seed

AXES = "dp", "tp", "cp", "one"
# Of `--form`.
FORMS = 8
SHAPES = [(6, 4), (2, 3, 4), (12,), (3, 8), (2, 2, 6), (5, 2), (4, 3, 1), (1, 6), (2, 7), (3, 3, 2)]


def factors_of(count):
    return [prime for prime in (2, 3, 5, 7) if count % prime == 0]


def product(sizes):
    count = 1
    for size in sizes:
        count *= size
    return count


def digits_of(count, draw):
    """Numbers whose product it is."""
    digits = []
    while count > 1:
        digit = draw.choice(factors_of(count))
        if digits and draw.random() < 0.3:
            digits[-1] *= digit
        else:
            digits.append(digit)
        count //= digit
    draw.shuffle(digits)
    return digits or [1]


class Writer:
    """Draws ops from `draw`, which is the same for both programs, and changes of them from `edits`."""

    def __init__(self, f, draw, edits, axis):
        self.f, self.draw, self.edits, self.axis = f, draw, edits, axis
        self.values = []

    def changes(self, likely=0.2):
        return self.edits is not None and self.edits.random() < likely

    def rows(self, value, trailing):
        return self.f.aten("view", value, size=[value.shape[0], *trailing])

    def turned(self, value, draw, keeps=False):
        """Its elements in an order of digits; the same one where it `keeps` them."""
        digits = digits_of(product(value.shape[1:]), draw)
        order = list(range(len(digits)))
        draw.shuffle(order)
        turned = self.f.aten("permute", self.rows(value, digits), dims=[0, *(1 + i for i in order)])
        if keeps:
            turned = self.f.aten("permute", turned, dims=[0, *(1 + order.index(i) for i in range(len(digits)))])
        return self.rows(turned, value.shape[1:])

    def like(self, value):
        return [other for other in self.values if other.shape == value.shape]

    def pick(self):
        value = self.draw.choice(self.values)
        if self.changes():
            value = self.edits.choice(self.like(value))
        if self.changes():
            value = self.turned(value, self.edits, keeps=self.edits.random() < 0.5)
        return value

    def number(self, low, high):
        number = self.draw.randint(low, high)
        return self.edits.randint(low, high) if self.changes() else number

    def places(self, count):
        return self.f.aten("arange_start", start=0, end=count)

    def rows_of(self, count):
        """The places of a rank's rows among all."""
        first = self.f.aten("mul_scalar", self.f.axis_index(self.axis), other=count)
        return self.f.aten("add", self.places(count), first)

    def mark(self, value, dim):
        """Where the place along a dimension is below a number, is not, or is it."""
        count = value.shape[dim]
        places = self.places(count) if dim else self.rows_of(count)
        mark = self.f.aten(self.draw.choice(["lt_scalar", "ge_scalar", "eq_scalar"]), places, other=self.number(0, count))
        for _ in value.shape[dim + 1 :]:
            mark = self.f.aten("unsqueeze", mark, dim=len(mark.shape))
        return mark

    def taken(self, value, dim):
        """What lies at places that are computed."""
        f, count = self.f, value.shape[dim]
        at = self.places(count)
        kind = self.draw.choice(["back", "further", "rest", "quotient"])
        if kind == "back":
            at = f.aten("rsub_scalar", at, other=count - 1)
        elif kind == "further":
            at = f.aten("remainder_scalar", f.aten("add_scalar", at, other=self.number(0, count)), other=count)
        else:
            at = f.aten("remainder_scalar" if kind == "rest" else "floor_divide_scalar", at, other=self.number(1, count))
        return f.aten("index_select", value, at, dim=dim)

    def all_rows(self, value):
        """What ranks have together, of which each takes its own rows again."""
        at = self.rows_of(value.shape[0])
        if self.f.local:
            value = self.f.all_gather(value, 0, self.axis)
        if self.changes() and self.f.local:
            at = self.f.aten("remainder_scalar", self.f.aten("add_scalar", at, other=1), other=value.shape[0])
        return self.f.aten("index_select", value, at, dim=0)

    def around(self, value):
        """The rows of another rank."""
        f, by, ranks = self.f, self.draw.choice([1, 2, -1]), lemma_programs.MESH[self.axis]
        if f.local:
            return f.shift(value, self.axis, self.edits.choice([1, 2, -1]) if self.changes() else by)
        count = value.shape[0]
        first = count - by % ranks * (count // ranks)
        if first == count:
            return value
        ends = (first, count), (0, first)
        return f.aten("cat", *(f.aten("slice", value, dim=0, start=start, end=end) for start, end in ends), dim=0)

    def step(self):
        draw, f, value = self.draw, self.f, self.pick()
        dims = range(1, len(value.shape))
        kind = draw.choice(["view", "permute", "turn", "slice", "select", "cat", "stack", "unary", "scalar", "binary", "binary",
                            "softmax", "cumsum", "sum", "mean", "amax", "mm", "whole", "fill", "where", "take", "own", "rows", "ring"])  # fmt: skip
        dim = draw.choice(dims)
        if self.changes():
            same = [i for i in dims if value.shape[i] == value.shape[dim]]
            dim = self.edits.choice(same)
        if kind == "view":
            made = self.rows(value, digits_of(product(value.shape[1:]), draw))
        elif kind == "permute":
            order = list(dims)
            draw.shuffle(order)
            made = f.aten("permute", value, dims=[0, *order])
        elif kind == "turn":
            made = self.turned(value, draw)
        elif kind == "slice":
            size = value.shape[dim]
            start = draw.randrange(size)
            end = draw.randint(start + 1, size)
            if self.changes(0.3):
                shift = self.edits.choice([-1, 1])
                if start + shift >= 0 and end + shift <= size:
                    start, end = start + shift, end + shift
            made = f.aten("slice", value, dim=dim, start=start, end=end)
        elif kind == "select":
            index = draw.randrange(value.shape[dim])
            if self.changes(0.3):
                index = self.edits.randrange(value.shape[dim])
            made = f.aten("select", value, dim=dim, index=index)
        elif kind in ("cat", "stack", "binary"):
            parts = [value, draw.choice(self.like(value))]
            op = draw.choice(["add", "sub", "mul"])
            if self.changes():
                parts.reverse()
            if self.changes():
                parts[1] = self.edits.choice(self.like(value))
            made = f.aten(op, *parts) if kind == "binary" else f.aten(kind, *parts, dim=dim)
        elif kind in ("fill", "where"):
            mark = self.mark(value, draw.choice([0, dim]))
            other = draw.choice(self.like(value))
            made = (f.aten("where", mark, value, other) if kind == "where"
                    else f.aten("masked_fill_scalar", value, mark, value=draw.choice([0.0, 2.0])))  # fmt: skip
        elif kind == "take":
            made = self.taken(value, dim)
        elif kind == "own":
            made = self.all_rows(value)
        elif kind == "ring":
            made = self.around(value)
        elif kind == "rows":
            op = draw.choice(["sum", "mean", "amax"])
            made = f.aten({"sum": "sum_dim_int_list", "mean": "mean_dim"}.get(op, op), value, dim=[0], keepdim=True)
            reduction = {"sum": "sum", "mean": "avg", "amax": "max"}[op]
            if self.changes():
                reduction = self.edits.choice(["sum", "avg", "max"])
            made = f.aten("sub", value, f.all_reduce(made, self.axis, reduction))
        elif kind == "unary":
            made = f.aten(draw.choice(["tanh", "relu", "neg"]), value)
        elif kind == "scalar":
            number = draw.choice([0.5, 2.0, -1.0, 3.0])
            if self.changes():
                number *= self.edits.choice([2.0, 0.5, -1.0])
            made = f.aten(draw.choice(["mul_scalar", "add_scalar"]), value, other=number)
        elif kind == "softmax":
            made = f.aten("_softmax", value, dim=dim, half_to_float=False)
        elif kind == "cumsum":
            made = f.aten("cumsum", value, dim=dim)
        elif kind in ("sum", "mean", "amax"):
            op = {"sum": "sum_dim_int_list", "mean": "mean_dim", "amax": "amax"}[kind]
            made = f.aten(op, value, dim=[dim], keepdim=True)
        elif kind == "mm":
            last = value.shape[-1]
            count = product(value.shape[:-1])
            weight = f.argument((last, 2))
            if self.changes():
                weight = f.aten("permute", f.aten("view", weight, size=[2, last]), dims=[1, 0])
            made = f.aten("view", f.aten("mm", f.aten("view", value, size=[count, last]), weight), size=[*value.shape[:-1], 2])
        else:  # all places of a row as one
            flat = self.rows(value, [product(value.shape[1:])])
            made = self.rows(f.aten("_softmax", flat, dim=1, half_to_float=False), value.shape[1:])
        if len(made.shape) == 1:
            made = self.f.aten("unsqueeze", made, dim=1)
        if product(made.shape[1:]) <= 64 and len(made.shape) <= 5:
            self.values.append(made)


def write(f, number, edits):
    draw = random.Random(number)
    axis = draw.choice(AXES)
    rows = lemma_programs.MESH[axis] * draw.choice([1, 2])
    writer = Writer(f, draw, edits, axis)
    shape = draw.choice(SHAPES)
    for _ in range(2):
        writer.values.append(f.argument((rows, *shape), f"{axis}=0"))
    for _ in range(draw.randint(2, 7)):
        writer.step()
    last = writer.values[-1]
    if draw.random() < 0.5:
        return f.give(last, f"{axis}=0")
    total = f.aten("sum_dim_int_list", last, dim=[0])
    if not (writer.changes(0.05)):
        total = f.all_reduce(total, axis)
    f.give(total)


def programs(numbers):
    """Names of functions, with how far PyTorch says that they differ, and the text of both programs."""
    gaps, texts = {}, ([], [])
    for number in numbers:
        name = f"f{number}"
        whole = lemma_programs.Function(name, "whole", number)
        write(whole, number, None)
        ranks = lemma_programs.Function(name, "right", number)
        write(ranks, number, random.Random(f"edits of {number}"))
        if [value.shape for value, _ in whole.results] and whole.signature:
            gaps[name] = lemma_programs.difference(ranks, whole)
            for text, f in zip(texts, (whole, ranks), strict=True):
                text.append(f.text())
    return gaps, "".join(texts[0]), lemma_programs.print_mesh() + "".join(texts[1])


@pytest.mark.parametrize("group", range(24 if run_all() else 4))
def test_what_is_proved_is_equal(build_dir, tmp_path, group):
    count = 60
    first = 1_000_000 * (seed() % 1000) + count * group
    gaps, whole, ranks = programs(range(first, first + count))
    paths = tmp_path / "whole.mlir", tmp_path / "ranks.mlir"
    for path, text in zip(paths, (whole, ranks), strict=True):
        path.write_text(text)
    equal = [name for name, gap in gaps.items() if gap < 1e-9]
    # In the forms in which a proof is tried, and in each of them alone: what one proves, another one need not.
    for form in [[], *([f"--form={number}"] for number in range(FORMS))]:
        made = subprocess.run(
            [build_dir / "bin" / "cleave-prove", *paths, "--json", "--execute=false", *form], capture_output=True, text=True, timeout=120
        )
        assert made.returncode in (0, 2), made.stderr
        failed = {finding["function"] for finding in json.loads(made.stdout)["findings"]}
        assert [name for name, gap in gaps.items() if gap > 1e-9 and name not in failed] == [], form
        # Otherwise, it would say nothing.
        assert len(gaps) - len(equal) > count / 10 and len(set(equal) - failed) > count / 10, (form, len(equal), len(failed))
