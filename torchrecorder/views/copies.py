"""Copies: operations that only hand a tensor on to Python, or to nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from torchrecorder.events import OpId, OpKind, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.quiet_ops import RESHAPES, is_part, is_pass, is_query

KEPT = frozenset(("clone", "data", "detach"))
"""Ops whose result is the same tensor, for later, or for what it says of its shape and device."""

COPIES = frozenset(("bfloat16", "cpu", "double", "float", "half", "to", *KEPT))
"""Ops that copy a tensor, to another device or type."""


def copies(
    recording: RecordedRun, needed: Collection[OpId | None] = (), hidden: Collection[OpId] = ()
) -> frozenset[OpId]:
    """The ops that only copy a tensor or a part of it, if nothing then reads more than numbers.

    Such as ``loss.detach().cpu()`` before ``item``, losses that a program keeps in a list, and
    ``x[0]`` in ``x[0].shape``. With them are tensors made of numbers that only an ``if`` of Python
    compares. All ops of a line of the program are among them or none: in the last round of a loop,
    nothing may read what the others pass on.

    *needed* ops return no tensor and are drawn all the same; *hidden* ops are not drawn.
    """
    given = {slot.value for slot in recording.outputs}
    able = [
        op for op in recording.ops.values()
        if (is_copy(op) or is_part(op) or not op.inputs) and _may_hide(op, given)
    ]
    readers = {op.id: _readers(recording, op) for op in able}
    lines = {op.id: (op.source, op.name) for op in able}
    quiet = set(lines.values())

    def is_seen(op: Op) -> bool:
        """Whether something that is drawn reads *op*, or nothing does."""
        if not readers[op.id]:
            return op.name not in KEPT and not is_part(op)
        shown = (reader for reader in readers[op.id] if reader.id not in hidden)
        return any(
            not op.inputs or lines.get(reader.id) not in quiet and not _is_quiet(reader, needed)
            for reader in shown
        )

    before = None
    while before != len(quiet):
        before = len(quiet)
        for op in reversed(able):  # what reads an op comes after it
            if lines[op.id] in quiet and is_seen(op):
                quiet.discard(lines[op.id])
    return frozenset(op for op, line in lines.items() if line in quiet)


def is_copy(op: Op) -> bool:
    """Whether the result of *op* is what it was given, copied or in another shape."""
    return op.name in COPIES or op.name in RESHAPES


def _may_hide(op: Op, given: Set[ValueId]) -> bool:
    if op.source is None or op.failed or op.writes or op.kind is not OpKind.CALLED:
        return False
    return bool(op.outputs) and given.isdisjoint(op.outputs)


def _readers(recording: RecordedRun, op: Op) -> Sequence[Op]:
    readers = (reader for value in op.outputs for reader in recording.consumers.get(value, ()))
    return [recording.ops[reader] for reader in readers]


def _is_quiet(op: Op, needed: Collection[OpId | None]) -> bool:
    """Whether *op* returns what it is given, or a number."""
    return is_pass(op) and not op.outputs or is_query(op) and op.id not in needed
