"""Draws two loss curves: as text for a terminal, and as an SVG."""

LOSS_COLOURS = ("#1f77b4", "#d95f02")


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
    left, right, top, bottom = 60, 20, 46, 44
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
    for i in range(6):
        loss = low + (high - low) * i / 5
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" '
                     'stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
        step = round((steps - 1) * i / 5)
        parts.append(f'<text x="{x(step):.1f}" y="{height - 20}" text-anchor="middle">{step + 1}</text>')
    # The second curve lies on the first: it is drawn dashed, so that both are seen.
    for i, (label, losses) in enumerate(series.items()):
        points = " ".join(f"{x(s):.1f},{y(loss):.1f}" for s, loss in enumerate(losses))
        dash = ' stroke-dasharray="7 7"' if i else ""
        stroke = f'stroke="{LOSS_COLOURS[i]}" stroke-width="{2.5 - i * 0.5}"{dash}'
        parts.append(f'<polyline points="{points}" fill="none" {stroke}/>')
        at = width - right - 300
        parts.append(f'<line x1="{at}" x2="{at + 36}" y1="{top + 14 + 20 * i}" y2="{top + 14 + 20 * i}" '
                     f'{stroke}/>')
        parts.append(f'<text x="{at + 44}" y="{top + 18 + 20 * i}">{label}</text>')
    parts.append("</svg>")
    return "\n".join(parts)
