"""Places: names of scopes and ops in lists and messages."""

from __future__ import annotations

from torchrecorder.events import OpId, ScopeId, ScopeKind
from torchrecorder.graph.nodes import GradNode, Op
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun


def scope_name(recording: RecordedRun, scope: ScopeId | None) -> str:
    """The dotted path of a scope; for a region, the path of its module and its own name."""
    names: list[str] = []
    for inner in recording.within(scope):
        found = recording.scopes[inner]
        names.append(found.path or found.name)
        if found.path:
            break
    return " > ".join(reversed(names))


def module_path(recording: RecordedRun, scope: ScopeId | None) -> str:
    """The dotted path of the innermost module around *scope*; empty for the root module."""
    around = (recording.scopes[outer] for outer in recording.within(scope))
    paths = (outer.path for outer in around if outer.kind is not ScopeKind.FUNCTION)
    return next(filter(None, paths), "")


def op_name(recording: RecordedRun, op: Op | GradNode) -> str:
    """The name of an op or grad node in rankings: ``"layer1.0.conv1: conv2d"``."""
    place = scope_name(recording, op.scope)
    return f"{place}: {op.name}" if place else op.name


def op_in_words(recording: RecordedRun, op: OpId) -> str:
    """An op with its module and line: ``"log() in encoder.fc at model.py:12"``."""
    found = recording.ops[op]
    place = scope_name(recording, found.scope)
    where = f" in {place}" if place else ""
    line = f" at {found.source.place}" if found.source is not None else ""
    return f"{found.name.removesuffix('()')}(){where}{line}"


def call_in_words(recording: RecordedRun, op: OpId) -> str:
    """``"call 3 of 5"`` of an op whose line ran several times in its module, as in a loop."""
    found, words = recording.ops[op], op_in_words(recording, op)
    calls = [
        other.id for other in recording.ops.values()
        if (other.source, other.recompute) == (found.source, found.recompute)
        and op_in_words(recording, other.id) == words
    ]
    if found.source is None or len(calls) == 1:
        return ""
    return f"call {calls.index(op) + 1} of {len(calls)}"


@once
def calls_of_passes(recording: RecordedRun) -> dict[int, Op]:
    """The op that called each backward pass, by the number of the pass; without those that are not
    in this part of a recording."""
    runs, ops = recording.backward_runs, recording.ops
    return {run.run: ops[run.op] for run in runs if run.op in ops}
