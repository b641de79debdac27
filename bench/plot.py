"""A plot as SVG: lines over two logarithmic axes, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 430, 300, 58, 16, 34, 46
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


class Series(NamedTuple):
    """One line with its name; points from left to right."""

    name: str
    points: list[tuple[float, float]]


Panel = tuple[str, str, str, Sequence[Series]]
"""Title, what is to the right, what is upwards, and the lines."""


def plot(panels: Sequence[Panel]) -> str:
    """The panels in a row."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({number * WIDTH},0)">', *_panel(*panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, across: str, up: str, lines: Sequence[Series]) -> list[str]:
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    low_x, high_x = math.log10(min(xs)), math.log10(max(xs))
    low_y, high_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def at(x: float, y: float) -> tuple[float, float]:
        right = LEFT + (math.log10(x) - low_x) / (high_x - low_x or 1) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (math.log10(y) - low_y) / (high_y - low_y or 1) * (HEIGHT - TOP - BOTTOM)
        return right, down

    parts = [f'<text x="{LEFT}" y="20" font-size="13" font-weight="bold">{escape(title)}</text>']
    for power in range(low_y, high_y + 1):
        _, y = at(10**low_x, 10.0**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} {escape(up)}</text>')
    for x in sorted(set(xs)):
        right, _ = at(x, 10.0**low_y)
        parts.append(f'<text x="{right:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>'
    )
    for number, line in enumerate(lines):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*each) for each in line.points))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        y = TOP + 14 + 16 * number
        parts.append(f'<line x1="{LEFT + 10}" x2="{LEFT + 40}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2" ')
        parts.append(f'stroke-dasharray="{dash}"/><text x="{LEFT + 46}" y="{y + 4}">{escape(line.name)}</text>')
    return parts
