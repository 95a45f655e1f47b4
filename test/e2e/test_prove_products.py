"""Sums of products in random orders: factors that are multiplied, and places that are added up, sooner or later. What is proved
all the same, where some are added up too soon, or along others, is run, and equal."""

import json
import random
import subprocess

import lemma_programs
import pytest
from combinations_cover import run_all, seed
from lemma_cases import on

AXES = {"dp": 2, "tp": 3, "cp": 4}
FACTORS_APART = 7  # of `--form`


def write(f, number, errs):
    """A product of factors that have some of four dimensions, summed over some of these: on one device at once, on ranks in
    another order. `errs`: a dimension is added up although what is multiplied later has it, or a factor is not taken."""
    draw = random.Random(number)
    axis, ranks = draw.choice([*AXES.items()])
    split = draw.randrange(4)
    sizes = [ranks * draw.randint(1, 2) if dim == split else draw.randint(2, 3) for dim in range(4)]
    owned = [{dim for dim in range(4) if draw.random() < 0.5} for _ in range(draw.randint(3, 5))]
    owned[0].add(split)
    summed = {dim for dim in range(4) if draw.random() < 0.7} & set.union(*owned)
    parts = [
        (f.argument([size if dim in own else 1 for dim, size in enumerate(sizes)], on(axis, split) if split in own else ""), own)
        for own in owned
    ]
    if draw.random() < 0.4:
        parts.append(draw.choice(parts))

    def add_up(value, dims):
        # PyTorch takes no list of none for none.
        value = f.aten("sum_dim_int_list", value, dim=sorted(dims), keepdim=True) if dims else value
        return f.all_reduce(value, axis) if f.local and split in dims else value

    if f.local:
        draw.shuffle(parts)
        wrong = draw.randrange(len(parts) - 1) if errs else None
        early = draw.random() < 0.5
        if wrong is not None and not early:
            parts.pop()
            wrong = None
    else:
        wrong, early = None, False
    left = set(summed)
    while len(parts) > 1:
        (x, own), (y, other) = parts.pop(0), parts.pop(0)
        both = own | other
        ready = both & left - set().union(*(dims for _, dims in parts)) if f.local else set()
        if f.local and wrong == len(parts):
            ready |= both & left
        value = add_up(f.aten("mul", x, y), ready)
        left -= ready
        parts.append((value, both - ready))
        if f.local and draw.random() < 0.5:
            parts.insert(0, parts.pop())
    [(value, own)] = parts
    value = add_up(value, own & left)
    f.give(f.aten("tanh", value), on(axis, split) if split in own - summed else "")


@pytest.mark.parametrize("group", range(20 if run_all() else 2))
def test_what_is_proved_is_equal(build_dir, tmp_path, group):
    count, gaps, texts = 100, {}, ([], [lemma_programs.print_mesh()])
    first = 1_000_000 * (seed() % 1000) + count * group
    for number in range(first, first + count):
        functions = [lemma_programs.Function(f"f{number}", form, number) for form in ("whole", "right")]
        for f, text in zip(functions, texts, strict=True):
            write(f, number, errs=number % 2)
            text.append(f.text())
        gaps[f"f{number}"] = lemma_programs.difference(*reversed(functions))
    paths = tmp_path / "whole.mlir", tmp_path / "ranks.mlir"
    for path, text in zip(paths, texts, strict=True):
        path.write_text("".join(text))
    made = subprocess.run(
        [build_dir / "bin" / "cleave-prove", *paths, "--json", "--execute=false", f"--form={FACTORS_APART}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert made.returncode in (0, 2), made.stderr
    failed = {finding["function"] for finding in json.loads(made.stdout)["findings"]}
    assert [name for name, gap in gaps.items() if gap > 1e-9 and name not in failed] == []
    equal = {name for name, gap in gaps.items() if gap < 1e-12}
    # Otherwise, it would say nothing. Few have a factor at several places that could be named in several ways.
    assert len(equal) > count / 3 and len(gaps) - len(equal) > count / 10
    assert len(equal & failed) <= count / 20, equal & failed
