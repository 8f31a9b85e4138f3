"""Places: what a scope is called in lists and messages."""

from __future__ import annotations

from torchrecorder.events import ScopeId
from torchrecorder.graph.recording import RecordedRun


def scope_name(recording: RecordedRun, scope: ScopeId | None) -> str:
    """The dotted path of a scope; of a region that of its module and its own name."""
    names: list[str] = []
    for each in recording.within(scope):
        found = recording.scopes[each]
        names.append(found.path or found.name)
        if found.path:
            break
    return " > ".join(reversed(names))
