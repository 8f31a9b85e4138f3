"""Failed places: the error that ended a run, and where it was raised."""

from __future__ import annotations

from collections.abc import Iterator

from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun


def error_in(recording: RecordedRun, node: str, message: str | None = None) -> str | None:
    """The error that ended the run, or a lane of a joined run, if it was raised in *node*.

    For example ``"ValueError at net.py:12: no"``.

    None for other nodes: a node with an error that the program caught, and the call of a backward
    pass if one of its nodes raised the error.

    Args:
        recording: The run.
        node: The id of a scope, op or grad node.
        message: A shorter message than that of the error.
    """
    failures = (item for item in recording.run.failures if node in _places(recording, item))
    failure = next(failures, None)
    if failure is None:
        return None
    where = "in backward: " if failure.backward else ""
    return where + failure.text(message, folder=False)


def failed_pass(recording: RecordedRun) -> Op | None:
    """The last call of ``backward()`` or ``grad()`` that failed; None if none did, or if it is not
    in this part of a recording."""
    runs, ops = recording.backward_runs, recording.ops
    return next((ops[run.op] for run in reversed(runs) if run.failed and run.op in ops), None)


def _places(recording: RecordedRun, failure: Failure) -> Iterator[str | None]:
    """The operation, the grad node, and the scopes around these and around the backward pass, which
    is not looked for in lanes."""
    yield from (failure.op, failure.grad)
    own = failure is recording.run.failure
    call = failed_pass(recording) if failure.backward and own else None
    for scope in (failure.scope, *([call.scope] if call is not None else [])):
        if scope in recording.scopes:  # in a part of a recording it may be missing
            yield from recording.within(scope)
