"""Views without some of their boxes: the inputs of these are connected to their readers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from torchrecorder.events import ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.relations import maker_of, values_behind
from torchrecorder.views.quiet_ops import is_identity
from torchrecorder.views.view import Arrow, View

BoxResult = tuple[str, ValueId | None]
"""A hidden box, and a value that leaves it."""


def without(view: View, hidden: Iterable[str]) -> View:
    """*view* without the *hidden* boxes; their inputs are connected to their readers.

    An arrow through a hidden box carries the value that its reader uses. If hidden scopes only
    returned their input, it carries the value of that input, or of the weight before it.
    """
    removed = dict.fromkeys(hidden)
    if not removed:
        return view
    behind = _behind(view, removed)
    arrows: dict[tuple[object, ...], Arrow] = {}
    for arrow in view.arrows:
        if arrow.head in removed:
            continue
        if arrow.tail not in removed:
            key = arrow.tail, arrow.head, arrow.value, arrow.slot, arrow.some
            arrows.setdefault(key, arrow)
            continue
        for tail in behind[arrow.tail, arrow.value]:
            if tail != arrow.head:
                value = _origin(view, arrow.value, removed)
                key = tail, arrow.head, value, arrow.slot, arrow.some
                arrows.setdefault(key, Arrow(*key))
    boxes = {name: box for name, box in view.boxes.items() if name not in removed}
    return replace(view, boxes=boxes, arrows=tuple(arrows.values()))


def _origin(view: View, value: ValueId | None, removed: Mapping[str, None]) -> ValueId | None:
    """The value that hidden scopes returned unchanged as *value*, or that of a weight made of
    it."""
    while value is not None and value not in view.recording.stored:
        op = maker_of(view.recording, value)
        if op is None or op.id not in removed or not is_identity(op) or len(op.inputs) != 1:
            break
        value = op.inputs[0].value
    return value


def _behind(view: View, removed: Mapping[str, None]) -> Mapping[BoxResult, Mapping[str, None]]:
    """For each result of a hidden box, the visible boxes that feed it, directly or through other
    hidden boxes.

    A group of siblings may read what ran between them, in a box after its own.
    """
    place = {box: number for number, box in enumerate(view.boxes) if box in removed}
    into: dict[str, list[Arrow]] = {box: [] for box in place}
    used: dict[str, dict[ValueId | None, None]] = {box: {} for box in place}
    for arrow in view.arrows:
        if arrow.head in removed:
            into[arrow.head].append(arrow)
        if arrow.tail in removed:
            used[arrow.tail][arrow.value] = None
    later = {
        arrow.tail for box in place for arrow in into[box]
        if place.get(arrow.tail, -1) > place[box]
    }
    feeding = {
        (box, value): arrows
        for box in place for value, arrows in _feeding(view, box, used[box], into[box])
    }
    behind: dict[BoxResult, dict[str, None]] = {result: {} for result in feeding}
    grows = True
    while grows:
        grows = False
        for result, arrows in feeding.items():
            tails: dict[str, None] = {}
            for arrow in arrows:
                tail = arrow.tail
                tails.update(behind[tail, arrow.value] if tail in removed else {tail: None})
            grows |= result[0] in later and len(tails) > len(behind[result])
            behind[result] = tails
    return behind


def _feeding(
    view: View, box: str, used: Iterable[ValueId | None], into: Sequence[Arrow]
) -> Iterator[tuple[ValueId | None, Sequence[Arrow]]]:
    """For each of the *used* values, the arrows *into* a hidden box with the values that its
    operations made it of; all of them if an arrow is missing for one of these values."""
    inside = {*view.boxes[box].members}
    if len(into) < 2:
        yield from ((value, into) for value in used)
        return
    carrying = grouped((arrow.value, (place, arrow)) for place, arrow in enumerate(into))
    for value in used:
        sources = _sources(view, value, inside) if value is not None else {}
        if value is None or not sources.keys() <= carrying.keys():
            yield value, into
        else:
            found = (one for source in (None, *sources) for one in carrying.get(source, ()))
            yield value, [arrow for _, arrow in sorted(found, key=itemgetter(0))]


def _sources(view: View, value: ValueId, inside: Collection[str]) -> dict[ValueId, None]:
    """The values from outside of which the operations *inside* made *value*."""
    values = view.recording.values
    read = values_behind(view.recording, [value], lambda op: op.id in inside)
    return dict.fromkeys(item for item in read if values[item].producer not in inside)
