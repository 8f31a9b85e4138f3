"""Align steps: pairs of corresponding steps of two scopes, in their common order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set

from torchrecorder.comparison.step_keys import (
    TIERS, Side, StepKey, by_class, keys_of, made_alike, step_name, uneven_names,
)
from torchrecorder.graph.align import IndexPair, align, between
from torchrecorder.graph.nodes import Op, Scope

StepList = Sequence[Scope | Op]


class StepAligner:
    """Aligns the steps of scopes of two recordings."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b

    def aligned(self, a: StepList, b: StepList) -> list[IndexPair]:
        """Pairs of indices in their common order.

        Steps that run more often on one side, such as a ReLU called once more, are matched last if
        more steps match in this way. Modules are matched by their names first if then more steps
        match, or more of one structure, and not fewer of either: an operation may by chance have
        the shape that another one had in the other run.
        """
        pairs = self._between([], a, b)
        uneven = uneven_names(a, b)
        if uneven and (others := self._between([], a, b, without=uneven)):
            pairs = max(pairs, self._between(others, a, b), key=len)
        by_name = self._equal(by_class, a, b)
        if not set(pairs).issuperset(by_name):
            others = self._between(by_name, a, b)
            more = len(others) - len(pairs)
            alike = self._alike(others, a, b) - self._alike(pairs, a, b)
            if min(more, alike) >= 0 and more + alike > 0:
                return others
        return pairs

    def _alike(self, pairs: Sequence[IndexPair], a: StepList, b: StepList) -> int:
        """The number of *pairs* with one structure."""
        return sum(made_alike(self.a, a[i]) == made_alike(self.b, b[j]) for i, j in pairs)

    def _between(
        self, pairs: Sequence[IndexPair], a: StepList, b: StepList,
        without: Set[Hashable] = frozenset(),
    ) -> list[IndexPair]:
        """*pairs*, and those between them, tier by tier; *without* steps of these names."""
        found = list(pairs)
        for keys in TIERS:
            for gaps in list(between(found, len(a), len(b))):
                here, there = ([place for place in gap if step_name(steps[place]) not in without]
                               for gap, steps in zip(gaps, (a, b)))
                if here and there:
                    parts = [a[i] for i in here], [b[j] for j in there]
                    equal = max((self._equal(key, *parts) for key in keys), key=len)
                    found.extend((here[i], there[j]) for i, j in equal)
            found.sort()
        return found

    def _equal(self, key: StepKey, a: StepList, b: StepList) -> list[IndexPair]:
        return align(list(keys_of(key, self.a, a)), list(keys_of(key, self.b, b)))
