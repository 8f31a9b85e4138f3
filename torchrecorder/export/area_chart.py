"""AreaChart: stacked amounts over the time of a run, as a small SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from torchrecorder.export.line_chart import INK, QUIET, grid_line, paper
from torchrecorder.graph.flat import printable

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 72, 196, 54, 48
_LETTER = 5.6
"""The average width of a letter, in points."""


@dataclass(frozen=True)
class Phase:
    """A part of the run: it begins with this column."""

    begin: int
    name: str


@dataclass
class AreaChart:
    """A chart, which computes positions and writes the SVG."""

    title: str
    across: str  # the label of the horizontal axis
    columns: Sequence[Sequence[float]]  # for each moment, the amount of each kind, the lowest first
    kinds: Mapping[str, str]  # the kinds, with their colors, in that order
    phases: Sequence[Phase]  # the phases of the run
    peak: int  # the index of the column with the largest sum
    peak_label: str  # the label of the peak
    show: Callable[[float], str]  # formats an amount as short text

    def __post_init__(self) -> None:
        self.sums = [sum(column) for column in self.columns]
        self.highest = max(self.sums, default=0.0) or 1.0
        self.step = _round_step(self.highest)
        self.top = self.step * math.ceil(self.highest / self.step)
        self.count = len(self.columns)
        self.shown = self._sampled()

    def _sampled(self) -> list[int]:
        """The columns that are drawn: the highest within each point."""
        room = WIDTH - LEFT - RIGHT
        if self.count <= room:
            return list(range(self.count))
        best: dict[int, int] = {}
        for place, total in enumerate(self.sums):
            at = place * room // self.count
            if at not in best or total > self.sums[best[at]]:
                best[at] = place
        return list(best.values())

    def x(self, place: float) -> float:
        """The x coordinate of the start of a column."""
        return LEFT + place / max(1, self.count) * (WIDTH - LEFT - RIGHT)

    def y(self, amount: float) -> float:
        """The y coordinate of an amount."""
        return TOP + (1 - amount / self.top) * (HEIGHT - TOP - BOTTOM)

    def svg(self) -> str:
        """The chart as SVG text."""
        return printable("\n".join(self._parts())) + "\n"

    def _parts(self) -> Iterator[str]:
        yield from paper(WIDTH, HEIGHT, LEFT, self.title)
        yield from self._axis()
        yield from self._areas()
        yield from self._phases()
        yield from self._peak()
        yield from self._legend()
        yield "</svg>"

    def _axis(self) -> Iterator[str]:
        end = WIDTH - RIGHT
        for number in range(round(self.top / self.step) + 1):
            amount = number * self.step
            yield from grid_line(LEFT, end, self.y(amount), self.show(amount))
        yield (
            f'<text x="{(LEFT + end) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle" '
            f'fill="{QUIET}">{escape(self.across)}</text>'
        )

    def _areas(self) -> Iterator[str]:
        """One polygon per kind, stacked."""
        below = [0.0] * len(self.shown)
        for number, color in enumerate(self.kinds.values()):
            amounts = [self.columns[place][number] for place in self.shown]
            if any(amounts):
                above = [low + amount for low, amount in zip(below, amounts)]
                edge = [*self._steps(above), *reversed(list(self._steps(below)))]
                points = " ".join(f"{x:.1f},{y:.1f}" for x, y in edge)
                yield f'<polygon points="{points}" fill="{color}"/>'
                below = above

    def _steps(self, amounts: Sequence[float]) -> Iterator[tuple[float, float]]:
        ends = [*self.shown[1:], self.count]
        for place, end, amount in zip(self.shown, ends, amounts):
            yield self.x(place), self.y(amount)
            yield self.x(end), self.y(amount)

    def _phases(self) -> Iterator[str]:
        """Names of phases under the axis, if there is room, with lines between them."""
        base, phases = HEIGHT - BOTTOM, self.phases
        ends = [*(phase.begin for phase in phases[1:]), self.count]
        for phase, end in zip(phases, ends):
            left, right = self.x(phase.begin), self.x(end)
            yield (
                f'<line x1="{left:.1f}" y1="{base}" x2="{left:.1f}" y2="{base + 6}" '
                f'stroke="{QUIET}"/>'
            )
            if right - left >= _LETTER * len(phase.name):
                yield (
                    f'<text x="{(left + right) / 2:.1f}" y="{base + 16}" '
                    f'text-anchor="middle">{escape(phase.name)}</text>'
                )

    def _peak(self) -> Iterator[str]:
        """A mark at the peak, with its label."""
        if not self.count:
            return
        x, y = self.x(self.peak + 0.5), self.y(self.highest)
        yield (
            f'<line x1="{x:.1f}" y1="{TOP - 10}" x2="{x:.1f}" y2="{y - 2:.1f}" stroke="{INK}" '
            f'stroke-width="0.8"/>'
        )
        half = _LETTER * len(self.peak_label) / 2
        middle = min(max(x, LEFT + half), max(WIDTH - 8 - half, LEFT + half))
        yield (
            f'<text x="{middle:.1f}" y="{TOP - 14}" text-anchor="middle">'
            f"{escape(self.peak_label)}</text>"
        )

    def _legend(self) -> Iterator[str]:
        """The kinds in the order of stacking, with their amounts at the peak."""
        if not self.count:
            return
        x, y = WIDTH - RIGHT + 16, TOP + 4
        yield f'<text x="{x}" y="{y + 9}" fill="{QUIET}">at the peak</text>'
        column = self.columns[self.peak]
        kinds = zip(column, self.kinds.items(), zip(*self.columns))
        for amount, (kind, color), everywhere in reversed([*kinds]):
            if not any(everywhere):
                continue
            y += 20
            text = f"{kind}  {self.show(amount)}"
            yield f'<rect x="{x}" y="{y}" width="11" height="11" fill="{color}"/>'
            yield f'<text x="{x + 17}" y="{y + 9.5:.1f}">{escape(text)}</text>'


def _round_step(highest: float) -> float:
    """The distance of grid lines: 1, 2 or 5 times a power of ten, at most six of them."""
    size = 10.0 ** max(0, math.floor(math.log10(highest / 5)))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor * 6 >= highest)
