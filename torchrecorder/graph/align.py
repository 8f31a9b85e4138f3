"""Align: corresponding positions of two sequences, in nearly linear time (patience diff).

Patience diff aligns equal ends first, then the longest increasing sequence of elements that occur
once on both sides; the gaps between them are aligned in the same way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from torchrecorder.graph.mappings import grouped

IndexPair = tuple[int, int]

EXACT = 10_000
"""The longest common subsequence is exact up to this product of lengths."""

ROUNDS = 12
"""How often gaps between anchors are aligned again, before a rough alignment."""


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[IndexPair]:
    """Pairs of positions with equal elements, increasing on both sides.

    The result is symmetric: ``align(b, a)`` has ``(j, i)`` for each ``(i, j)``.
    """
    if _comes_first(b, a):
        return [(i, j) for j, i in _patience(b, a)]
    return _patience(a, b)


def _comes_first(a: Sequence[Hashable], b: Sequence[Hashable]) -> bool:
    """Whether *a* is aligned with *b*, and not *b* with *a*: equally good pairs may differ."""
    if len(a) != len(b):
        return len(a) < len(b)
    for left, right in zip(a, b):
        if left != right:
            return repr(left) < repr(right)
    return True


def _patience(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[IndexPair]:
    found: list[IndexPair] = []
    waiting = [(0, len(a), 0, len(b), ROUNDS)]
    while waiting:
        start, stop, first, last, rounds = waiting.pop()
        while start < stop and first < last and a[start] == b[first]:
            found.append((start, first))
            start, first = start + 1, first + 1
        while start < stop and first < last and a[stop - 1] == b[last - 1]:
            stop, last = stop - 1, last - 1
            found.append((stop, last))
        anchors = _anchors(a, b, (start, stop, first, last), rounds)
        if rounds and anchors and (stop - start) * (last - first) > EXACT:
            waiting.extend((*gap, rounds - 1) for gap in _gaps(anchors, start, stop, first, last))
        found.extend(anchors)
    return sorted(found)


def aligned(
    a: Sequence[Hashable], b: Sequence[Hashable]
) -> Iterator[tuple[int | None, int | None]]:
    """Every position of both sequences in order, with positions of equal elements paired.

    Example:
        >>> list(aligned("abd", "acd"))
        [(0, 0), (1, None), (None, 1), (2, 2)]
    """
    here = there = 0
    for left, right in [*align(a, b), (len(a), len(b))]:
        yield from ((place, None) for place in range(here, left))
        yield from ((None, place) for place in range(there, right))
        if left < len(a):
            yield left, right
        here, there = left + 1, right + 1


def between(pairs: Sequence[IndexPair], a: int, b: int) -> Iterator[tuple[range, range]]:
    """The gaps between *pairs*, in sequences of these lengths."""
    for start, stop, first, last in _gaps(pairs, 0, a, 0, b):
        yield range(start, stop), range(first, last)


def _gaps(
    pairs: Sequence[IndexPair], start: int, stop: int, first: int, last: int
) -> Iterator[tuple[int, int, int, int]]:
    for left, right in [*pairs, (stop, last)]:
        if start < left or first < right:
            yield start, left, first, right
        start, first = left + 1, right + 1


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], part: tuple[int, int, int, int], rounds: int
) -> list[IndexPair]:
    start, stop, first, last = part
    if (stop - start) * (last - first) <= EXACT:
        return [(start + i, first + j) for i, j in _longest(a[start:stop], b[first:last])]
    left, right = _places(a, start, stop), _places(b, first, last)
    once = [
        (places[0], right[key][0])
        for key, places in left.items()
        if len(places) == 1 and len(right.get(key, ())) == 1
    ]
    if not once or not rounds:
        once = [pair for key, places in left.items() for pair in zip(places, right.get(key, ()))]
    once.sort()
    chosen = in_order([place] for _, place in once)
    return sorted((once[item][0], place) for item, place in chosen.items())


def _places(each: Sequence[Hashable], start: int, stop: int) -> dict[Hashable, list[int]]:
    return grouped((each[place], place) for place in range(start, stop))


def _longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[IndexPair]:
    """The longest common subsequence of two short sequences."""
    rows = [[0] * (len(b) + 1)]
    for left in reversed(a):
        row, below = [0] * (len(b) + 1), rows[-1]
        for j in range(len(b) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if left == b[j] else max(below[j], row[j + 1])
        rows.append(row)
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif rows[len(a) - i - 1][j] >= rows[len(a) - i][j + 1]:
            i += 1
        else:
            j += 1


def in_order(possible: Iterable[Iterable[int]]) -> dict[int, int]:
    """Assign increasing positions to as many items as possible: a longest increasing subsequence.

    *possible* has the places that each item may have.

    Returns:
        The places by item number; of several longest answers, the one with the earliest places.
    """
    last: list[int] = []  # the smallest last place of the chains of each length
    chains: list[Any] = []  # these chains, each as (item, place, what comes before)
    for item, places in enumerate(possible):
        for place in sorted(places, reverse=True):  # an item cannot follow itself
            length = bisect_left(last, place)
            chain = (item, place, chains[length - 1] if length else None)
            last[length:length + 1] = [place]
            chains[length:length + 1] = [chain]
    found = {}
    rest = chains[-1] if chains else None
    while rest is not None:
        item, place, rest = rest
        found[item] = place
    return found
