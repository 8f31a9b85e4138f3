"""Tiny odd models: each says in one line what is odd about it, and what its graph must be.

``CASES`` lists them all. The graph is written in the notation of `tests.notation`.
"""

from __future__ import annotations

from tests.zoo.case import Case
from tests.zoo import calls, found, functions, gradients, hidden, inplace, kinds, passing, regions
from tests.zoo import scripts, uncommon, values

CASES: tuple[Case, ...] = tuple(
    each
    for topic in (
        inplace, passing, calls, values, kinds, gradients, regions, functions, hidden, scripts, found,
        uncommon,
    )
    for each in topic.CASES
)
"""Every case of the zoo, by topic."""

BY_NAME = {each.name: each for each in CASES}
"""The same by name."""
