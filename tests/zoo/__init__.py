"""Tiny odd models: each says in one line what is odd about it, and what its graph must be.

``CASES`` lists them all. The graph is written in the notation of `tests.notation`.
"""

from __future__ import annotations

from tests.zoo import (
    attention, calls, found, found_writes, functions, gradients, hidden, inplace, kinds, passing,
    regions, scripts, scripts_around, stored, uncommon, values, weights,
)
from tests.zoo.case import Case

CASES: tuple[Case, ...] = tuple(
    each
    for topic in (
        inplace, stored, passing, calls, weights, values, kinds, gradients, regions, functions,
        hidden, attention, scripts, scripts_around, found, found_writes, uncommon,
    )
    for each in topic.CASES
)
"""Every case of the zoo, by topic."""

BY_NAME = {each.name: each for each in CASES}
"""The same by name."""
