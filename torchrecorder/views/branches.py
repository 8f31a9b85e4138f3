"""Branches: choose scopes to open below the automatic depth, within a number of boxes.

A single depth for the whole network is limited by its largest part. Other large parts can be opened
further. All calls of modules of one class open together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from torchrecorder.events import FUNCTION, ScopeId, ScopeKind
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun

MIN_SHARE = 1 / 3
"""A part is opened only if it has at least this share of the ops in all closed scopes."""

WITHOUT_GRADIENTS = (ScopeKind.NO_GRAD, ScopeKind.INFERENCE_MODE)
"""The kinds of regions that hold no part of a training step that a loss depends on."""


class Branches:
    """Opens scopes, part by part, within a number of boxes.

    *hidden* scopes and ops are not drawn, *closed* scopes stay closed.
    """

    def __init__(
        self, recording: RecordedRun, hidden: Collection[str], closed: Collection[str]
    ) -> None:
        self.recording = recording
        self.closed = closed
        self.scopes: dict[str | None, list[str]] = {None: []}
        self.loose: Counter[str | None] = Counter()
        for around, children in _children(recording).items():
            shown = [
                child for child in children if not (child.recompute or child.id in hidden)
            ]
            self.scopes[around] = [child.id for child in shown if isinstance(child, Scope)]
            self.loose[around] = len(shown) - len(self.scopes[around])
        self.ops = self._ops_inside()

    def opened(self, depth: int, spare: int) -> frozenset[str]:
        """The scopes to open at depth *depth* and below.

        Args:
            depth: All scopes at a smaller depth are open.
            spare: The number of boxes that may be added.
        """
        found: set[str] = set()
        closed = self._at(depth)
        while True:
            for part in self._parts(closed):
                more = sum(self._inside(scope) - 1 for scope in part)
                if more <= spare:
                    break
            else:
                return frozenset(found)
            spare -= more
            found.update(part)
            closed = [scope for scope in closed if scope not in found]
            closed += [child for scope in part for child in self.scopes[scope]]

    def _ops_inside(self) -> Mapping[str | None, int]:
        """The number of drawn ops in each scope, at any depth."""
        total = Counter(self.loose)
        for scope in reversed(list(self.recording.scopes.values())):
            total[scope.parent] += total[scope.id]
        return total

    def _at(self, depth: int) -> list[str]:
        """The scopes at a depth, in run order."""
        row: list[str | None] = [None]
        for _ in range(depth + 1):
            row = [child for scope in row if scope not in self.closed
                   for child in self.scopes.get(scope, ())]
        return [scope for scope in row if scope is not None]

    def _inside(self, scope: str) -> int:
        """The number of boxes of a scope that is open while its children are closed."""
        return max(self.loose[scope] + len(self.scopes[scope]), 1)

    def _parts(self, closed: list[str]) -> Iterator[tuple[str, ...]]:
        """The large parts of the *closed* scopes, which open together; the one with the most ops
        first."""
        parts = grouped(
            (kind_of(self.recording, scope), scope) for scope in closed
            if scope not in self.closed and self._inside(scope) > 1
        )
        counted = [(sum(self.ops[scope] for scope in part), part) for part in parts.values()]
        least = MIN_SHARE * sum(self.ops[scope] for scope in closed if not self._is_beside(scope))
        for ops, part in sorted(counted, key=lambda item: -item[0]):
            if ops >= least:
                yield tuple(part)

    def _is_beside(self, scope: str) -> bool:
        """Whether *scope* is a region without gradients, as of a validation, beside a training."""
        kind = self.recording.scopes[ScopeId(scope)].kind
        return kind in WITHOUT_GRADIENTS and bool(self.recording.backward_runs)


def _children(recording: RecordedRun) -> Mapping[ScopeId | None, Sequence[Scope | Op]]:
    """Contents of each scope; those of a transparent one belong to the scope around it."""
    through = recording.transparent
    if not through:
        return recording.children
    found: dict[ScopeId | None, list[Scope | Op]] = {}
    for around, children in recording.children.items():
        home = next((outer for outer in recording.within(around) if outer not in through), None)
        found.setdefault(home, []).extend(item for item in children if item.id not in through)
    return found


def kind_of(recording: RecordedRun, scope: str) -> object:
    """A key that is equal for scopes that open together: their class or function name."""
    found = recording.scopes[ScopeId(scope)]
    return found.kind, found.cls, found.name if found.cls == FUNCTION else ""
