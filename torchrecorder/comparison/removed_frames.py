"""Removed frames: scopes that only the first run has, around steps that both runs have."""

from __future__ import annotations

from collections.abc import Mapping

from torchrecorder.comparison.match import Matching
from torchrecorder.events import ScopeId
from torchrecorder.graph.recording import RecordedRun


def removed_frames(
    before: RecordedRun, after: RecordedRun, matching: Matching
) -> Mapping[str, ScopeId]:
    """For each step of the second run that is inside of a removed scope, that scope."""
    found: dict[str, ScopeId] = {
        matching.scopes[inner]: outer for outer, inner in matching.held(added=False).items()
    }
    places: dict[str, tuple[ScopeId | None, int]] = {
        step.id: (around, place)
        for around, steps in after.children.items() for place, step in enumerate(steps)
    }
    for scope in before.scopes.values():
        around = matching.scopes.get(scope.parent) if scope.parent is not None else None
        twins = [matching.there.get(step.id, "") for step in before.children[scope.id]]
        _, first = places.get(twins[0], ("", 0)) if twins else ("", 0)
        expected = [(around, first + number) for number in range(len(twins))]
        if [places.get(twin) for twin in twins] == expected and found.keys().isdisjoint(twins):
            if scope.parent is None or around is not None:
                found.update(dict.fromkeys(twins, scope.id))
    return found
