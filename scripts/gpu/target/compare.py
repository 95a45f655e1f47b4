"""How far two sets of values are apart, as docs/design.md, section 7, measures it."""

import re

import torch


def gradient_floor(reference):
    """1e-3 of the median over gradients of their largest element: below that a gradient is rounding."""
    largest = sorted(
        float(value.abs().max()) for name, value in reference.items() if name.startswith("grad.") and value.numel()
    )
    return 1e-3 * largest[len(largest) // 2] if largest else 0.0


def differences(values, reference, ignored=None):
    """max|a-b| / max(max|b|, floor) by name; what only one has is infinitely far.

    ignored: a regular expression of names whose value is rounding by mathematics.
    """
    floor = gradient_floor(reference)
    result = {}
    for name in sorted(set(values) | set(reference)):
        if ignored and re.fullmatch(ignored, name):
            continue
        a, b = values.get(name), reference.get(name)
        if a is None or b is None or a.shape != b.shape:
            result[name] = float("inf")
            continue
        if a.numel() == 0:
            result[name] = 0.0
            continue
        a, b = a.detach().cpu().double(), b.detach().cpu().double()
        if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
            result[name] = float("inf")
            continue
        scale = max(float(b.abs().max()), floor)
        apart = float((a - b).abs().max())
        result[name] = 0.0 if apart == 0 else apart / scale if scale else float("inf")
    return result


def worst(apart):
    """The name and the distance of the value that is farthest."""
    name = max(apart, key=apart.get)
    return name, apart[name]


def distance(values, reference, ignored=None):
    """||a - b|| / ||b|| over all gradients together, and over the loss."""
    above = below = 0.0
    for name, b in reference.items():
        if not name.startswith("grad.") or (ignored and re.fullmatch(ignored, name)):
            continue
        if name not in values or values[name].shape != b.shape:
            return float("inf"), float("inf")
        b = b.detach().cpu().double()
        above += float((values[name].detach().cpu().double() - b).square().sum())
        below += float(b.square().sum())
    loss = abs(float(values["loss"]) - float(reference["loss"])) / abs(float(reference["loss"]))
    gradients = (above / below) ** 0.5 if below else float("inf")
    return loss, gradients if gradients == gradients else float("inf")
