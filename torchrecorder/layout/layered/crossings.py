"""How often lines of a scope cross each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from torchrecorder.layout.layered.cuts import SAME
from torchrecorder.layout.layered.positions import Composed


class _Piece(NamedTuple):
    """A straight piece of a line: where it is, and from where to where it runs."""

    at: float
    low: float
    high: float
    trunk: int


def crossings(scope: Composed) -> int:
    """How often a piece across the flow crosses one along it that belongs to another trunk.

    What lines of one trunk have in common counts once.
    """
    upright = sorted(set(_pieces(scope, 0)))
    places = [piece.at for piece in upright]
    found = set()
    for level in set(_pieces(scope, 1)):
        first, last = bisect_right(places, level.low), bisect_left(places, level.high)
        for other in upright[first:last]:
            if other.low < level.at < other.high and other.trunk != level.trunk:
                found.add((other.at, level.at, other.trunk, level.trunk))
    return len(found)


def _pieces(scope: Composed, axis: int) -> Iterator[_Piece]:
    """All pieces that run along (0) or across (1) the flow."""
    for path in scope.paths:
        for one, other in zip(path.points, path.points[1:]):
            if abs(one[axis] - other[axis]) < SAME:
                low, high = sorted((one[1 - axis], other[1 - axis]))
                yield _Piece(round(one[axis], 2), low, high, path.trunk)
