"""The names of lines in a chart: which lines have one, and what all names begin with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile

NAMED = 12
"""Maximum number of lines that have names."""


def named(ends: Mapping[str, float], notable: Collection[str]) -> frozenset[str]:
    """The lines that have names: all if they are few; else those with the largest and smallest
    last number, half of them among the *notable* ones if there are as many."""
    if len(ends) <= NAMED:
        return frozenset(ends)
    ranked = sorted(ends, key=lambda name: ends[name])
    first = [*_from_both_ends([name for name in ranked if name in notable])]
    others = _from_both_ends([name for name in ranked if name not in notable])
    half = NAMED // 2
    return frozenset([*first[:half], *others, *first[half:]][:NAMED])


def _from_both_ends(ranked: Sequence[str]) -> Iterator[str]:
    """The last, the first, the last but one, the second ..."""
    for place in range(len(ranked)):
        yield ranked[place // 2] if place % 2 else ranked[-1 - place // 2]


def common_parent(names: Collection[str]) -> str:
    """The dotted path that all names are below; empty if there is none.

    Example:
        >>> common_parent(["encoder.layer.0.norm", "encoder.layer.1"])
        'encoder.layer'
    """
    parents = [name.split(".")[:-1] for name in names]
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*parents))
    return ".".join(level[0] for level in levels)
