"""LineChart: lines over steps, as a small SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from torchrecorder.export.chart_svg import grid_line, paper
from torchrecorder.graph.flat import printable
from torchrecorder.style.color import mix

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 34, 40
FIRST, LAST = "#0072b2", "#d55e00"
SPACING = 12.0
"""Minimum distance in points of labels at the ends of lines."""


@dataclass
class LineChart:
    """A chart, which computes positions and writes the SVG.

    Attributes:
        title: The title.
        across: The label of the horizontal axis.
        lines: By name, in order; the first is blue, the last orange.
        logarithmic: Whether the vertical axis is logarithmic.
        show: Formats a number as short text.
    """

    title: str
    across: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    logarithmic: bool
    show: Callable[[float], str]

    def __post_init__(self) -> None:
        shown = {name: [p for p in line if self._shows(p[1])] for name, line in self.lines.items()}
        self.drawn = {name: line for name, line in shown.items() if line}
        steps = [step for line in self.drawn.values() for step, _ in line] or [0.0]
        heights = [self._height(number) for line in self.drawn.values() for _, number in line]
        self.first, self.last = min(steps), max(steps)
        self.low, self.high = min(heights, default=0.0), max(heights, default=1.0)
        size = max(abs(self.low), abs(self.high))
        if self.high - self.low <= 1e-12 * size:
            margin = max(0.5, 1e-3 * size)  # a smaller one would be lost beside a large number
            self.low, self.high = self.low - margin, self.high + margin

    def _shows(self, number: float) -> bool:
        return math.isfinite(number) and (number > 0 or not self.logarithmic)

    def _height(self, number: float) -> float:
        return math.log10(number) if self.logarithmic else number

    def x(self, step: float) -> float:
        """The x coordinate of a step."""
        span = (self.last - self.first) or 1.0
        return LEFT + (step - self.first) / span * (WIDTH - LEFT - RIGHT)

    def y(self, height: float) -> float:
        """The y coordinate of a height."""
        share = (height - self.low) / (self.high - self.low)
        return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)

    def svg(self) -> str:
        """The chart as SVG text."""
        return printable("\n".join(self._parts())) + "\n"

    def _parts(self) -> Iterator[str]:
        yield from paper(WIDTH, HEIGHT, LEFT, self.title)
        yield from self._axes()
        yield from self._curves()
        yield "</svg>"

    def _axes(self) -> Iterator[str]:
        end = WIDTH - RIGHT
        for height in self._ticks():
            text = self.show(10**height if self.logarithmic else height)
            yield from grid_line(LEFT, end, self.y(height), text)
        base = HEIGHT - BOTTOM + 16
        for step in dict.fromkeys((self.first, self.last)):
            yield f'<text x="{self.x(step):.1f}" y="{base}" text-anchor="middle">{step:g}</text>'
        middle = (LEFT + end) / 2
        across = escape(self.across)
        yield f'<text x="{middle:.1f}" y="{base}" text-anchor="middle">{across}</text>'

    def _ticks(self) -> list[float]:
        """Heights of the grid lines: powers of ten, or quarters of the range."""
        if self.logarithmic and self.high - self.low >= 1:
            low, high = math.ceil(self.low), math.floor(self.high)
            apart = max(1, math.ceil((high - low + 1) / 7))
            return [float(tick) for tick in range(low, high + 1, apart)]
        return [self.low + (self.high - self.low) * part / 4 for part in range(5)]

    def _curves(self) -> Iterator[str]:
        places = self._label_places()
        for number, (name, line) in enumerate(self.drawn.items()):
            color = mix(FIRST, LAST, number / max(1, len(self.drawn) - 1))
            points = [(self.x(step), self.y(self._height(found))) for step, found in line]
            joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            yield f'<polyline points="{joined}" fill="none" stroke="{color}" stroke-width="1.6"/>'
            if len(points) == 1:
                yield '<circle cx="{:.1f}" cy="{:.1f}" r="2.5" '.format(*points[0]) + (
                    f'fill="{color}"/>'
                )
            (x, y), at = points[-1], places[name]
            start = WIDTH - RIGHT + 14
            yield (
                f'<path d="M{x + 2:.1f},{y:.1f} L{start - 3},{at:.1f}" fill="none" '
                f'stroke="{color}" stroke-width="0.6"/>'
            )
            yield f'<text x="{start}" y="{at + 4:.1f}" fill="{color}">{escape(_short(name))}</text>'

    def _label_places(self) -> dict[str, float]:
        """Positions of labels beside the ends of lines, without overlaps."""
        ends = [(self.y(self._height(line[-1][1])), name) for name, line in self.drawn.items()]
        ends.sort(key=lambda end: end[0])
        spacing = min(SPACING, (HEIGHT - TOP) / max(1, len(ends)))
        placed: dict[str, float] = {}
        span, last = spacing * (len(ends) - 1), TOP - spacing
        crowded = bool(ends) and span > ends[-1][0] - ends[0][0]
        if crowded:
            last = max(last, (ends[0][0] + ends[-1][0] - span) / 2 - spacing)
        for y, name in ends:
            last = placed[name] = last + spacing if crowded else max(y, last + spacing)
        limit = HEIGHT - 8.0
        for _, name in reversed(ends):
            placed[name] = min(placed[name], limit)
            limit = placed[name] - spacing
        return placed


def _short(name: str) -> str:
    return name if len(name) <= 24 else "…" + name[-23:]
