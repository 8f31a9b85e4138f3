"""List places: elements that correspond in lists of tensors of different lengths.

An optimizer that updates all weights at once reads lists of weights, gradients and states. If one
run has one more layer, its elements are in the middle of all of these lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from torchrecorder.events import Slot, ValueId
from torchrecorder.graph.align import align, between
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Value

SlotPair = tuple[Optional[Slot], Optional[Slot]]
"""Corresponding inputs; None for one that the other op does not have."""

PlaceInLists = tuple[Slot, ...]
"""The elements at one place of all lists of one length."""


def uneven_lists(
    old: Op, new: Op, values: Mapping[ValueId, Value], twins: Mapping[ValueId, ValueId]
) -> Iterator[SlotPair]:
    """The elements of lists that have another length in the *new* op, with their partners.

    Lists of one length belong together, place by place. Two places correspond if elements at them
    are *twins*, first those that have a name among the *values* of the first run; the places
    between such pairs correspond in their order.
    """
    left, right = _lists(old), _lists(new)
    together = grouped(
        ((len(slots), len(right.get(name, slots))), name) for name, slots in left.items()
    )
    for names in (names for lengths, names in together.items() if lengths[0] != lengths[1]):
        rows: list[PlaceInLists] = [*zip(*(left[name] for name in names))]
        others: list[PlaceInLists] = [*zip(*(right[name] for name in names))]
        pairs = align(_places(rows, others, values, twins), range(len(others)))
        for free, other_free in list(between(pairs, len(rows), len(others))):
            pairs.extend(zip(free, other_free))
        for one, other in pairs:
            yield from zip(rows[one], others[other])
        paired, other_paired = {one for one, _ in pairs}, {other for _, other in pairs}
        for place in set(range(len(rows))) - paired:
            yield from ((slot, None) for slot in rows[place])
        for place in set(range(len(others))) - other_paired:
            yield from ((None, slot) for slot in others[place])


def place_of(slot: Slot) -> int:
    """The place of an element in its list."""
    return int(slot.name.rpartition(".")[2])


def _lists(op: Op) -> Mapping[str, list[Slot]]:
    """The elements of each argument that is a list of tensors."""
    parts = [(*slot.name.rpartition("."), slot) for slot in op.inputs]
    return grouped((name, slot) for name, _, place, slot in parts if name and place.isdigit())


def _places(
    rows: Sequence[PlaceInLists],
    others: Sequence[PlaceInLists],
    values: Mapping[ValueId, Value],
    twins: Mapping[ValueId, ValueId],
) -> list[int]:
    """The place in *others* that has twins of each row; -1 if none has."""
    where: dict[tuple[int, ValueId | None], int] = {
        (column, slot.value): place
        for place, row in enumerate(others) for column, slot in enumerate(row)
    }
    found = []
    for row in rows:
        keys = [(column, twins.get(slot.value)) for column, slot in enumerate(row)]
        unnamed = [not values[slot.value].names for slot in row]
        known = [(late, where[key]) for late, key in zip(unnamed, keys) if key in where]
        found.append(min(known)[1] if known else -1)
    return found
