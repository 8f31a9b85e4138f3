"""Edge match: whether two matched readers read matching tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import zip_longest

from torchrecorder.comparison.display_names import DisplayNames
from torchrecorder.comparison.list_places import SlotPair, uneven_lists
from torchrecorder.comparison.match import Matching
from torchrecorder.events import STORED, ScopeId, Slot, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op

ReturnedPairs = Mapping[tuple[ValueId, ValueId], list[ScopeId]]
"""Pairs of values that scopes return, with the scopes of the second run."""


RETURNS = "returns"
"""The verb of texts about the results of a module."""


class EdgeMatch:
    """Compares the inputs of two matched readers."""

    def __init__(self, matching: Matching) -> None:
        self.before, self.after, self.matching = matching.before, matching.after, matching
        self.old_names, self.new_names = DisplayNames(self.before), DisplayNames(self.after)

    def same(self, old: Slot | None, new: Slot | None, reader: ScopeId | None) -> bool:
        """Whether two slots have matching tensors from the point of view of the scope *reader*.

        Outside of a matched scope, tensors from the same output of it match. For other modules, so
        do tensors of a scope and of a wrapper in its place.
        """
        if old is None or new is None:
            return old is new
        if self.matching.values.get(old.value) == new.value:
            return True
        scopes = self._returned.get((old.value, new.value), [])
        if reader is not None:
            scopes = scopes + self._returned_by_wrappers.get((old.value, new.value), [])
        return any(scope not in self.after.within(reader) for scope in scopes)

    def partners(self, added: bool, value: ValueId) -> Iterable[ValueId]:
        """What `same` can match to *value*, which is of the second run if *added*."""
        return self._partners[added].get(value, ())

    @cached_property
    def _partners(self) -> tuple[Mapping[ValueId, list[ValueId]], Mapping[ValueId, list[ValueId]]]:
        pairs = [*self.matching.values.items(), *self._returned, *self._returned_by_wrappers]
        return grouped(pairs), grouped((new, old) for old, new in pairs)

    def inputs(self, old: Op, new: Op) -> Iterator[SlotPair]:
        """The inputs of two matched ops, by name; those of uneven lists by what they are."""
        lists = list(uneven_lists(old, new, self.before.values, self.matching.values))
        known = {slot for pair in lists for slot in pair}
        yield from lists
        yield from by_name(
            (slot for slot in old.inputs if slot not in known),
            (slot for slot in new.inputs if slot not in known),
        )

    @cached_property
    def _returned(self) -> ReturnedPairs:
        return self._returned_by(self.matching.scopes)

    @cached_property
    def _returned_by_wrappers(self) -> ReturnedPairs:
        return self._returned_by(self.matching.wrapped)

    def _returned_by(self, pairs: Mapping[ScopeId, ScopeId]) -> ReturnedPairs:
        """Pairs of values that matched scopes return at one position, with the second scope."""
        old, new = self.before.scopes, self.after.scopes
        return grouped(
            ((slot.value, twin.value), right) for left, right in pairs.items()
            for slot, twin in by_name(old[left].outputs, new[right].outputs) if slot and twin
        )

    def known(self, old: Slot | None, new: Slot | None) -> bool:
        """Whether the slot is a parameter that is itself listed as added or removed."""
        if old is not None and new is not None:
            return False
        if old is not None:
            found = self.before.values[old.value]
            return found.role in STORED and old.value not in self.matching.values
        assert new is not None
        found = self.after.values[new.value]
        return found.role in STORED and new.value not in self.matching.back

    def instead(
        self,
        verb: str,
        old: Slot | None,
        new: Slot | None,
        before: ScopeId | None,
        after: ScopeId | None,
    ) -> str:
        """The new and the former input of a reader; in full if both have the same name."""
        for name in (DisplayNames.result, DisplayNames.full_result):
            returned = name(self.new_names, new.value, after) if new is not None else "nothing"
            former = name(self.old_names, old.value, before) if old is not None else "nothing"
            if returned != former:
                return f"{verb} {returned}, not {former}"
        return f"{verb} {returned}, but another one"


def by_name(old: Iterable[Slot], new: Iterable[Slot]) -> Iterator[SlotPair]:
    """Pairs of slots with the same name, then the others in their order."""
    left, right = {slot.name: slot for slot in old}, {slot.name: slot for slot in new}
    yield from ((slot, right[name]) for name, slot in left.items() if name in right)
    yield from zip_longest(
        (slot for name, slot in left.items() if name not in right),
        (slot for name, slot in right.items() if name not in left),
    )
