"""Which operations a figure may leave out: queries, comparisons, reshapes, empty calls."""

from __future__ import annotations

from collections.abc import Collection

from torchrecorder.events import OpId, OpKind
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun

RESHAPES = frozenset(
    """
    view view_as reshape reshape_as _unsafe_view flatten unflatten ravel squeeze unsqueeze
    transpose t T mT mH H adjoint permute movedim moveaxis swapaxes swapdims expand expand_as
    broadcast_to contiguous squeeze_ unsqueeze_ transpose_ t_ numpy_T alias
    """.split()
)
"""Ops that change only the shape."""

PARTS = frozenset(("getitem", "select", "narrow", "unbind"))
"""Ops that return parts of a tensor."""

DECISIONS = frozenset(("bool()", "is_nonzero"))
"""Ops whose result Python uses in a condition."""


def is_pass(op: Op) -> bool:
    """Whether nothing ran: a scope returned its input."""
    return op.kind is OpKind.PASS


def is_query(op: Op) -> bool:
    """Whether it returns no tensor: it reads a number, a flag or a shape."""
    return not op.outputs and not op.failed and not is_send(op)


def comparisons(
    recording: RecordedRun, needed: Collection[OpId | None] = ()
) -> frozenset[OpId]:
    """The ops whose results are flags that only an ``if`` of Python reads, and what they compare if
    it is a part of a tensor. Those that are *needed* are drawn all the same.

    Ops that are the only readers of an input of the run are not among them: without them, the input
    would have no reader.
    """
    values, ops = recording.values, recording.ops
    decisions = {op.id: op for op in ops.values() if op.name in DECISIONS and op.id not in needed}
    given = {slot.value for slot in recording.outputs}
    found: set[OpId] = set()
    waiting = [slot.value for op in decisions.values() for slot in op.inputs]
    while waiting:
        producer = values[waiting.pop()].producer
        op = ops[producer] if producer is not None else None
        if op is None or op.id in found or op.failed or op.writes:
            continue
        part = is_reshape(op) and len(op.inputs) == 1 or is_part(op)
        if any(not part and values[item].dtype != "bool" or item in given for item in op.outputs):
            continue
        readers = {read for item in op.outputs for read in recording.consumers.get(item, ())}
        if readers <= found | decisions.keys():
            found.add(op.id)
            waiting.extend(slot.value for slot in op.inputs)
    alone = [slot.value for slot in recording.inputs] if found else []
    waiting = [value for value in alone if found.issuperset(recording.consumers.get(value, ()))]
    while waiting:
        shown = found.intersection(recording.consumers.get(waiting.pop(), ()))
        found -= shown
        waiting.extend(output for item in shown for output in ops[item].outputs)
    return frozenset(found)


def idle_loads(recording: RecordedRun) -> frozenset[OpId]:
    """The ops of data loaders that start a pass over the data, or load what nothing reads."""
    loaders = recording.data_loaders
    return frozenset(
        op.id for op in (recording.ops.values() if loaders.calls else ())
        if (call := loaders.call_of(op)) is not None and not loaders.batches[call]
    )


def is_send(op: Op) -> bool:
    """Whether it only sends a tensor to another process."""
    return op.name in ("send", "isend") and op.qualname.startswith("torch.distributed.")


def is_part(op: Op) -> bool:
    """Whether it returns a part of a tensor, which no other tensor selects."""
    return op.name in PARTS and len(op.inputs) == 1


def is_reshape(op: Op) -> bool:
    """Whether it changes only the shape."""
    return op.name in RESHAPES and not op.failed
