"""Running sums: lines of code that add to, or subtract from, a sum that starts at 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchrecorder.events import OpId, SourceLine
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import Relations, readers_of

ADDS = frozenset(("add", "add_"))
SUBTRACTS = frozenset(("rsub", "sub", "sub_"))


def running_sums(recording: Relations) -> frozenset[OpId]:
    """The ops of lines such as ``total += loss``, of which the first adds a tensor to 0.

    The first op creates the sum, and only the others read one: in a loop, or in ``sum(losses)``.
    Lines such as ``loss = loss - gain`` are included.
    """
    lines: dict[SourceLine, list[Op]] = {}
    for op in recording.ops.values():
        if op.name in ADDS | SUBTRACTS and op.source is not None:
            lines.setdefault(op.source, []).append(op)
    return frozenset(
        op.id for line in lines.values() if len(line) > 1 and any(map(begins_sum, line))
        for op in line
    )


def begins_sum(op: Op) -> bool:
    """Whether *op* adds a tensor to the number 0, or subtracts one from it."""
    zero = len(op.arguments) == 1 and op.arguments[0] in (("other", "0"), ("other", "0.0"))
    return (op.name in ADDS or op.name == "rsub") and zero and len(op.inputs) == 1


def sum_sign(op: Op) -> str:
    """Whether *op* adds or subtracts: ``"add"`` or ``"sub"``, for all operations of a sum."""
    return "add" if op.name in ADDS else "sub"


def sums_rounds(op: Op, members: Iterable[str], sums: frozenset[OpId]) -> bool:
    """Whether *op* starts one of the running *sums*, and other ops of *members* add to it."""
    return begins_sum(op) and len(sums.intersection(members)) > 1


def sums_at_once(recording: Relations) -> Iterator[list[Op]]:
    """The ops of each running sum whose ops ran directly after each other, as in ``sum(losses)``.

    Only the next op reads the result of each of them.
    """
    kept = {slot.value for slot in recording.outputs}
    for op in recording.ops.values():
        added = op if op.name in ADDS and begins_sum(op) else None
        chain: list[Op] = []
        while added is not None:
            chain.append(added)
            added = _next(recording, added) if kept.isdisjoint(added.outputs) else None
        if len(chain) > 1:
            yield chain


def _next(recording: Relations, op: Op) -> Op | None:
    """The op after *op* that adds to its result, if no other op reads the result."""
    readers = readers_of(recording, op)
    if len(readers) != 1:
        return None
    (later,) = readers
    same = later.source == op.source and later.scope == op.scope and later.index == op.index + 1
    return later if same and later.name in ADDS and not begins_sum(later) else None
