"""Attention round a ring, as it is proved, and as errors make it: nothing that differs is proved."""

import json
import subprocess

import lemma_cases_of_masks as masks
import lemma_cases_of_rings as rings
import lemma_programs
import pytest
from combinations_cover import seed

FORWARD = ["not scaled again", "first block as it was", "logarithm without its maximum", "stale values", "other way round",
           "one block less", "block twice"]  # fmt: skip
CAUSAL = ["mask a step late", "mask a step early", "causal on another step"]
GRADIENT = ["gradients not at home", "gradients exchanged"]
MASKED = ["mask of another block", "none of another block", "logarithm of none is zero", "largest is -inf", "sum is zero",
          "sum of one block"]  # fmt: skip
MASKED_GRADIENT = ["mask of another block, backward", "logarithm is -inf", "gradients not at home"]
SHAPES = [("dp", (1, 2, 3, 2)), ("tp", (2, 1, 2, 3)), ("cp", (1, 1, 2, 2)), ("cp", (1, 2, 2, 3, 2)),
          ("tp", (1, 1, 3, 2, 3))]  # fmt: skip
# Of one row on each rank, without masks that are given.
SINGLE = [("dp", (1, 2, 1, 2)), ("tp", (2, 1, 1, 3)), ("cp", (1, 2, 1, 3, 2))]


def infinite_difference(f, axis):
    """What is added and taken off again is no number where it is infinite."""
    x = f.argument((4, 3))
    if f.local:
        most = f.aten("full", size=[4, 3], fill_value=rings.INFINITY, dtype="f64")
        x = f.aten("sub", f.aten("add", x, most), most)
    f.give(x)


def nothing_by_infinity(f, axis):
    """A logarithm that is -inf on some ranks, less itself."""
    x, y = f.argument((12, 3), f"{axis}=0"), f.argument((12, 3), f"{axis}=0")
    if f.local:
        lse = f.aten("log", f.aten("exp", y))
        lse = rings.hidden(f, axis, 1, lse, -rings.INFINITY)
        x = f.aten("add", x, f.aten("sub", lse, lse))
    f.give(x, f"{axis}=0")


def infinite_multiple(f, axis):
    """What is infinite is added and taken off as a product."""
    x, y = f.argument((4, 3)), f.argument((4, 3))
    if f.local:
        most = f.aten("mul", y, f.aten("full", size=[4, 3], fill_value=rings.INFINITY, dtype="f64"))
        x = f.aten("sub", f.aten("add", x, most), most)
    f.give(x)


def filled_with_infinity(f, axis):
    """The same, of what is infinite only where a mask says so."""
    x = f.argument((4, 3))
    if f.local:
        most = f.aten("masked_fill_scalar", x, f.aten("ge_scalar", x, other=0.0), value=rings.INFINITY)
        x = f.aten("sub", f.aten("add", x, most), most)
    f.give(x)


def nothing_times_infinity(f, axis):
    x = f.argument((4, 3))
    if f.local:
        most = f.aten("full", size=[4, 3], fill_value=rings.INFINITY, dtype="f64")
        x = f.aten("add", x, f.aten("mul", most, f.aten("sub", x, x)))
    f.give(x)


def no_part_of_infinity(f, axis):
    x = f.argument((4, 3))
    if f.local:
        most = f.aten("full", size=[4, 3], fill_value=-rings.INFINITY, dtype="f64")
        x = f.aten("add", x, f.aten("mul_scalar", most, other=0.0))
    f.give(x)


def share_of_infinity(f, axis):
    x = f.argument((4, 3))
    if f.local:
        most = f.aten("exp", f.aten("full", size=[4, 3], fill_value=rings.INFINITY, dtype="f64"))
        x = f.aten("mul", x, f.aten("div", most, most))
    f.give(x)


INFINITE = [infinite_difference, nothing_by_infinity, infinite_multiple, filled_with_infinity, nothing_times_infinity,
            no_part_of_infinity, share_of_infinity]  # fmt: skip


def cases():
    for axis, shape in [*SHAPES, *SINGLE]:
        for causal in (False, True):
            for bug in [None, *FORWARD, *(CAUSAL if causal else [])]:
                yield bug, rings.ring, (axis, shape, causal, bug)
            for bug in [None, *GRADIENT, *(CAUSAL[:1] if causal else [])]:
                yield bug, rings.ring_gradient, (axis, shape, causal, bug)
    for axis, shape in SHAPES:
        for bug in [None, *MASKED]:
            yield bug, masks.ring, (axis, shape, bug)
        for bug in [None, *MASKED_GRADIENT]:
            yield bug, masks.ring, (axis, shape, bug, True)
    for write in INFINITE:
        yield write.__name__, write, ("tp",)


@pytest.fixture(scope="module")
def outcomes(build_dir, tmp_path_factory):
    """For each case its error, how far it is from what one device computes, and whether it is proved."""
    folder, made = tmp_path_factory.mktemp("rings"), []
    texts = {"global": "", "local": lemma_programs.print_mesh()}
    for i, (bug, write, arguments) in enumerate(cases()):
        whole, ranks = (lemma_programs.Function(f"case{i}", form, seed() % 1000 + i) for form in ("whole", "right"))
        write(whole, *arguments)
        write(ranks, *arguments)
        made.append((bug, arguments, lemma_programs.difference(ranks, whole)))
        texts["global"] += whole.text()
        texts["local"] += ranks.text()
    for name, text in texts.items():
        (folder / f"{name}.mlir").write_text(text)
    result = subprocess.run(
        [build_dir / "bin" / "cleave-prove", folder / "global.mlir", folder / "local.mlir", "--json", "--execute=false"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 2, result.stderr
    failed = {finding["function"] for finding in json.loads(result.stdout)["findings"]}
    return [(*case, f"case{i}" not in failed) for i, case in enumerate(made)]


def test_rings_are_proved(outcomes):
    for bug, arguments, gap, is_proved in outcomes:
        if bug is None:
            assert gap < 1e-9 and is_proved, arguments


def test_no_error_in_a_ring_is_proved(outcomes):
    for bug, arguments, gap, is_proved in outcomes:
        assert not (is_proved and not gap <= 1e-9), (bug, arguments, gap)
    # Each of them is one on some mesh.
    for bug in [*FORWARD, *CAUSAL, *GRADIENT, *MASKED, *MASKED_GRADIENT, *(write.__name__ for write in INFINITE)]:
        assert any(other == bug and not gap <= 1e-9 for other, _, gap, _ in outcomes), bug
