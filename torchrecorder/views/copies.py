"""Copies: operations that only hand a tensor on to Python, or to nothing."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence, Set

from torchrecorder.events import OpId, OpKind, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.quiet_ops import RESHAPES, is_pass, is_query

KEPT = frozenset(("clone", "data", "detach"))
"""Ops whose result is the same tensor, for later, or for what it says of its shape and device."""

COPIES = frozenset(("bfloat16", "cpu", "double", "float", "half", "to", *KEPT))
"""Ops that copy a tensor, to another device or type."""


def copies(
    recording: RecordedRun, needed: Collection[OpId | None] = (), hidden: Collection[OpId] = ()
) -> frozenset[OpId]:
    """The ops that only copy a tensor, of which then nothing is read but numbers for Python.

    Such as ``loss.detach().cpu()`` before ``item``, and losses that a program keeps in a list. With
    them are tensors made of numbers that only an ``if`` of Python compares. All ops of a line of
    the program are among them or none: in the last round of a loop, nothing may read what the
    others pass on.

    *needed* ops return no tensor and are drawn all the same; *hidden* ops are not drawn.
    """
    given = {slot.value for slot in recording.outputs}
    named = [op for op in recording.ops.values() if is_copy(op) or not op.inputs]
    able = [op for op in reversed(named) if _may_hide(op, given)]
    drawn = {*map(_line, named)}.difference(map(_line, able))
    while True:
        found = set[OpId]()
        for op in able:
            readers = _readers(recording, op)
            if _line(op) in drawn or not readers and op.name not in KEPT:
                continue
            if not op.inputs:
                quiet = all(reader.id in hidden for reader in readers)
            else:
                quiet = all(reader.id in found or reader.id in hidden or _is_quiet(reader, needed)
                            for reader in readers)
            if quiet:
                found.add(op.id)
        more = {_line(op) for op in able if op.id not in found} - drawn
        if found.isdisjoint(op.id for op in able if _line(op) in more):
            return frozenset(found)
        drawn |= more


def is_copy(op: Op) -> bool:
    """Whether the result of *op* is what it was given, copied or in another shape."""
    return op.name in COPIES or op.name in RESHAPES


def _may_hide(op: Op, given: Set[ValueId]) -> bool:
    if op.source is None or op.failed or op.writes or op.kind is not OpKind.CALLED:
        return False
    return bool(op.outputs) and given.isdisjoint(op.outputs)


def _line(op: Op) -> Hashable:
    return op.source, op.name


def _readers(recording: RecordedRun, op: Op) -> Sequence[Op]:
    readers = (reader for value in op.outputs for reader in recording.consumers.get(value, ()))
    return [recording.ops[reader] for reader in readers]


def _is_quiet(op: Op, needed: Collection[OpId | None]) -> bool:
    """Whether *op* returns what it is given, or a number."""
    return is_pass(op) and not op.outputs or is_query(op) and op.id not in needed
