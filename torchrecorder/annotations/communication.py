"""Communication: bytes of collectives and messages, and their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchrecorder.annotations.amounts import of_bytes, of_seconds
from torchrecorder.annotations.annotation import JOINED, PROCESSES, Annotation
from torchrecorder.annotations.places import calls_of_passes
from torchrecorder.events import Communication, GradId, OpId, ScopeId
from torchrecorder.graph.recording import RecordedRun


def size(sent: Communication) -> int:
    """The bytes of one communication: the larger of its input and its output."""
    return max(sent.given, sent.received)


def _by_node(
    amount: Callable[[Communication], float | None],
) -> Callable[[RecordedRun], dict[str, float]]:
    """Returns a function that adds up amounts by the op, grad node or scope that communicated.

    For a grad node whose op is removed in a joined recording, the first one in its scope whose op
    exists counts; at the end of a backward pass, the call of the pass.
    """

    def compute(recording: RecordedRun) -> dict[str, float]:
        found: dict[str, float] = {}
        if not recording.communications:
            return found
        owned: dict[ScopeId | None, GradId] = {}
        for grad in recording.grad_nodes.values():
            if grad.owner is not None:
                owned.setdefault(grad.scope, grad.id)
        for sent, call in _with_calls(recording):
            ran = sent.grad
            if ran is not None and recording.grad_nodes[ran].owner is None:
                ran = owned.get(sent.scope, ran)
            node, number = sent.op or ran or call or sent.scope, amount(sent)
            if node is not None and number is not None:
                found[node] = found.get(node, 0) + number
        return found

    return compute


def _with_calls(recording: RecordedRun) -> Iterator[tuple[Communication, OpId | None]]:
    """Each communication; one in backward with the call of its pass, if in the same process."""
    ops = {number: call.id for number, call in calls_of_passes(recording).items()}
    calls = {ran.grad: ops.get(ran.run) for ran in reversed(recording.grad_runs)}
    call = next(iter(ops.values()), None)
    for sent in recording.communications:
        call = calls.get(sent.grad, call) if sent.grad is not None else call
        here = call is not None and (
            sent.scope is None or sent.scope in recording.within(recording.ops[call].scope)
        )
        yield sent, call if sent.backward and here else None


def _timed(
    name: str, title: str, need: str, seconds: Callable[[Communication], float | None]
) -> Annotation:
    return Annotation(
        name, title, "s", _by_node(seconds), sum, of_seconds, needs=(need,), passes=True
    )


COMMUNICATION = (
    # the larger of input and output
    Annotation(
        "communication_bytes", "Communicated", "B", _by_node(size), sum, of_bytes,
        needs=(PROCESSES,), passes=True,
    ),
    # from the call until its completion
    _timed("communication_time", "Communicating", PROCESSES, lambda sent: sent.seconds),
    # for which the program was blocked waiting for other processes
    _timed("blocked_time", "Blocked", PROCESSES, lambda sent: sent.blocked_seconds),
    # that ranks waited for the one that came last; known in joined recordings only
    _timed("waited_time", "Waited", JOINED, lambda sent: sent.waited_seconds),
)
"""Bytes and seconds of collectives, sends and receives."""
