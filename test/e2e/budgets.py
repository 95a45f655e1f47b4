"""Budgets of memory, for tests that try several."""


def spread(high, low, count):
    """That many, from the highest to the lowest."""
    return [high - (high - low) * i // (count - 1) for i in range(count)]


def spread_frontier(frontier, count):
    """From what keeps everything to the least that a partition was found for."""
    return spread(frontier[-1]["step_peak_bytes"], frontier[0]["step_peak_bytes"], count)
