"""Moved scopes: modules of one run that the other run has in another place, and lists of modules
that it has under another name, as ``layers.0 … 3`` and ``blocks.0 … 3``.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.comparison.step_keys import Side, Skeleton, plain_kind
from torchrecorder.events import ScopeId
from torchrecorder.graph.align import IndexPair, between
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import scopes_inside

ScopePair = tuple[ScopeId, ScopeId]


def called_elsewhere(
    a: Side, b: Side, known: Container[ScopeId], known_there: Container[ScopeId]
) -> Iterator[ScopePair]:
    """Calls of the same modules from elsewhere; the sets of *known* scopes may grow meanwhile."""
    places = {
        _path_of(b, scope): scope.id for scope in b.recording.scopes.values() if scope.path
    }
    for scope in a.recording.scopes.values():
        twin = places.get(_path_of(a, scope))
        if twin is not None and scope.id not in known and twin not in known_there:
            yield scope.id, twin


def equal_elsewhere(
    a: Side, b: Side, known: Container[ScopeId], known_there: Container[ScopeId]
) -> list[ScopePair]:
    """Scopes with weights and equal structure, the largest first.

    If only one run has the module around them, all with weights in it must be in one place there,
    or be the only ones of this name: layers of equal sizes say little alone.
    """
    rest = _Rest(a, known, set()), _Rest(b, known_there, set())
    pairs: list[ScopePair] = []
    left, right = (one.by_structure() for one in rest)
    common = (item for item in left if item in right and item.weights)
    for structure in sorted(common, key=lambda item: (-item.scopes, item.digest)):
        free = right[structure][::-1]
        for moved in left[structure]:
            while free and free[-1] in rest[1].taken:
                free.pop()
            if free and moved not in rest[0].taken:
                pairs.append((moved, free[-1]))
                for one, scope in zip(rest, pairs[-1]):
                    one.taken.update(scopes_inside(one.side.recording, [scope]))
    names, twins = [one.names() for one in rest], (dict(pairs), {b: a for a, b in pairs})

    @functools.cache
    def is_all_in_one_place(run: int, around: ScopeId | None) -> bool:
        parents = rest[1 - run].side.recording.scopes
        moved = (twins[run][one] for one in rest[run].inside(around) if one in twins[run])
        return rest[run].is_whole(around) and len({parents[one].parent for one in moved}) == 1

    return [
        pair for pair in pairs
        if all(one.is_known(one.around(scope)) for one, scope in zip(rest, pair))
        or any(is_all_in_one_place(run, rest[run].around(pair[run])) for run in (0, 1))
        or names[0][key := rest[0].name(pair[0])] == names[1][key] == 1
    ]


class _Rest(NamedTuple):
    """The scopes of one run that are not *known*, and those that are *taken* by candidates."""

    side: Side
    known: Container[ScopeId]
    taken: set[ScopeId]

    def by_structure(self) -> dict[Skeleton, list[ScopeId]]:
        """The scopes of each structure, in the order in which they ran."""
        rest = (scope for scope in self.side.recording.scopes if scope not in self.known)
        return grouped((self.side.skeletons[scope], scope) for scope in rest)

    def names(self) -> Counter[Hashable]:
        """How many scopes have each name and structure."""
        return Counter(map(self.name, self.side.recording.scopes))

    def name(self, scope: ScopeId) -> Hashable:
        """The last part of the name of a scope, and its structure."""
        name = self.side.recording.scopes[scope].name.rpartition(".")[2]
        return name, self.side.skeletons[scope].digest

    def around(self, scope: ScopeId) -> ScopeId | None:
        """The scope around this one."""
        return self.side.recording.scopes[scope].parent

    def is_known(self, around: ScopeId | None) -> bool:
        """Whether a scope around others is the whole model, or in the other run, too."""
        return around is None or around in self.known or around in self.side.recording.roots

    def inside(self, around: ScopeId | None) -> Iterator[ScopeId]:
        """The scopes with weights directly in one."""
        for child in self.side.recording.children[around]:
            if isinstance(child, Scope) and self.side.skeletons[child.id].weights:
                yield child.id

    def is_whole(self, around: ScopeId | None) -> bool:
        """Whether all that has weights in a scope that is not in the other run is there."""
        return not self.is_known(around) and all(
            one in self.taken or one in self.known for one in self.inside(around)
        )


def moved_path(path: str, paths: Mapping[str, str]) -> str:
    """The path in the second run of a module; *paths*: those of matched modules around it."""
    around, rest = path, ""
    while around not in paths:
        if not around:
            return path
        around, _, name = around.rpartition(".")
        rest = f".{name}{rest}"
    return (paths[around] + rest).removeprefix(".")


def _path_of(side: Side, scope: Scope) -> Hashable:
    """The path and class of a module, and which of its calls this is."""
    return plain_kind(scope), scope.path, scope.cls, side.calls[scope.id]


def renamed_lists(
    a: Side,
    b: Side,
    left: Sequence[Scope | Op],
    right: Sequence[Scope | Op],
    pairs: Sequence[IndexPair],
) -> Iterator[tuple[Scope, Scope]]:
    """The elements of lists of one length between the same *pairs* of steps, if their layers are
    of much the same classes."""
    for gap, other_gap in between(pairs, len(left), len(right)):
        lists = _lists(left[place] for place in gap)
        others = _lists(right[place] for place in other_gap)
        if [*map(len, lists.values())] != [*map(len, others.values())]:
            continue
        for scopes, twins in zip(lists.values(), others.values()):
            if len(scopes) > 1 and _are_alike(_layers(a, scopes), _layers(b, twins)):
                yield from zip(scopes, twins)


def _lists(steps: Iterator[Scope | Op]) -> Mapping[str, list[Scope]]:
    """The calls of modules in each list, in the order in which they ran."""
    named = ((step, step.name.rpartition(".")) for step in steps
             if isinstance(step, Scope) and step.module is not None and not step.recompute)
    return grouped((name, step) for step, (name, _, number) in named if number.isdigit())


def _layers(side: Side, scopes: Sequence[Scope]) -> Counter[str]:
    """How many modules with weights of their own there are of each class."""
    recording = side.recording
    inside = scopes_inside(recording, [scope.id for scope in scopes])
    modules = (recording.module_of(recording.scopes[scope]) for scope in inside)
    return Counter(module.cls for module in modules if module is not None and module.parameters)


def _are_alike(layers: Counter[str], others: Counter[str]) -> bool:
    """Whether half of the layers have a counterpart of the same class."""
    most = max(layers.total(), others.total())
    return most > 0 and 2 * (layers & others).total() >= most
