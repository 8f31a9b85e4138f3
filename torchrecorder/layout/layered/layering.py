"""Rows: which child of a scope stands below which."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

WIDEST = 24
"""Boxes in one row; more go on in the next."""

Pair = tuple[int, int]


def rows(count: int, pairs: Sequence[Pair], anchored: Sequence[bool]) -> list[int]:
    """The row of each of *count* boxes, from 0.

    Each stands below all it reads, as high as it can; what hangs on nothing stands just
    above what reads it. In a circle the box that comes first counts as its beginning.

    Args:
        count: How many boxes there are.
        pairs: Who feeds whom, by number.
        anchored: For each box, whether it reads what comes in from outside; the others hang
            on such a box or on nothing.
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
    return _wrapped(row)


def _forward(count: int, pairs: Sequence[Pair]) -> tuple[list[int], list[list[int]]]:
    """Boxes in an order in which each follows what it reads, and who reads each of them.

    Pairs that would close a circle are left out.
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
        if placed[box]:
            continue
        placed[box] = True
        done.append(box)
        for reader in after[box]:
            missing[reader] -= 1
            if not missing[reader] and not placed[reader]:
                heapq.heappush(ready, reader)
    seat = {box: place for place, box in enumerate(done)}
    return done, [[item for item in after[box] if seat[item] > seat[box]] for box in range(count)]


def _wrapped(row: Sequence[int]) -> list[int]:
    """Rows counted from 0 without gaps, those that are too long cut into several."""
    members: dict[int, list[int]] = {}
    for box, number in enumerate(row):
        members.setdefault(number, []).append(box)
    wrapped = [0] * len(row)
    at = 0
    for number in sorted(members):
        for place, box in enumerate(members[number]):
            wrapped[box] = at + place // WIDEST
        at += (len(members[number]) - 1) // WIDEST + 1
    return wrapped
