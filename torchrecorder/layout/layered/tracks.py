"""Tracks and lanes: where edges run horizontally between two layers, each on its own track; and
where long edges run side by side, beside all boxes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from torchrecorder.layout.layered.constants import (
    ARROW_MARGIN, LAYER_GAP, MAX_PORT_OFFSET, MAX_TRACKS_HEIGHT, MIN_MOVE, MIN_PORT_PITCH,
    PORT_MARGIN, PORT_PITCH, STRAIGHT_TOLERANCE, TRACK_MARGIN, TRACK_PITCH,
)


class NetExtent(NamedTuple):
    """The extent of one net in a gap: its origin, and its ends on both sides."""

    origin: float
    left: float
    right: float


def tracks(runs: Mapping[int, NetExtent]) -> dict[int, int]:
    """The track of each net that is not straight; nets that overlap have different tracks.

    The order prevents crossings of edges that run to the same side.
    """
    moving = [net for net, run in runs.items() if run.right - run.left >= STRAIGHT_TOLERANCE]
    moving.sort(key=lambda net: _order(runs[net], net))
    track: dict[int, int] = {}
    used = _Lowest()
    for net in moving:
        track[net] = used.add(runs[net])
    return track


class _UsedPart(NamedTuple):
    """A part of a gap, and the lowest track in it."""

    left: float
    right: float
    track: int


class _Lowest:
    """The lowest track in use at each place of a gap, as parts from left to right."""

    def __init__(self) -> None:
        self._parts: list[_UsedPart] = []

    def add(self, run: NetExtent) -> int:
        """The track of *run*, which is below all that it overlaps."""
        first = bisect_left(self._parts, run.left - 2, key=attrgetter("right"))
        last = bisect_right(self._parts, run.right + 2, key=attrgetter("left"))
        near = self._parts[first:last]
        track = max((part.track for part in near), default=-1) + 1
        self._parts[first:last] = [
            *(part._replace(right=min(part.right, run.left)) for part in near
              if part.left < run.left),
            _UsedPart(run.left, run.right, track),
            *(part._replace(left=max(part.left, run.right)) for part in near
              if part.right > run.right),
        ]
        return track


def _order(run: NetExtent, net: int) -> tuple[float, ...]:
    """The sort key: first edges to the right, from the rightmost; then edges to the left, from the
    leftmost."""
    rightwards = run.right - run.origin >= run.origin - run.left
    return (0, -run.origin, net) if rightwards else (1, run.origin, net)


def height(track: Mapping[int, int], straight: float = LAYER_GAP) -> float:
    """The height of a gap with these tracks; *straight* if there are none."""
    count = max(track.values(), default=-1) + 1
    return TRACK_MARGIN + pitch(count) * (count - 1) + ARROW_MARGIN if count else straight


def pitch(count: int) -> float:
    """The distance between adjacent tracks if there are *count* of them, in points."""
    return min(TRACK_PITCH, MAX_TRACKS_HEIGHT / max(count, 1))


def slots(wanted: Sequence[float], center: float, width: float) -> list[float]:
    """The ports of edges on a side of a box, in the order of their positions *wanted*.

    If possible, all edges are straight. Otherwise the edge nearest to the middle gets the middle,
    or a position near it where it is straight. The others are beside it, closer together if it can
    stay there then, or if they are straight then. If two are equally far from the middle, they are
    on both sides of it.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda number: (wanted[number], number))
    if _fits([wanted[number] for number in order], center, width):
        return list(wanted)
    seats = sorted(range(len(order)), key=lambda seat: (abs(wanted[order[seat]] - center), seat))
    straight, other = (wanted[order[seat]] for seat in (seats[0], seats[min(1, len(seats) - 1)]))
    is_near = abs(straight - center) <= MAX_PORT_OFFSET
    nearest: float = seats[0]
    if not is_near and abs(straight + other - 2 * center) < MIN_MOVE:
        nearest = (seats[0] + seats[1]) / 2
    before, after = nearest, len(order) - 1 - nearest
    room = max(width / 2 - PORT_MARGIN, 1.0)
    middle = straight if is_near else center
    apart = min((room + middle - center) / max(before, 1), (room + center - middle) / max(after, 1))
    if apart < MIN_PORT_PITCH:
        apart = 2 * room / max(len(order) - 1, 1)
    apart = min(PORT_PITCH, apart)
    middle = max(center + before * apart - room, min(middle, center + room - after * apart))
    places = {number: middle + (seat - nearest) * apart for seat, number in enumerate(order)}
    for sign, beside in ((-1, order[: seats[0]][::-1]), (1, order[seats[0] + 1 :])):
        at = sign * places[order[seats[0]]]
        for number in beside:
            if at + MIN_PORT_PITCH <= sign * wanted[number] <= sign * places[number]:
                places[number] = wanted[number]
            at = sign * places[number]
    return [places[number] for number in range(len(order))]


def _fits(wanted: Sequence[float], center: float, width: float) -> bool:
    """Whether all edges can be straight: around the middle of the side, at sufficient distances."""
    middle = (wanted[0] + wanted[-1]) / 2
    return (
        abs(middle - center) <= MAX_PORT_OFFSET
        and max(center - wanted[0], wanted[-1] - center) <= width / 2 - PORT_MARGIN
        and all(after - before >= MIN_PORT_PITCH for before, after in zip(wanted, wanted[1:]))
    )


def lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """The lane of each long edge: first fit, shorter edges first. Edges in one lane do not overlap.

    Args:
        spans: The first and last gap of each line, counted from 0. Lines that meet at one gap are
            there at once.
    """
    taken = _TakenLanes(max((last for _, last in spans), default=0) + 1)
    lane = [0] * len(spans)
    for number in sorted(range(len(spans)), key=lambda index: spans[index][1] - spans[index][0]):
        lane[number] = taken.first_free(*spans[number])
    return lane


class _TakenLanes:
    """The lanes of the edges that end in each gap, as bits of an integer, in a segment tree.

    If an edge overlaps a shorter one, it overlaps one of its ends. So the ends are sufficient if
    shorter edges come first. Comparing all pairs would be too slow: thousands of edges may run
    along thousands of gaps, as in the training steps of a model with many weights.
    """

    def __init__(self, gaps: int) -> None:
        self.leaves = 1 << (gaps - 1).bit_length()
        self.ends = [0] * (2 * self.leaves)

    def first_free(self, first: int, last: int) -> int:
        """Take the first lane that is free in all gaps from *first* to *last*."""
        taken = 0
        for node in self._inside(first, last):
            taken |= self.ends[node]
        free = ~taken & (taken + 1)  # the lowest bit that is not set
        for gap in (first, last):
            node = gap + self.leaves
            while node:
                self.ends[node] |= free
                node >>= 1
        return free.bit_length() - 1

    def _inside(self, first: int, last: int) -> Iterator[int]:
        """The smallest set of tree nodes that covers exactly these gaps."""
        left, right = first + self.leaves, last + self.leaves + 1
        while left < right:
            if left & 1:
                yield left
                left += 1
            if right & 1:
                right -= 1
                yield right
            left >>= 1
            right >>= 1
