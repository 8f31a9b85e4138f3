"""Running sums: lines of a program that add to a sum that begins with the number 0."""

from __future__ import annotations

from torchrecorder.events import OpId, SourceLine
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import Relations

ADDS = frozenset(("add", "add_"))


def running_sums(recording: Relations) -> frozenset[OpId]:
    """The ops of lines such as ``total += loss``, of which the first adds a tensor to 0.

    The first makes the sum, and only the others read one: in a loop, or in ``sum(losses)``.
    """
    lines: dict[SourceLine, list[Op]] = {}
    for op in recording.ops.values():
        if op.name in ADDS and op.source is not None:
            lines.setdefault(op.source, []).append(op)
    return frozenset(
        op.id for line in lines.values() if len(line) > 1 and any(map(begins_sum, line))
        for op in line
    )


def begins_sum(op: Op) -> bool:
    """Whether *op* adds a tensor to the number 0."""
    zero = len(op.arguments) == 1 and op.arguments[0] in (("other", "0"), ("other", "0.0"))
    return op.name in ADDS and zero and len(op.inputs) == 1
