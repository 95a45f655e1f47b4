"""Draws two loss curves: as text for a terminal, and as an SVG."""

import math

LOSS_COLOURS = ("#1f77b4", "#d95f02")


def round_ticks(low, high, most):
    """At most `most` round numbers from `low` to `high`, and the digits that tell them apart."""
    rough = (high - low) / max(most - 1, 1) or 1
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(k * unit for k in (1, 2, 5, 10) if k * unit >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    ticks = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return ticks, max(0, -math.floor(math.log10(step) + 1e-9))


def as_text(series, width=72, height=14):
    """Lines of a character plot; `series` maps a label to losses by step."""
    values = [v for losses in series.values() for v in losses]
    low, high = min(values), max(values)
    grid = [[" "] * width for _ in range(height)]
    # The first series is drawn last, so that its marks lie on top where both agree.
    for mark, losses in reversed(list(zip("*o", series.values()))):
        for column in range(width):
            loss = losses[round(column * (len(losses) - 1) / (width - 1))]
            row = round((high - loss) / ((high - low) or 1) * (height - 1))
            grid[row][column] = mark
    lines = []
    for i, row in enumerate(grid):
        label = high - (high - low) * i / (height - 1)
        lines.append(f"{label:7.3f} |{''.join(row)}")
    steps = len(next(iter(series.values())))
    lines.append(" " * 8 + "+" + "-" * width)
    lines.append(" " * 9 + "step 1" + f"step {steps}".rjust(width - 6))
    lines.append(" " * 9 + ", ".join(f"{m} {label}" for m, label in zip("*o", series)))
    return lines


def as_svg(series, width=860, height=430):
    """The text of an SVG document."""
    left, right, top, bottom = 72, 20, 46, 56
    values = [v for losses in series.values() for v in losses]
    low, high = min(values), max(values)
    steps = max(len(losses) for losses in series.values())

    def x(step):
        return left + (width - left - right) * step / max(steps - 1, 1)

    def y(loss):
        return top + (height - top - bottom) * (high - loss) / ((high - low) or 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="16">Loss of each step</text>',
    ]
    losses, digits = round_ticks(low, high, 6)
    for loss in losses:
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" '
                     'stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.{digits}f}</text>')
    # Steps count from 1, which is a tick whatever is round.
    for step in sorted({1, *(max(1, round(tick)) for tick in round_ticks(0, steps, 7)[0])}):
        at = x(step - 1)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{height - bottom}" y2="{height - bottom + 5}" '
                     'stroke="#888"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - bottom + 20}" text-anchor="middle">{step}</text>')
    middle = (top + height - bottom) / 2
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">step</text>')
    parts.append(f'<text x="18" y="{middle}" text-anchor="middle" '
                 f'transform="rotate(-90 18 {middle})">loss (mean over the batch)</text>')
    at = width - right - 300
    parts.append(f'<rect x="{at - 8}" y="{top}" width="308" height="{8 + 20 * len(series)}" fill="white"/>')
    # The second curve lies on the first: it is drawn dashed, so that both are seen.
    for i, (label, losses) in enumerate(series.items()):
        points = " ".join(f"{x(s):.1f},{y(loss):.1f}" for s, loss in enumerate(losses))
        dash = ' stroke-dasharray="7 7"' if i else ""
        stroke = f'stroke="{LOSS_COLOURS[i]}" stroke-width="{2.5 - i * 0.5}"{dash}'
        parts.append(f'<polyline points="{points}" fill="none" {stroke}/>')
        parts.append(f'<line x1="{at}" x2="{at + 36}" y1="{top + 14 + 20 * i}" y2="{top + 14 + 20 * i}" '
                     f'{stroke}/>')
        parts.append(f'<text x="{at + 44}" y="{top + 18 + 20 * i}">{label}</text>')
    parts.append("</svg>")
    return "\n".join(parts)
