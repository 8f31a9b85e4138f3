"""Failed inputs: where the tensors come from that an operation could not work with."""

from __future__ import annotations

from collections.abc import Iterator

from torchrecorder.annotations.places import op_in_words
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun

MOST = 4
"""The maximum number of tensors that are listed."""


def failed_inputs(recording: RecordedRun) -> str:
    """The origin of each input of the failed operation, in words; empty if the run did not fail in
    an operation of the forward pass, or if no input was computed.

    The cause of shapes that do not match is often in an earlier operation:
    ``"tensors.1 is the result of conv_transpose2d() in up at unet.py:30"``.
    """
    failure = recording.run.failure
    op = recording.ops.get(failure.op) if failure is not None and failure.op is not None else None
    if failure is None or op is None or failure.backward:
        return ""
    found = [*_made(recording, op)]
    more = [f"{len(found) - MOST} more"] if len(found) > MOST else []
    return "; ".join([*found[:MOST], *more])


def _made(recording: RecordedRun, op: Op) -> Iterator[str]:
    """One sentence for each input that an operation of the run made."""
    for name, value in dict.fromkeys(op.inputs):
        maker = recording.values[value].producer
        if maker is not None:
            yield f"{name} is the result of {op_in_words(recording, maker)}"
