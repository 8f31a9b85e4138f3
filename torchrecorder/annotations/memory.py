"""Memory: the bytes of new tensors that each op makes."""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.events import OpKind
from torchrecorder.graph.nodes import Op, Value
from torchrecorder.graph.recording import Recording


def new_bytes(recording: Recording) -> dict[str, float]:
    """For each op, the bytes of those results that share memory with nothing before.

    A view, a result written in place, and what is only handed on, are not new.
    """
    found: dict[str, float] = {op.id: 0 for op in recording.ops.values()}
    known: set[int] = set()
    for value in recording.values.values():
        seen = value.storage in known
        if value.storage >= 0:
            known.add(value.storage)
        if value.producer in found and not seen and _made(recording.ops[value.producer], value):
            found[value.producer] += value.bytes
    return found


def _made(op: Op, value: Value) -> bool:
    return op.kind is not OpKind.PASS and value.id not in op.writes


OUTPUT_BYTES = Annotation("output_bytes", "Output size", "B", new_bytes, sum, of_bytes)
"""Bytes of new tensors that ops made."""
