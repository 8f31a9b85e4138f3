"""Choose places in rising order: a longest increasing subsequence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any


def in_order(possible: Iterable[Iterable[int]]) -> dict[int, int]:
    """Assign increasing places to as many items as possible.

    Args:
        possible: For each item, the places that it may have.

    Returns:
        The places by item number; of several longest answers, the one with the earliest places.
    """
    last: list[int] = []  # the smallest last place of the chains of each length
    chains: list[Any] = []  # these chains, each as (item, place, what comes before)
    for item, places in enumerate(possible):
        for place in sorted(places, reverse=True):  # an item cannot follow itself
            length = bisect_left(last, place)
            chain = (item, place, chains[length - 1] if length else None)
            last[length : length + 1] = [place]
            chains[length : length + 1] = [chain]
    found = {}
    rest = chains[-1] if chains else None
    while rest is not None:
        item, place, rest = rest
        found[item] = place
    return found
