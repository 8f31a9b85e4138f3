"""Positions: where Graphviz put things, read from its JSON.

Graphviz counts upwards from the lower left corner; here y grows downwards from the upper
left one, as on every screen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Point = tuple[float, float]

_POINTS_PER_INCH = 72.0


@dataclass(frozen=True, slots=True)
class Spot:
    """A node: its centre and size, in points."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Area:
    """A cluster: upper left corner and size; *label* is the centre of its label."""

    x: float
    y: float
    width: float
    height: float
    label: Point | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """An edge.

    Attributes:
        tail: Name of the node it leaves.
        head: Name of the node it enters.
        id: Its ``id`` attribute, which tells parallel edges apart; empty if it has none.
        curve: Control points of a cubic Bézier spline: the first point, then three for each
            piece.
        start: Tip of the arrow at the tail, if there is one.
        end: Tip of the arrow at the head, if there is one.
        label: Centre of its label, if it has one.
    """

    tail: str
    head: str
    id: str
    curve: tuple[Point, ...]
    start: Point | None = None
    end: Point | None = None
    label: Point | None = None


@dataclass(frozen=True)
class Positions:
    """A laid-out graph: sizes in points, nodes and clusters by name, edges as written."""

    width: float
    height: float
    nodes: Mapping[str, Spot]
    clusters: Mapping[str, Area]
    edges: tuple[Route, ...]


def read_positions(laid_out: bytes) -> Positions:
    """Positions in what Graphviz writes as ``json0``."""
    data = json.loads(laid_out)
    left, bottom, right, top = _numbers(data["bb"])
    nodes, clusters, names = {}, {}, {}
    for each in data.get("objects", []):
        if "pos" in each:
            names[each["_gvid"]] = each["name"]
            nodes[each["name"]] = _spot(each, left, top)
        elif "bb" in each:
            clusters[each["name"]] = _area(each, left, top)
    edges = tuple(_route(each, names, left, top) for each in data.get("edges", []) if "pos" in each)
    return Positions(right - left, top - bottom, nodes, clusters, edges)


def _spot(node: Mapping[str, Any], left: float, top: float) -> Spot:
    x, y = _point(node["pos"], left, top)
    width, height = (round(float(node[side]) * _POINTS_PER_INCH, 3) for side in ("width", "height"))
    return Spot(x, y, width, height)


def _area(cluster: Mapping[str, Any], left: float, top: float) -> Area:
    x0, y0, x1, y1 = _numbers(cluster["bb"])
    label = _point(cluster["lp"], left, top) if cluster.get("lp") else None
    x, y = round(x0 - left, 3), round(top - y1, 3)
    return Area(x, y, round(x1 - x0, 3), round(y1 - y0, 3), label)


def _route(edge: Mapping[str, Any], names: Mapping[int, str], left: float, top: float) -> Route:
    tips: dict[str, Point] = {}
    curve: list[Point] = []
    for word in edge["pos"].partition(";")[0].split():
        if word[:2] in ("e,", "s,"):
            tips[word[0]] = _point(word[2:], left, top)
        else:
            curve.append(_point(word, left, top))
    label = _point(edge["lp"], left, top) if edge.get("lp") else None
    return Route(
        names[edge["tail"]],
        names[edge["head"]],
        edge.get("id", ""),
        tuple(curve),
        tips.get("s"),
        tips.get("e"),
        label,
    )


def _point(text: str, left: float, top: float) -> Point:
    x, y = _numbers(text)[:2]
    return round(x - left, 3), round(top - y, 3)


def _numbers(text: str) -> list[float]:
    return [float(each) for each in text.rstrip("!").split(",")]
