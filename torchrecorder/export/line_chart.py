"""Line chart: lines over steps, as a small SVG; and the parts that all charts share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from xml.sax.saxutils import escape

from torchrecorder.graph.flat import printable
from torchrecorder.layout.measure import text_width
from torchrecorder.style.color import scale
from torchrecorder.style.labels import shorten

INK, QUIET, FAINT, PAPER = "#1b1f24", "#5b6470", "#d5d9de", "#ffffff"
FONT_SIZE = 11

NAMED = 12
"""Maximum number of lines that have names."""


def paper(width: int, height: int, left: int, title: str) -> Iterator[str]:
    """The start of the file, the paper, and the title above the left end of the axis."""
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="{FONT_SIZE}" fill="{INK}">'
    )
    yield f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
    yield f'<text x="{left}" y="20" font-size="13">{escape(title)}</text>'


def grid_line(left: int, right: int, y: float, label: str) -> Iterator[str]:
    """A horizontal line of the grid, with its label at the left."""
    yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{FAINT}"/>'
    yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'


def named(ends: Mapping[str, float], notable: Collection[str]) -> frozenset[str]:
    """The lines with names: all if they are few; else those with the largest and smallest last
    number, up to half of them from the *notable* ones."""
    if len(ends) <= NAMED:
        return frozenset(ends)
    ranked = sorted(ends, key=lambda name: ends[name])
    first = [*_from_both_ends([name for name in ranked if name in notable])]
    others = _from_both_ends([name for name in ranked if name not in notable])
    half = NAMED // 2
    return frozenset([*first[:half], *others, *first[half:]][:NAMED])


def _from_both_ends(ranked: Sequence[str]) -> Iterator[str]:
    """The last, the first, the last but one, the second ..."""
    for place in range(len(ranked)):
        yield ranked[place // 2] if place % 2 else ranked[-1 - place // 2]


def common_parent(names: Collection[str]) -> str:
    """The dotted path that all names are below; empty if there is none.

    Example:
        >>> common_parent(["encoder.layer.0.norm", "encoder.layer.1"])
        'encoder.layer'
    """
    return ".".join(commonprefix([name.split(".")[:-1] for name in names]))


END, HEIGHT = 410, 336
LEFT, TOP, BOTTOM = 64, 50, 40
MARGIN = 8.0
"""Space between the longest name and the edge of the paper."""
NAMES_AT = END + 14
COLORS = ("#0b62a4", "#00795c", "#b84a00")
"""The colors of the lines that have names, from the first to the last."""
OTHERS = "#bcc2c9"
"""The color of the lines without a name."""
SPACING = 12.0
"""Minimum distance in points of labels at the ends of lines."""


@dataclass
class LineChart:
    """A chart, which computes positions and writes the SVG."""

    title: str
    across: str  # the label of the horizontal axis
    # by dotted name, in order; the first is blue, the last orange. If there are many, those that
    # end highest and lowest have their names beside them, and the others are gray
    lines: Mapping[str, Sequence[tuple[float, float]]]
    logarithmic: bool  # whether the vertical axis is logarithmic
    show: Callable[[float], str]  # formats a number as short text
    notable: Collection[str] = ()  # lines with remarks, which are named before others

    def __post_init__(self) -> None:
        shown = {name: [p for p in line if self._shows(p[1])] for name, line in self.lines.items()}
        self.drawn = {name: line for name, line in shown.items() if line}
        self.parent = common_parent(self.drawn) if len(self.drawn) > 1 else ""
        ends = {name: line[-1][1] for name, line in self.drawn.items()}
        chosen = named(ends, self.notable)
        self.labels = {name: self._label(name) for name in self.drawn if name in chosen}
        steps = [step for line in self.drawn.values() for step, _ in line] or [0.0]
        heights = [self._height(number) for line in self.drawn.values() for _, number in line]
        self.first, self.last = min(steps), max(steps)
        self.low, self.high = min(heights, default=0.0), max(heights, default=1.0)
        size = max(abs(self.low), abs(self.high))
        if self.high - self.low <= 1e-12 * size:
            margin = max(0.5, 1e-3 * size)  # a smaller one would be lost beside a large number
            self.low, self.high = self.low - margin, self.high + margin

    @property
    def width(self) -> int:
        """The width of the paper, with room for the longest name."""
        names = (text_width(label, FONT_SIZE) for label in self.labels.values())
        return math.ceil(max([*names, 0.0]) + NAMES_AT + MARGIN)

    def _shows(self, number: float) -> bool:
        return math.isfinite(number) and (number > 0 or not self.logarithmic)

    def _height(self, number: float) -> float:
        return math.log10(number) if self.logarithmic else number

    def x(self, step: float) -> float:
        """The x coordinate of a step."""
        span = (self.last - self.first) or 1.0
        return LEFT + (step - self.first) / span * (END - LEFT)

    def y(self, height: float) -> float:
        """The y coordinate of a height."""
        share = (height - self.low) / (self.high - self.low)
        return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)

    def svg(self) -> str:
        """The chart as SVG text."""
        return printable("\n".join(self._parts())) + "\n"

    def _parts(self) -> Iterator[str]:
        yield from paper(self.width, HEIGHT, LEFT, self.title)
        if note := self._note():
            yield f'<text x="{LEFT}" y="{TOP - 14}" fill="{QUIET}">{escape(note)}</text>'
        if self.drawn:
            yield from self._axes()
            yield from self._curves()
        yield "</svg>"

    def _axes(self) -> Iterator[str]:
        for height in self._ticks():
            text = self.show(10**height if self.logarithmic else height)
            yield from grid_line(LEFT, END, self.y(height), text)
        base = HEIGHT - BOTTOM + 16
        for step in dict.fromkeys((self.first, self.last)):
            yield f'<text x="{self.x(step):.1f}" y="{base}" text-anchor="middle">{step:g}</text>'
        middle = (LEFT + END) / 2
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
        """The gray lines, then those that have names, on top."""
        for name in self.drawn:
            if name not in self.labels:
                yield from self._curve(name, OTHERS, 0.9)
        places = self._label_places()
        for number, name in enumerate(self.labels):
            color = scale(COLORS, number / max(1, len(self.labels) - 1))
            yield from self._curve(name, color, 1.6)
            yield from self._named(name, color, places[name])

    def _curve(self, name: str, color: str, width: float) -> Iterator[str]:
        """One line, with its whole name as tooltip; a dot if it has only one point."""
        points = self._points(name)
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        tooltip = f"<title>{escape(name)}</title>"
        yield (
            f'<polyline points="{joined}" fill="none" stroke="{color}" '
            f'stroke-width="{width:g}">{tooltip}</polyline>'
        )
        if len(points) == 1:
            x, y = points[0]
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}">{tooltip}</circle>'

    def _points(self, name: str) -> list[tuple[float, float]]:
        return [(self.x(step), self.y(self._height(found))) for step, found in self.drawn[name]]

    def _named(self, name: str, color: str, at: float) -> Iterator[str]:
        """The name of a line, connected with its end."""
        x, y = self._points(name)[-1]
        yield (
            f'<path d="M{x + 2:.1f},{y:.1f} L{NAMES_AT - 3},{at:.1f}" fill="none" '
            f'stroke="{color}" stroke-width="0.6"/>'
        )
        text = escape(self.labels[name])
        yield f'<text x="{NAMES_AT}" y="{at + 4:.1f}" fill="{color}">{text}</text>'

    def _label(self, name: str) -> str:
        return shorten(name[len(self.parent) + 1 :] if self.parent else name)

    def _note(self) -> str:
        """The common start of all names, and which lines are named; or that there are none."""
        if not self.drawn:
            return "no numbers to show"
        where = f"in {self.parent}" if self.parent else ""
        all_, some = len(self.drawn), len(self.labels)
        which = ", those with remarks" if any(name in self.notable for name in self.labels) else ""
        few = f"{some} of {all_} are named: highest, lowest{which}" if some < all_ else ""
        return "; ".join(filter(None, (where, few)))

    def _label_places(self) -> dict[str, float]:
        """Positions of labels beside the ends of lines, without overlaps."""
        ends = sorted((self._points(name)[-1][1], name) for name in self.labels)
        placed: dict[str, float] = {}
        span, last = SPACING * (len(ends) - 1), TOP - SPACING
        crowded = bool(ends) and span > ends[-1][0] - ends[0][0]
        if crowded:
            last = max(last, (ends[0][0] + ends[-1][0] - span) / 2 - SPACING)
        for y, name in ends:
            last = placed[name] = last + SPACING if crowded else max(y, last + SPACING)
        limit = HEIGHT - 8.0
        for _, name in reversed(ends):
            placed[name] = min(placed[name], limit)
            limit = placed[name] - SPACING
        return placed
