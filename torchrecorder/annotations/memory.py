"""Memory: the bytes of new tensors that each op makes."""

from __future__ import annotations

from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.graph.recording import Recording


def new_bytes(recording: Recording) -> dict[str, float]:
    """For each op, the bytes of those results that share memory with nothing before.

    A view, and a result written in place, are not new.
    """
    found: dict[str, float] = {op.id: 0 for op in recording.ops.values()}
    known: set[int] = set()
    for value in recording.values.values():
        seen = value.storage in known
        if value.storage >= 0:
            known.add(value.storage)
        if value.producer in found and not seen and not _written(recording, value.id):
            found[value.producer] += value.bytes
    return found


def _written(recording: Recording, value: str) -> bool:
    producer = recording.values[value].producer  # type: ignore[index]
    return producer is not None and value in recording.ops[producer].writes


OUTPUT_BYTES = Annotation("output_bytes", "Output size", "B", new_bytes, sum, of_bytes)
"""Bytes of new tensors that ops made."""
