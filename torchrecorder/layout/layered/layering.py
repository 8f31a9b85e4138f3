"""Layering: assigns the children of a scope to layers, by longest paths; crossings of layers."""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from math import ceil

MAX_LAYER_SIZE = 24
"""The maximum number of boxes in one layer; further boxes are in the next one."""

MAX_END_LAYER_SIZE = 6
"""The same for a layer of inputs or outputs, whose names are long."""

BoxPair = tuple[int, int]


def rows(
    count: int,
    pairs: Sequence[BoxPair],
    anchored: Sequence[bool],
    ends: Collection[int] = frozenset(),
) -> list[int]:
    """The layer of each of *count* boxes, from 0.

    Each box is in the first layer below all boxes that it reads. A box that depends on no input of
    the scope is in the layer directly above its first reader; *anchored* boxes read such inputs. A
    cycle starts at its first box. *pairs* are the edges, as tail and head; *ends* are the boxes
    that no edge enters, or that no edge leaves, not even to outside the scope.
    """
    ahead, after = _forward(count, pairs)
    row = [0] * count
    floating = [not item for item in anchored]
    for box in ahead:
        for reader in after[box]:
            row[reader] = max(row[reader], row[box] + 1)
            floating[reader] = floating[reader] and floating[box]
    for box in reversed(ahead):
        if floating[box] and after[box]:
            row[box] = min(row[reader] for reader in after[box]) - 1
    return _wrapped(row, ends)


def _forward(count: int, pairs: Sequence[BoxPair]) -> tuple[list[int], list[list[int]]]:
    """The boxes in topological order, and the readers of each box.

    Edges that would close a cycle are left out.
    """
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for tail, head in dict.fromkeys(pairs):
        if tail != head:
            after[tail].append(head)
            before[head].append(tail)
    missing = [len(item) for item in before]
    ready = [box for box in range(count) if not missing[box]]
    waiting = list(range(count))
    done: list[int] = []
    placed = [False] * count
    while len(done) < count:
        if not ready:
            while placed[waiting[0]]:
                heapq.heappop(waiting)
            ready.append(waiting[0])
        box = heapq.heappop(ready)
        placed[box] = True
        done.append(box)
        for reader in after[box]:
            missing[reader] -= 1
            if not missing[reader] and not placed[reader]:
                heapq.heappush(ready, reader)
    seat = {box: place for place, box in enumerate(done)}
    return done, [[item for item in after[box] if seat[item] > seat[box]] for box in range(count)]


def _wrapped(row: Sequence[int], ends: Collection[int]) -> list[int]:
    """Layers numbered from 0 without gaps; layers that are too long are split into equal parts."""
    wrapped = [0] * len(row)
    at = 0
    for members in members_of_rows(row):
        most = MAX_END_LAYER_SIZE if all(box in ends for box in members) else MAX_LAYER_SIZE
        parts = ceil(len(members) / most)
        for place, box in enumerate(members):
            wrapped[box] = at + place * parts // len(members)
        at += parts
    return wrapped


def members_of_rows(row: Sequence[int]) -> list[list[int]]:
    """The boxes in each non-empty layer, in order; *row* is the layer of each box."""
    members: dict[int, list[int]] = {}
    for box, number in enumerate(row):
        members.setdefault(number, []).append(box)
    return [members[number] for number in sorted(members)]


def inversions(ends: Iterable[tuple[float, float]]) -> int:
    """The number of pairs that are in one order at their first ends and in the other at their
    second, as edges that cross between two layers."""
    found, seconds = 0, list[float]()
    for _, second in sorted(ends):
        found += len(seconds) - bisect_right(seconds, second)
        insort(seconds, second)
    return found
