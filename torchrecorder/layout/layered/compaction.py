"""Compaction: moves boxes and edges of a scope across the flow, toward their neighbors.

Only positions change; the order in each layer is kept. Bodies move toward their neighbors along
edges, alone and in aligned groups, as far as there is free space. The page has the same code in
``compaction.js``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.constants import (
    BEND_COST, COMPACTION_PASSES, GROUP_DISTANCE, MAX_BEND_EDGES, MAX_PUSHES, MAX_WIDENING,
    MIN_MOVE, SEPARATION,
)
from torchrecorder.layout.layered.equal_branches import EqualBranches


class Body(NamedTuple):
    """A box, an edge that passes layers, or a port at the border of a scope.

    Attributes:
        first: Its first layer.
        last: Its last layer.
        left: Its extent to the left of its position.
        right: Its extent to the right.
        box: Whether it is a box.
    """

    first: int
    last: int
    left: float
    right: float
    box: bool


class Segment(NamedTuple):
    """A segment of an edge between two bodies: its offset on each of them, and its weight.

    With a weight below 1, it is no edge, and does not keep groups together.
    """

    one: int
    here: float
    other: int
    there: float
    weight: float


Neighbors = list[list[tuple[int, float]]]
"""For each body, its neighbors on one side, with the minimum distances."""


def compact(
    bodies: Sequence[Body],
    at: Sequence[float],
    segments: Sequence[Segment],
    branches: Sequence[EqualBranches] = (),
) -> list[float]:
    """The position of each body, in the order of the positions *at*. The ends of segments are
    aligned if possible, and those of equal *branches* centered."""
    compaction = _Compaction(bodies, at, segments)
    compaction.spread()
    compaction.find_limits()
    for _ in range(COMPACTION_PASSES):
        before = list(compaction.at)
        compaction.pull(compaction.single())
        compaction.pull(compaction.joined(MIN_MOVE))
        compaction.pull(compaction.joined(GROUP_DISTANCE))
        if compaction.at == before:
            break
    compaction.straighten([[item] for item in compaction.order])
    compaction.straighten(compaction.joined(MIN_MOVE))
    if branches:
        compaction.center(branches)
    compaction.gather()
    return compaction.at


class _Compaction:
    def __init__(
        self, bodies: Sequence[Body], at: Sequence[float], segments: Sequence[Segment]
    ) -> None:
        self.bodies = bodies
        self.at = list(at)
        self.low = self.high = 0.0
        self.order = sorted(range(len(bodies)), key=lambda body: (at[body], body))
        self.before: Neighbors = [[] for _ in bodies]
        self.after: Neighbors = [[] for _ in bodies]
        self._find_neighbors(bodies)
        self.pending = set(self.order)
        self.segments = segments
        self.attached: list[list[tuple[int, float, float]]] = [[] for _ in bodies]
        for one, here, other, there, weight in segments:
            self.attached[one].append((other, there - here, weight))
            self.attached[other].append((one, here - there, weight))

    def _find_neighbors(self, bodies: Sequence[Body]) -> None:
        """Find the neighbors in each layer."""
        latest: dict[int, int] = {}
        for number in self.order:
            body = bodies[number]
            rows = range(body.first, body.last + 1)
            for other in dict.fromkeys(latest[row] for row in rows if row in latest):
                near = bodies[other]
                room = near.right + SEPARATION[near.box, body.box] + body.left
                self.before[number].append((other, room))
                self.after[other].append((number, room))
            latest.update(dict.fromkeys(rows, number))

    def spread(self) -> None:
        """Move overlapping bodies apart, equally to both sides."""
        right, left = list(self.at), list(self.at)
        for number in self.order:
            for other, room in self.before[number]:
                right[number] = max(right[number], right[other] + room)
        for number in reversed(self.order):
            for other, room in self.after[number]:
                left[number] = min(left[number], left[other] - room)
        self.at = [(one + other) / 2 for one, other in zip(left, right)]

    def find_limits(self) -> None:
        """Find the outer limits of all positions."""
        low = min((at - body.left for at, body in zip(self.at, self.bodies)), default=0.0)
        high = max((at + body.right for at, body in zip(self.at, self.bodies)), default=0.0)
        more = MAX_WIDENING * (high - low)
        self.low, self.high = low - more, high + more

    def pull(self, groups: Sequence[Sequence[int]]) -> None:
        """Move each group to the position with the shortest edges, as far as there is free
        space."""
        for group in groups:
            self._pull(group, self.before, -1)
        for group in reversed(groups):
            self._pull(group, self.after, 1)

    def _pull(self, group: Sequence[int], beside: Neighbors, sign: int) -> None:
        """Move a group to one side, together with blocking neighbors as long as all of them
        improve."""
        for _ in range(MAX_PUSHES):
            wanted = sign * self.wish(group)
            if wanted < MIN_MOVE:
                return
            room, blocking = self._free_space(group, beside)
            room = min(room, max(self._distance_to_limit(group, sign), 0.0))
            if room > 0.0:
                self._move(group, sign * min(wanted, room))
            if wanted <= room:
                return
            group = [*group, *blocking]

    def _move(self, group: Sequence[int], distance: float) -> None:
        """Move a group, and mark the bodies that may move next."""
        for number in group:
            self.at[number] += distance
            for item in (self.before[number], self.after[number]):
                self.pending.update(other for other, _ in item)
            self.pending.update(other for other, _, _ in self.attached[number])

    def _free_space(self, group: Sequence[int], beside: Neighbors) -> tuple[float, list[int]]:
        """The free space of a group on one side, and the neighbors that limit it."""
        mine = set(group)
        found = [
            (abs(self.at[number] - self.at[other]) - room, other)
            for number in group
            for other, room in beside[number]
            if other not in mine
        ]
        least = max(min((room for room, _ in found), default=math.inf), 0.0)
        return least, list(dict.fromkeys(other for room, other in found if room <= least))

    def _distance_to_limit(self, group: Sequence[int], sign: int) -> float:
        """The distance of a group from the outer limit on one side."""
        if sign < 0:
            return min(self.at[item] - self.bodies[item].left for item in group) - self.low
        return self.high - max(self.at[item] + self.bodies[item].right for item in group)

    def straighten(self, groups: Sequence[Sequence[int]]) -> None:
        """Move each group to the best position within reach for its edges."""
        for group in groups:
            requests = self._requests(group)
            if 1 < len(requests) <= MAX_BEND_EDGES:
                before, after = (
                    self._free_space(group, beside)[0] for beside in (self.before, self.after)
                )
                low = min(before, self._distance_to_limit(group, -1))
                high = min(after, self._distance_to_limit(group, 1))
                distance = _cheapest(requests, -low, high)
                if abs(distance) >= MIN_MOVE:
                    self._move(group, distance)

    def _requests(self, group: Sequence[int]) -> list[tuple[float, float]]:
        """The distances of a group to its segments, with weights."""
        mine = set(group) if len(group) > 1 else ()
        return [
            (self.at[other] + off - self.at[number], weight)
            for number in group
            for other, off, weight in self.attached[number]
            if other not in mine
        ]

    def wish(self, group: Sequence[int]) -> float:
        """The best move of a group: short edges with few bends."""
        requests = self._requests(group)
        if len(requests) == 1:
            return requests[0][0]
        if len(requests) > MAX_BEND_EDGES:
            return _median(requests)
        return _cheapest(requests)

    def single(self) -> list[list[int]]:
        """Each body whose neighbors or connected bodies have moved since the last visit."""
        found = [[item] for item in self.order if item in self.pending]
        self.pending = set()
        return found

    def joined(self, most: float) -> list[list[int]]:
        """Groups of two or more bodies whose segments are aligned within *most* points."""
        groups = self._connected_by(self._aligned(most))
        return [group for group in groups if len(group) > 1]

    def _aligned(self, most: float) -> list[Segment]:
        at = self.at
        return [
            segment
            for segment in self.segments
            if segment.weight >= 1
            and abs(at[segment.one] + segment.here - at[segment.other] - segment.there) <= most
        ]

    def center(self, branches: Sequence[EqualBranches]) -> None:
        """Move equal branches so that their fork and their join are in the middle between them; if
        there is no space for that, or a straight edge would bend, move the fork and the join."""
        cut = {
            pair
            for ends, members in branches
            for end in ends
            for member in members
            for pair in ((end, member), (member, end))
        }
        groups = self._connected_by(
            segment
            for segment in self._aligned(MIN_MOVE)
            if (segment.one, segment.other) not in cut
        )
        of = {number: place for place, group in enumerate(groups) for number in group}
        settled = set[int]()
        for ends, members in branches:
            inside, outside = {of[each] for each in members}, {of[each] for each in ends}
            moves = [self._to_middle(end, members) for end in ends]
            if inside & outside or max(moves) - min(moves) >= MIN_MOVE:
                continue
            for moving, distance in ((inside, -moves[0]), (outside, moves[0])):
                if settled.isdisjoint(moving):
                    group = [number for place in moving for number in groups[place]]
                    fixed = (of[other] in inside | outside for other in self._aligned_with(group))
                    if all(fixed) and self._move_if_free(group, distance):
                        break
            settled |= inside | outside

    def _aligned_with(self, group: Sequence[int]) -> Iterator[int]:
        """The bodies at the other ends of all straight segments of a group."""
        for number in group:
            for other, off, _ in self.attached[number]:
                if abs(self.at[other] + off - self.at[number]) < MIN_MOVE:
                    yield other

    def _to_middle(self, end: int, members: Sequence[int]) -> float:
        """The distance of the end of equal branches to the middle between them."""
        found = [
            self.at[other] + off - self.at[end]
            for other, off, _ in self.attached[end]
            if other in members
        ]
        return (min(found) + max(found)) / 2

    def _move_if_free(self, group: Sequence[int], distance: float) -> bool:
        """Move a group by a distance if there is free space; return whether it moved."""
        space, _ = self._free_space(group, self.before if distance < 0 else self.after)
        if abs(distance) > space:
            return False
        self._move(group, distance)
        return True

    def gather(self) -> None:
        """Move each group that no segment connects to the largest group next to that group.

        Other bodies pushed it away when they needed space, and nothing pulled it back.
        """
        groups = self._connected_by(self.segments)
        if len(groups) < 2:
            return
        main = max(groups, key=len)
        groups.sort(key=self._mean)
        place = groups.index(main)
        for group in groups[place + 1 :]:
            self._close(group, self.before, -1)
        for group in reversed(groups[:place]):
            self._close(group, self.after, 1)

    def _close(self, group: Sequence[int], beside: Neighbors, sign: int) -> None:
        """Move a group to one side up to its neighbors, if it has any there."""
        room, blocking = self._free_space(group, beside)
        if blocking:
            self._move(group, sign * room)

    def _mean(self, group: Sequence[int]) -> float:
        return sum(self.at[number] for number in group) / len(group)

    def _connected_by(self, segments: Iterable[Segment]) -> list[list[int]]:
        """The bodies in groups that *segments* connect, each from left to right."""
        leader = list(range(len(self.at)))
        for segment in segments:
            leader[_found(leader, segment.one)] = _found(leader, segment.other)
        members: dict[int, list[int]] = {}
        for number in self.order:
            members.setdefault(_found(leader, number), []).append(number)
        return list(members.values())


def _cheapest(
    requests: Sequence[tuple[float, float]], low: float = -math.inf, high: float = math.inf
) -> float:
    """The move with the lowest cost, among staying and all requested moves."""
    best, least = 0.0, _cost(requests, 0.0)
    for distance, _ in requests:
        if not low <= distance <= high:
            continue
        cost = _cost(requests, distance) + MIN_MOVE
        if cost < least:
            best, least = distance, cost
    return best


def _cost(requests: Sequence[tuple[float, float]], distance: float) -> float:
    """The cost of a move by *distance*: lengths and bends of lines."""
    cost = 0.0
    for wanted, weight in requests:
        off = abs(wanted - distance)
        cost += weight * (off if off < MIN_MOVE else off + BEND_COST)
    return cost


def _median(requests: list[tuple[float, float]]) -> float:
    """The nearest position with the shortest lines (weighted median)."""
    requests.sort()
    half, weight_so_far = sum(weight for _, weight in requests) / 2, 0.0
    for place, (wanted, weight) in enumerate(requests):
        weight_so_far += weight
        if weight_so_far > half:
            return wanted
        if weight_so_far == half:  # all positions between two are equally good
            return min(max(0.0, wanted), requests[place + 1][0])
    return 0.0


def _found(leader: list[int], number: int) -> int:
    while leader[number] != number:
        leader[number] = leader[leader[number]]
        number = leader[number]
    return number
