"""Running sums: lines of code that add to, or subtract from, a sum that starts at 0."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from torchrecorder.events import FunctionId, OpId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import Relations, readers_of

ADDS = frozenset(("add", "add_"))
SUBTRACTS = frozenset(("rsub", "sub", "sub_"))

CallsOf = Callable[[str], Sequence[FunctionId]]


def running_sums(recording: Relations) -> frozenset[OpId]:
    """The ops of lines such as ``total += loss``, of which the first adds a tensor to 0.

    The first op creates the sum, and only the others read one: in a loop, or in ``sum(losses)``.
    Lines such as ``loss = loss - gain`` are included.
    """
    adding = (op for op in recording.ops.values() if op.name in ADDS | SUBTRACTS)
    lines = grouped((op.source, op) for op in adding if op.source is not None)
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


def sums_at_once(recording: Relations, calls: CallsOf) -> Iterator[list[Op]]:
    """The ops of each sum in which only a generator expression runs between them.

    They are those of ``sum(losses)``, ``sum(branch(x) for branch in branches)``,
    ``functools.reduce(torch.add, losses)``, and of loops that only add. Only the next op reads the
    result of each of them. A sum that does not begin with 0 has at least four terms: two or three
    are usually written one by one.

    Args:
        calls: The calls of functions around an op or scope, in the module that runs it.
    """
    kept = {slot.value for slot in recording.outputs}
    known: set[OpId] = set()
    for op in recording.ops.values():
        if op.name not in ADDS or op.id in known:
            continue
        chain, added = list[Op](), op if begins_sum(op) or len(op.inputs) == 2 else None
        while added is not None:
            chain.append(added)
            added = _next(recording, added, calls) if kept.isdisjoint(added.outputs) else None
        known.update(item.id for item in chain)
        if len(chain) > (1 if begins_sum(op) else 2):
            yield chain


def _next(recording: Relations, op: Op, calls: CallsOf) -> Op | None:
    """The op after *op* that adds to its result, if no other op reads the result."""
    readers = readers_of(recording, op)
    if len(readers) != 1:
        return None
    (later,) = readers
    same = later.source == op.source and later.scope == op.scope and later.name in ADDS
    if not same or len(later.inputs) != 2 or later.inputs[0].value not in op.outputs:
        return None
    siblings = recording.children[op.scope]
    first = bisect_right(siblings, op.index, key=attrgetter("index"))
    last = bisect_left(siblings, later.index, key=attrgetter("index"))
    around = calls(op.id)
    between = siblings[first:last]
    return later if all(_generated(recording, item, around, calls) for item in between) else None


def _generated(
    recording: Relations, item: Scope | Op, around: Sequence[FunctionId], calls: CallsOf
) -> bool:
    """Whether a generator expression, in the calls *around* it, runs *item*."""
    depth, inside = len(around), calls(item.id)
    called = recording.function_calls[inside[depth]] if len(inside) > depth else item
    source = called.source
    return inside[:depth] == around and source is not None and source.function == "<genexpr>"
