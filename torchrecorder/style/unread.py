"""Unread: inputs and operations without outgoing lines, because no drawn box reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter

from torchrecorder.events import OpId, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.structural_hash import is_alias
from torchrecorder.style.figure import Look, Text
from torchrecorder.views.copies import is_copy
from torchrecorder.views.view import Box, BoxKind, View

NOT_READ = "not read"
_MOST_NAMES = 3


def unread(view: View) -> Mapping[str, str]:
    """The captions of inputs and operations without outgoing edges: ``"not read"``, or which
    hidden operations read them, such as ``"read by item"``; the result of a hook is ``"kept as
    weight.grad"``.

    Operations that write, fail, communicate or have no outputs have side effects, and are excluded;
    so are those that make the new value of a buffer.
    """
    if view.backward:
        return {}
    used = {arrow.tail for arrow in view.arrows}
    used.update(run.op for run in view.recording.backward_runs)
    idle = (box for box in view.boxes.values() if box.id not in used and _is_idle(view, box))
    return {box.id: _readers(view, box) for box in idle}


def _is_idle(view: View, box: Box) -> bool:
    if box.kind is BoxKind.INPUT:
        return True
    op = view.recording.ops.get(OpId(box.id))
    if op is None or box.kind is not BoxKind.OP or op.failed:
        return False
    kept = view.recording.stored
    return bool(op.outputs) and not any(
        one.writes or any(value in kept for value in one.outputs) for one in _ops_of(view, box)
    )


def _ops_of(view: View, box: Box) -> list[Op]:
    """The operations of a box, which may stand for all rounds of a loop."""
    ops = view.recording.ops
    return [ops[OpId(member)] for member in box.members if member in ops]


def _readers(view: View, box: Box) -> str:
    """The hidden operations that read the results of an idle box, as a caption.

    Other rounds of a loop are no hidden operations if the box stands for them too.
    """
    recording = view.recording
    results = (value for op in _ops_of(view, box) for value in op.outputs)
    given: Iterable[ValueId] = map(ValueId, box.members) if box.kind is BoxKind.INPUT else results
    found: dict[OpId, Op] = {}
    waiting, seen = [*given], set[ValueId]()
    while waiting:
        value = waiting.pop()
        seen.add(value)
        for reader in map(recording.ops.__getitem__, recording.consumers.get(value, ())):
            further = [one for one in reader.outputs if recording.consumers.get(one)]
            if further and is_copy(reader) and reader.id not in view.boxes:
                waiting += [one for one in further if one not in seen]
            elif not reader.recompute:
                found[reader.id] = reader
    if not found:
        return NOT_READ
    rounds = frozenset(box.members)
    unseen = (
        reader for reader in found.values()
        if reader.id not in view.boxes and reader.id not in rounds
    )
    hidden = sorted(unseen, key=attrgetter("index"))
    names = [*dict.fromkeys(reader.name for reader in hidden if not is_alias(reader))]
    kept = [name for reader in hidden if is_alias(reader) for value in reader.outputs
            for name in recording.values[value].names[:1]]
    does, names = ("read by", names) if names else ("kept as", [*dict.fromkeys(kept)])
    more = ["..."] if len(names) > _MOST_NAMES else []
    return f"{does} {', '.join([*names[:_MOST_NAMES], *more])}" if names else ""


def with_readers(
    label: tuple[Text, ...], look: Look, readers: str
) -> tuple[tuple[Text, ...], Look]:
    """The label and look of an idle box with a caption from `unread`; one that nothing reads is
    small: its title, and a dotted outline."""
    if readers != NOT_READ:
        return ((*label, Text(readers)) if readers else label), look
    titles = tuple(text for text in label if text.part == "title")
    return (*titles, Text(NOT_READ)), replace(look, dash="dotted")
