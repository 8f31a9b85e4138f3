"""Aligned: two sequences beside each other, with gaps where one has more."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Optional

Pair = tuple[Optional[int], Optional[int]]
"""Places in both sequences; None in the one that has nothing there."""

_MOST = 512
"""Where both differ in more elements than this, each is matched with the next equal one."""


def aligned(one: Sequence[Hashable], other: Sequence[Hashable]) -> Iterator[Pair]:
    """Every element of both sequences in order, equal ones together.

    Example:
        >>> list(aligned("abd", "acd"))
        [(0, 0), (1, None), (None, 1), (2, 2)]
    """
    least = min(len(one), len(other))
    start = next((at for at in range(least) if one[at] != other[at]), least)
    rest = least - start
    end = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    yield from ((at, at) for at in range(start))
    ours, theirs = one[start : len(one) - end], other[start : len(other) - end]
    for here, there in _between(ours, theirs):
        yield (None if here is None else here + start), (None if there is None else there + start)
    yield from ((len(one) - at, len(other) - at) for at in range(end, 0, -1))


def _between(one: Sequence[Hashable], other: Sequence[Hashable]) -> Iterator[Pair]:
    if not one and not other:
        return
    here = there = 0
    for start, begin, size in _matches(one, other):
        yield from ((at, None) for at in range(here, start))
        yield from ((None, at) for at in range(there, begin))
        yield from ((start + at, begin + at) for at in range(size))
        here, there = start + size, begin + size


def _matches(
    one: Sequence[Hashable], other: Sequence[Hashable]
) -> Sequence[tuple[int, int, int]]:
    if min(len(one), len(other)) <= _MOST:
        return SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [*_rising(one, other), (len(one), len(other), 0)]


def _rising(one: Sequence[Hashable], other: Sequence[Hashable]) -> Iterator[tuple[int, int, int]]:
    """Matches from left to right, each with the next equal element."""
    places: dict[Hashable, list[int]] = {}
    for at in range(len(other) - 1, -1, -1):
        places.setdefault(other[at], []).append(at)
    reached = 0
    for here, key in enumerate(one):
        found = places.get(key, [])
        while found and found[-1] < reached:
            found.pop()
        if found:
            reached = found[-1] + 1
            yield here, found.pop(), 1
