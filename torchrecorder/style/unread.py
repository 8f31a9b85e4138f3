"""Unread: inputs, operations, modules and regions that no drawn box reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from operator import attrgetter

from torchrecorder.events import OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import is_alias, replacements
from torchrecorder.graph.structural_hash import BACKWARD
from torchrecorder.style.figure import Text
from torchrecorder.views.effects import lasting
from torchrecorder.views.quiet_ops import is_copy, is_identity
from torchrecorder.views.view import Box, BoxKind, View

NOT_READ = "unused"
GRADIENT = "becomes a gradient"
DEAD_END = "leads only to unused results"
_MAX_NAMES = 3
_READABLE = (BoxKind.INPUT, BoxKind.OP, BoxKind.MODULE, BoxKind.REGION)


def unread(view: View) -> Mapping[str, str]:
    """The captions of inputs, operations, modules and regions without outgoing edges: ``"unused"``,
    or the hidden operations that read them, such as ``"read by item"``, or ``"read by backward"``
    if they ran again in a backward pass. The result of a hook is ``"kept as weight.grad"``, or
    `GRADIENT` if the backward pass continues with it. Boxes that lead only to unread boxes have
    `DEAD_END`. What no operation reads in a custom function with a backward has ``""``: its
    ``ctx.save_for_backward`` leaves no trace in a recording.

    Other boxes with an op that has an effect are excluded, see `lasting`.
    """
    if view.backward:
        return {}
    read = {arrow.tail for arrow in view.arrows}
    if not any(box.id not in read and box.kind in _READABLE for box in view.boxes.values()):
        return {}
    effects = lasting(view.recording)
    replaced = replacements(view.recording)
    boxes = [box for box in view.boxes.values() if _may_be_idle(view, box, effects, replaced)]
    drawn = {member for box in view.boxes.values() for member in box.members}
    found = {box.id: _readers(view, box, drawn, replaced) for box in boxes if box.id not in read}
    custom = _with_backward(view.recording)
    for box in boxes if custom else ():
        if found.get(box.id) == NOT_READ and _is_inside(view, box, custom):
            found[box.id] = ""
    gone = {box for box, caption in found.items() if caption == NOT_READ}
    heads = grouped((arrow.tail, arrow.head) for arrow in (view.arrows if gone else ()))
    for box in reversed(boxes if gone else []):
        if gone.issuperset(heads.get(box.id, (box.id,))):
            gone.add(box.id)
            found.setdefault(box.id, DEAD_END)
    return found


def unread_clusters(view: View, captions: Mapping[str, str]) -> Mapping[str, str]:
    """The captions, as in `unread`, of clusters in which all boxes lead nowhere; *captions* are
    those of the boxes."""
    gone = {box for box, caption in captions.items() if leads_nowhere(caption)}
    if not gone:
        return {}
    found, used, read = dict[str, str](), set[str](), set[str]()
    for box in view.boxes.values():
        if box.kind in _READABLE and box.id not in gone:
            used.update(view.nesting.around(box.cluster))
    for arrow in view.arrows:
        if arrow.tail in gone:
            tail, head = (view.boxes[end].cluster for end in (arrow.tail, arrow.head))
            read.update({*view.nesting.around(tail)} - {*view.nesting.around(head)})
    for name in gone:
        for around in view.nesting.around(view.boxes[name].cluster):
            if around not in used:
                found[around] = DEAD_END if around in read else NOT_READ
    return found


def _may_be_idle(
    view: View, box: Box, effects: frozenset[str], replaced: frozenset[ValueId]
) -> bool:
    """Whether *box* has no effect but its results, or one of them is in *replaced*.

    Members in *effects* do have an effect.
    """
    if box.kind is BoxKind.INPUT:
        return True
    if box.kind not in _READABLE:
        return False
    ops = _ops_of(view, box)
    return bool(ops) and effects.isdisjoint(box.members) or any(
        not replaced.isdisjoint(op.outputs) for op in ops if replaced
    )


def _ops_of(view: View, box: Box) -> list[Op]:
    """The operations of a box, which may stand for all iterations of a loop."""
    ops = view.recording.ops
    return [ops[OpId(member)] for member in box.members if member in ops]


def _readers(view: View, box: Box, drawn: Set[str], replaced: frozenset[ValueId]) -> str:
    """The hidden operations that read an idle box, as a caption; *drawn*: members of all boxes."""
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
            elif not (is_identity(reader) and not reader.outputs):
                found[reader.id] = reader
    if not found or box.count == 1 and found.keys() <= frozenset(box.members):
        return NOT_READ if replaced.isdisjoint(seen) else GRADIENT
    unseen = (reader for reader in found.values() if reader.id not in drawn)
    hidden = sorted(unseen, key=attrgetter("index"))
    names = [*dict.fromkeys(
        BACKWARD if reader.recompute else reader.name for reader in hidden if not is_alias(reader)
    )]
    kept = [name for reader in hidden if is_alias(reader) for value in reader.outputs
            for name in recording.values[value].names[:1]]
    does, names = ("read by", names) if names else ("kept as", [*dict.fromkeys(kept)])
    more = ["..."] if len(names) > _MAX_NAMES else []
    return f"{does} {', '.join([*names[:_MAX_NAMES], *more])}" if names else ""


def _with_backward(recording: RecordedRun) -> Set[ScopeId]:
    """The calls of custom functions from which a backward pass may continue."""
    scopes = recording.scopes
    custom = {name for name, scope in scopes.items() if scope.kind is ScopeKind.CUSTOM_FUNCTION}
    return custom & {node.scope for node in recording.grad_nodes.values()} if custom else custom


def _is_inside(view: View, box: Box, scopes: Set[ScopeId]) -> bool:
    """Whether an operation of *box* ran in any of *scopes*."""
    within = view.recording.within
    return any(scope in scopes for op in _ops_of(view, box) for scope in within(op.scope))


def leads_nowhere(readers: str) -> bool:
    """Whether nothing reads the results of the box with this caption: its outline is dotted."""
    return readers in (DEAD_END, NOT_READ)


def with_readers(label: tuple[Text, ...], readers: str) -> tuple[Text, ...]:
    """The label of a box with the caption *readers*; of one that nothing reads, the title alone."""
    if readers == NOT_READ:
        label = tuple(text for text in label if text.part == "title")
    return label if readers in ("", DEAD_END) else (*label, Text(readers))
