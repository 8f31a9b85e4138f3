"""Branches: which scopes to open below a depth, so that few boxes tell much.

One depth for all stops where the largest part of a network has too many boxes. Other large parts
may be opened further. What is alike opens alike: all calls of modules of one class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from torchrecorder.events import FUNCTION, ScopeId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun

LARGE = 1 / 3
"""A part is worth opening that has so much of the operations that are not shown."""

Part = tuple[str, ...]
"""Closed scopes that open together."""


class Branches:
    """Opens scopes, part by part, as long as the boxes stay few.

    Args:
        recording: What is drawn.
        quiet: Ops that are not drawn.
        hidden: Scopes and ops that are not drawn.
        closed: Scopes that stay closed.
    """

    def __init__(
        self,
        recording: RecordedRun,
        quiet: Callable[[Op], bool],
        hidden: Collection[str],
        closed: Collection[str],
    ) -> None:
        self.recording = recording
        self.closed = closed
        self.scopes: dict[str | None, list[str]] = {None: []}
        self.loose: Counter[str | None] = Counter()
        for around, children in recording.children.items():
            shown = [
                child
                for child in children
                if not (child.recompute or child.id in hidden)
                and (isinstance(child, Scope) or not quiet(child))
            ]
            self.scopes[around] = [child.id for child in shown if isinstance(child, Scope)]
            self.loose[around] = len(shown) - len(self.scopes[around])
        self.ops = self._ops_inside()

    def opened(self, depth: int, spare: int) -> frozenset[str]:
        """The scopes to open of those that lie *depth* scopes deep, and in them.

        Args:
            depth: What lies less deep is open.
            spare: How many boxes may be added.
        """
        found: set[str] = set()
        edge = self._at(depth)
        while True:
            for part in self._parts(edge):
                more = sum(self._inside(scope) - 1 for scope in part)
                if more <= spare:
                    break
            else:
                return frozenset(found)
            spare -= more
            found.update(part)
            edge = [scope for scope in edge if scope not in found]
            edge += [child for scope in part for child in self.scopes[scope]]

    def _ops_inside(self) -> Mapping[str | None, int]:
        """How many ops ran in each scope, at any depth; those that are not drawn left out."""
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
        """How many boxes a scope is when it is open and all in it is closed."""
        return max(self.loose[scope] + len(self.scopes[scope]), 1)

    def _parts(self, edge: list[str]) -> Iterator[Part]:
        """The large parts that can be opened at the *edge*, that with the most ops first."""
        openable = [scope for scope in edge if scope not in self.closed and self._inside(scope) > 1]
        parts = [(sum(self.ops[scope] for scope in part), part) for part in self._alike(openable)]
        least = LARGE * sum(self.ops[scope] for scope in edge)
        for ops, part in sorted(parts, key=lambda item: -item[0]):
            if ops >= least:
                yield part

    def _alike(self, scopes: list[str]) -> Iterator[Part]:
        """*scopes* by what opens together."""
        found: dict[object, list[str]] = {}
        for scope in scopes:
            found.setdefault(kind_of(self.recording, scope), []).append(scope)
        yield from map(tuple, found.values())


def kind_of(recording: RecordedRun, scope: str) -> object:
    """What scopes have in common that open together: the class, or the name of a function."""
    found = recording.scopes[ScopeId(scope)]
    return found.kind, found.cls, found.name if found.cls == FUNCTION else ""
