"""Infinities that meet, and zero times infinity, are no numbers: what takes them off again is not what it was."""

import json
import subprocess

import lemma_programs
import pytest

INFINITY = float("inf")


def full(f, number=INFINITY):
    return f.aten("full", size=[4, 3], fill_value=number, dtype="f64")


def taken_off(f, x, most):
    return f.aten("sub", f.aten("add", x, most), most)


def summed(f, op, *parts):
    return f.aten("sum_dim_int_list", f.aten(op, *parts, dim=0), dim=[0])


def limited(f, y, number):
    return f.aten("masked_fill_scalar", y, f.aten("ge_scalar", y, other=0.0), value=number)


def waves(f, y):
    return [f.aten("tanh", f.aten("mul_scalar", y, other=float(i))) for i in range(1, 80)]


def in_a_long_sum(f, x, y):
    """Which is one term of blocks of summands."""
    long, others = f.aten("add", x, full(f)), f.aten("mul_scalar", x, other=0.0)
    for wave in waves(f, y):
        long, others = f.aten("add", long, wave), f.aten("add", others, wave)
    return f.aten("sub", f.aten("sub", long, full(f)), others)


WRONG = {
    "in a long sum": in_a_long_sum,
    "constant": lambda f, x, y: taken_off(f, x, full(f)),
    "of the other sign": lambda f, x, y: taken_off(f, x, full(f, -INFINITY)),
    "by addition": lambda f, x, y: f.aten("add", f.aten("add", x, full(f)), f.aten("neg", full(f))),
    "in parts": lambda f, x, y: f.aten("sub", f.aten("add", f.aten("add", x, full(f)), y), f.aten("add", full(f), y)),
    "one by one": lambda f, x, y: f.aten("sub", taken_off(f, x, full(f)), f.aten("mul_scalar", full(f), other=0.5)),
    "of twice as much": lambda f, x, y: f.aten("sub", taken_off(f, f.aten("add", x, full(f)), full(f)), full(f)),
    "multiple": lambda f, x, y: taken_off(f, x, f.aten("mul", y, full(f))),
    "filled in": lambda f, x, y: taken_off(f, x, limited(f, y, INFINITY)),
    "chosen": lambda f, x, y: taken_off(f, x, f.aten("where", f.aten("ge_scalar", y, other=0.0), full(f), y)),
    "zero times": lambda f, x, y: f.aten("add", x, f.aten("mul", full(f), f.aten("sub", y, y))),
    "limited by infinity": lambda f, x, y: taken_off(f, x, f.aten("clamp", y, min=INFINITY, max=INFINITY)),
    "limited by less": lambda f, x, y: taken_off(f, x, f.aten("clamp", y, min=-INFINITY, max=-INFINITY)),
    "stacked and summed": lambda f, x, y: f.aten("add", x, summed(f, "stack", full(f), f.aten("neg", full(f)))),
    "put together and summed": lambda f, x, y: f.aten(
        "add", x, summed(f, "cat", *(f.aten("unsqueeze", part, dim=0) for part in (full(f), f.aten("neg", full(f)))))
    ),
    "averaged": lambda f, x, y: f.aten(
        "add", x, f.aten("mean_dim", f.aten("stack", full(f), f.aten("neg", full(f)), dim=2), dim=[2])
    ),
    "times zero": lambda f, x, y: f.aten("add", x, f.aten("mul_scalar", full(f), other=0.0)),
}  # fmt: skip
# Large numbers are numbers, limits that nothing reaches limit nothing, and integers are finite, whatever they are made of.
RIGHT = {
    "large": lambda f, x, y: taken_off(f, x, full(f, 2.0**70)),
    "limited by nothing": lambda f, x, y: taken_off(f, x, f.aten("clamp", y, min=-INFINITY, max=INFINITY)),
    "limited below": lambda f, x, y: taken_off(f, x, f.aten("clamp", y, min=0.0, max=INFINITY)),
    "compared": lambda f, x, y: taken_off(f, x, f.aten("_to_copy", f.aten("ge_scalar", limited(f, y, INFINITY), other=0.5), dtype="f64")),
    "places": lambda f, x, y: taken_off(
        f, x, f.aten("unsqueeze", f.aten("_to_copy", f.aten("argmax", limited(f, y, INFINITY), dim=1), dtype="f64"), dim=1)
    ),
}


@pytest.mark.parametrize("name", [*WRONG, *RIGHT])
def test_infinities_are_not_taken_off(build_dir, tmp_path, name):
    paths = []
    for form in ("whole", "right"):
        f = lemma_programs.Function("f", form, 1)
        x, y = f.argument((4, 3)), f.argument((4, 3))
        f.give({**WRONG, **RIGHT}[name](f, x, y) if f.local else x)
        paths.append(tmp_path / f"{form}.mlir")
        paths[-1].write_text((lemma_programs.print_mesh() if f.local else "") + f.text())
        if f.local and name in WRONG:
            assert f.results[0][0].tensors[0].isnan().any(), name
    made = subprocess.run(
        [build_dir / "bin" / "cleave-prove", *paths, "--execute=false", "--json"], capture_output=True, text=True, timeout=60
    )
    assert made.returncode in (0, 2), made.stderr
    assert json.loads(made.stdout)["answer"] == ("unknown" if name in WRONG else "proved"), made.stdout


def in_order(f, x, y):
    return f.aten("add", f.aten("add", x, limited(f, y, INFINITY)), limited(f, x, -INFINITY))


def turned_round(f, x, y):
    return f.aten("add", limited(f, x, -INFINITY), f.aten("add", limited(f, y, INFINITY), x))


def other_sign(f, x, y):
    return f.aten("add", limited(f, x, INFINITY), f.aten("add", limited(f, y, INFINITY), x))


@pytest.mark.parametrize(("local", "answer"), [(turned_round, "proved"), (other_sign, "unknown")])
def test_what_is_only_added_may_be_infinite(build_dir, tmp_path, local, answer):
    """Of both signs: in any order, then, a sum is infinite, or no number, where it is."""
    paths = []
    for form in ("whole", "right"):
        f = lemma_programs.Function("f", form, 1)
        x, y = f.argument((4, 3)), f.argument((4, 3))
        f.give((local if f.local else in_order)(f, x, y))
        paths.append(tmp_path / f"{form}.mlir")
        paths[-1].write_text((lemma_programs.print_mesh() if f.local else "") + f.text())
    made = subprocess.run(
        [build_dir / "bin" / "cleave-prove", *paths, "--execute=false", "--json"], capture_output=True, text=True, timeout=60
    )
    assert json.loads(made.stdout)["answer"] == answer, made.stdout
