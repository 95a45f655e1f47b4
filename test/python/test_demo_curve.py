"""The demo's picture of two loss curves: axes with titles and round numbers."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest


@pytest.fixture(scope="module")
def curve(source_dir):
    sys.path.insert(0, str(source_dir / "examples" / "demo"))
    try:
        import curve
    finally:
        sys.path.pop(0)
    return curve


@pytest.mark.parametrize("low, high, ticks, digits", [
    (4.56, 5.55, [4.6, 4.8, 5.0, 5.2, 5.4], 1),
    (0, 48, [0, 10, 20, 30, 40], 0),
    (0.00012, 0.00091, [0.0002, 0.0004, 0.0006, 0.0008], 4),
    (2, 2, [2], 0),
    (-3, 1200, [0, 500, 1000], 0),
])
def test_ticks_are_round(curve, low, high, ticks, digits):
    found, found_digits = curve.round_ticks(low, high, 6)
    assert found == pytest.approx(ticks) and found_digits == digits


def test_axes_have_titles_and_round_numbers(curve):
    losses = [5.5456 - 0.0206 * step for step in range(48)]
    svg = curve.as_svg({"Cleave": losses, "PyTorch": losses})
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]
    assert {"step", "loss (mean over the batch)", "Cleave", "PyTorch"} <= set(texts)
    numbers = [text for text in texts if re.fullmatch(r"[\d.]+", text)]
    assert {"1", "10", "20", "30", "40", "4.6", "5.0", "5.4"} <= set(numbers), numbers
    assert all(re.fullmatch(r"1|\d0|\d\.\d", text) for text in numbers), numbers
