"""Places: what a scope is called in lists and messages."""

from __future__ import annotations

from torchrecorder.events import ScopeId
from torchrecorder.graph.recording import Recording


def scope_name(recording: Recording, scope: ScopeId | None) -> str:
    """The dotted path of a scope; of a region that of its module and its own name."""
    names: list[str] = []
    while scope is not None:
        found = recording.scopes[scope]
        if found.path:
            names.append(found.path)
            break
        names.append(found.name)
        scope = found.parent
    return " > ".join(reversed(names))
