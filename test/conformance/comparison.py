"""How equality is measured: the largest difference, over the largest element."""

import torch

FLOAT64 = 1e-10


def difference(found, expected, floor=1e-6):
    """max|a - b| / max(max|b|, floor)."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if found.numel() == 0:
        return 0.0
    gap = (found.double() - expected.double()).abs().max()
    return (
        float("inf") if torch.isnan(gap) else float(gap / max(expected.abs().max().item(), floor))
    )


def assert_close(found, expected, what, tolerance=FLOAT64):
    assert difference(found, expected) < tolerance, (what, found, expected)
