"""Edge match: whether two matched readers read matching tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import zip_longest

from torchrecorder.comparison.match import Matching
from torchrecorder.comparison.display_names import DisplayNames
from torchrecorder.events import STORED, ScopeId, Slot, ValueId
from torchrecorder.graph.recording import RecordedRun


class EdgeMatch:
    """Compares what two matched readers get."""

    def __init__(self, before: RecordedRun, after: RecordedRun, matching: Matching) -> None:
        self.before, self.after, self.matching = before, after, matching
        self.old, self.new = DisplayNames(before), DisplayNames(after)

    def same(self, one: Slot | None, other: Slot | None, reader: ScopeId | None) -> bool:
        """Whether two slots hold matching tensors, as far as the scope *reader* can tell.

        Tensors from the same output of a matched scope count as matching outside of it.
        """
        if one is None or other is None:
            return one is other
        if self.matching.values.get(one.value) == other.value:
            return True
        scopes = self._handed.get((one.value, other.value), ())
        return any(scope not in self.after.within(reader) for scope in scopes)

    @cached_property
    def _handed(self) -> Mapping[tuple[ValueId, ValueId], list[ScopeId]]:
        """Pairs of values that matched scopes return at the same position, with these scopes."""
        handed: dict[tuple[ValueId, ValueId], list[ScopeId]] = {}
        for left, right in self.matching.scopes.items():
            outputs = self.before.scopes[left].outputs, self.after.scopes[right].outputs
            for one, other in by_name(*outputs):
                if one is not None and other is not None:
                    handed.setdefault((one.value, other.value), []).append(right)
        return handed

    def known(self, one: Slot | None, other: Slot | None) -> bool:
        """Whether the slot is a parameter that is itself listed as added or removed."""
        if one is not None and other is not None:
            return False
        if one is not None:
            found = self.before.values[one.value]
            return found.role in STORED and one.value not in self.matching.values
        assert other is not None
        found = self.after.values[other.value]
        return found.role in STORED and other.value not in self._met_values

    @cached_property
    def _met_values(self) -> set[ValueId]:
        return set(self.matching.values.values())

    def instead(
        self,
        verb: str,
        one: Slot | None,
        other: Slot | None,
        before: ScopeId | None,
        after: ScopeId | None,
    ) -> str:
        new = self.new.handed(other.value, after) if other is not None else "nothing"
        old = self.old.handed(one.value, before) if one is not None else "nothing"
        return f"{verb} {new}, not {old}"


def by_name(
    one: Iterable[Slot], other: Iterable[Slot]
) -> Iterator[tuple[Slot | None, Slot | None]]:
    """Slots of the same name; those of other names in their order."""
    left, right = {slot.name: slot for slot in one}, {slot.name: slot for slot in other}
    yield from ((slot, right[name]) for name, slot in left.items() if name in right)
    yield from zip_longest(
        (slot for name, slot in left.items() if name not in right),
        (slot for name, slot in right.items() if name not in left),
    )
