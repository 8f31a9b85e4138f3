"""Edge routing: join the sections of an edge in all scopes to one route from box to box."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from torchrecorder.layout.layered.constants import CORNER_RADIUS
from torchrecorder.layout.layered.items import Link
from torchrecorder.layout.layered.place import EdgeSection, Picture
from torchrecorder.layout.layered.ports import Carried
from torchrecorder.layout.layered.positions import TOLERANCE, PlanePoint

CONTROL_SHARE = 0.45
"""The relative position of the control points of rounded corners."""


def edge_routes(picture: Picture, links: Iterable[Link]) -> Iterator[tuple[PlanePoint, ...]]:
    """The corners of each of *links*, from its tail to its head; both are drawn."""
    into: dict[tuple[Carried, int], list[EdgeSection]] = {}
    out: dict[tuple[Carried, int], EdgeSection] = {}
    for section in picture.sections:
        carried = (section.maker, section.value)
        if section.exits:
            out[carried, section.scope] = section
        else:
            into.setdefault((carried, section.head), []).append(section)
    copies: dict[Link, int] = {}
    for link in links:
        copies[link] = copies.get(link, -1) + 1
        carried = (link.tail, link.value)
        sections = [into[carried, link.head][copies[link]]]
        while sections[-1].tail == sections[-1].scope:
            sections.append(into[carried, sections[-1].scope][0])
        child = sections[-1].tail
        while child != link.tail:
            sections.append(out[carried, child])
            child = sections[-1].tail
        yield corners(point for section in reversed(sections) for point in section.points)


def corners(points: Iterable[PlanePoint]) -> tuple[PlanePoint, ...]:
    """*points* reduced to the corners and the ends of an edge."""
    found: list[PlanePoint] = []
    for point in points:
        if found:
            before = found[-1]
            upright = abs(point[0] - before[0]) < TOLERANCE
            level = abs(point[1] - before[1]) < TOLERANCE
            if upright and level:
                continue
            if len(found) > 1 and (upright or level):
                first, along = found[-2], int(upright)
                straight = abs(point[1 - along] - first[1 - along]) < TOLERANCE
                if straight and (before[along] > first[along]) == (point[along] > before[along]):
                    found.pop()
        found.append(point)
    return tuple(found)


class Trunks:
    """The segments that are drawn already, so that common segments of edges are drawn once."""

    def __init__(self) -> None:
        self.drawn: dict[object, list[tuple[float, float]]] = {}

    def fresh(self, carried: object, points: Sequence[PlanePoint]) -> tuple[PlanePoint, ...]:
        """The part of a route that is not drawn yet for this tensor. It begins shortly before the
        branch."""
        start, at = 0, points[0]
        for number, (one, other) in enumerate(zip(points, points[1:])):
            reached = self._reached(carried, one, other)
            if reached <= 0:
                break
            start, at = number, toward(one, other, reached - CORNER_RADIUS)
            if reached < math.dist(one, other) - 0.01:
                break
        for one, other in zip(points[start:], points[start + 1 :]):
            self._draw(carried, one, other)
        return (at, *points[start + 1 :])

    def _reached(self, carried: object, one: PlanePoint, other: PlanePoint) -> float:
        """How much of a segment is drawn already, from its start."""
        axis, begin, end = _placed(one, other)
        for low, high in self.drawn.get((carried, axis), ()):
            if low - 0.01 <= begin <= high + 0.01:
                edge = high if end > begin else low
                return min(abs(end - begin), abs(edge - begin))
        return 0.0

    def _draw(self, carried: object, one: PlanePoint, other: PlanePoint) -> None:
        axis, begin, end = _placed(one, other)
        low, high = min(begin, end), max(begin, end)
        apart = []
        for item in self.drawn.get((carried, axis), ()):
            if item[1] < low - 0.01 or item[0] > high + 0.01:
                apart.append(item)
            else:
                low, high = min(low, item[0]), max(high, item[1])
        self.drawn[carried, axis] = [*apart, (low, high)]


def _placed(one: PlanePoint, other: PlanePoint) -> tuple[tuple[bool, int], float, float]:
    """The axis of a segment, and its start and end on this axis."""
    upright = abs(one[0] - other[0]) < abs(one[1] - other[1])
    here = 0 if upright else 1
    return (upright, round(one[here] * 10)), one[1 - here], other[1 - here]


def rounded(points: Sequence[PlanePoint]) -> list[PlanePoint]:
    """A cubic Bézier spline along *points* with round corners: the first point, then three points
    for each curve."""
    here = points[0]
    spline = [here]
    for before, corner, after in zip(points, points[1:], points[2:]):
        (x, y), back, ahead = corner, _step(corner, before), _step(corner, after)
        came, goes = math.hypot(*back) or 1.0, math.hypot(*ahead) or 1.0
        radius = min(CORNER_RADIUS, came / 2, goes / 2)
        (ax, ay), (bx, by) = back, ahead
        ax, ay, bx, by = (
            ax * radius / came, ay * radius / came, bx * radius / goes, by * radius / goes
        )
        one, other = (x + ax, y + ay), (x + bx, y + by)
        leaves = x + ax * CONTROL_SHARE, y + ay * CONTROL_SHARE
        enters = x + bx * CONTROL_SHARE, y + by * CONTROL_SHARE
        spline += (here, one, one, leaves, enters, other)
        here = other
    spline += (here, points[-1], points[-1])
    return spline


def _step(one: PlanePoint, other: PlanePoint) -> PlanePoint:
    return other[0] - one[0], other[1] - one[1]


def toward(one: PlanePoint, other: PlanePoint, far: float) -> PlanePoint:
    """The point at distance *far* from *one*, toward *other*."""
    share = max(0.0, min(1.0, far / (math.dist(one, other) or 1.0)))
    return one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share
