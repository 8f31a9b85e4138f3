"""Communication: bytes that processes send each other, and the time that it takes."""

from __future__ import annotations

from collections.abc import Callable

from torchrecorder.annotations.amounts import of_bytes, of_seconds
from torchrecorder.annotations.annotation import JOINED, PROCESSES, Annotation
from torchrecorder.events import Communication
from torchrecorder.graph.recording import RecordedRun


def size(sent: Communication) -> int:
    """The bytes of one communication: what went in or what came out, whichever is more."""
    return max(sent.given, sent.received)


def _by_node(
    amount: Callable[[Communication], float | None],
) -> Callable[[RecordedRun], dict[str, float]]:
    """Amounts of communications, by the op or grad node that ran them, else by the scope."""

    def compute(recording: RecordedRun) -> dict[str, float]:
        found: dict[str, float] = {}
        for sent in recording.communications:
            node, number = sent.op or sent.grad or sent.scope, amount(sent)
            if node is not None and number is not None:
                found[node] = found.get(node, 0) + number
        return found

    return compute


COMMUNICATION_BYTES = Annotation(
    "communication_bytes", "Sent", "B", _by_node(size), sum, of_bytes, needs=(PROCESSES,),
    passes=True,
)
"""Bytes of collectives, sends and receives: what goes in or comes out, whichever is more."""

COMMUNICATION_TIME = Annotation(
    "communication_time", "Sending", "s", _by_node(lambda sent: sent.seconds), sum, of_seconds,
    needs=(PROCESSES,), passes=True,
)
"""Seconds from the call of a collective, send or receive until it was done."""

BLOCKED_TIME = Annotation(
    "blocked_time", "Blocked", "s", _by_node(lambda sent: sent.blocked_seconds), sum, of_seconds,
    needs=(PROCESSES,), passes=True,
)
"""Seconds in which the program did nothing but wait for others."""

WAITED_TIME = Annotation(
    "waited_time", "Waited", "s", _by_node(lambda sent: sent.waited_seconds), sum, of_seconds,
    needs=(JOINED,), passes=True,
)
"""Seconds that ranks waited for the one that came last, where they were put together."""
