"""First calls: models that the first of several calls creates for all of them.

An example is a meter that is created when something is logged for the first time. It is moved
before the calls, so that these are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import NamedTuple

from torchrecorder.events import NO_STORAGE, FunctionId, OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.calls_around import CallsAround, Chain
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import ops_inside, scopes_inside

Path = tuple[str, ...]
"""The scopes and function calls around an item, outermost first."""


class _NewParent(NamedTuple):
    """The new position of a scope: the scope and the function calls around it."""

    parent: ScopeId | None
    chain: Chain
    before: float  # a position in the run order


def with_first_calls(recording: RecordedRun) -> tuple[RecordedRun, Mapping[str, Chain]]:
    """*recording* with such models before the calls, and the function calls around each model."""
    constructions = [
        scope for scope in recording.scopes.values() if scope.kind is ScopeKind.CONSTRUCTION
    ]
    places = _FirstCalls(recording, constructions).places() if constructions else {}
    if not places:
        return recording, {}
    moved = {
        item: place.before for scope, place in places.items()
        for item in (*scopes_inside(recording, [scope]), *ops_inside(recording, [scope]))
    }
    changed = in_order_of(recording, moved)
    scopes = {
        scope.id: scope.replace(parent=places[scope.id].parent) if scope.id in places else scope
        for scope in changed.scopes.values()
    }
    changed = replace(changed, scopes=scopes)
    return changed, {scope: place.chain for scope, place in places.items()}


def in_order_of(recording: RecordedRun, places: Mapping[str, float]) -> RecordedRun:
    """*recording* with scopes and ops at these *places* in the run order, by id."""
    items: list[Scope | Op] = [*recording.scopes.values(), *recording.ops.values()]
    items.sort(key=lambda item: (places.get(item.id, item.index), item.index))
    numbered = [item.replace(index=index) for index, item in enumerate(items)]
    scopes = {item.id: item for item in numbered if isinstance(item, Scope)}
    ops = {item.id: item for item in numbered if isinstance(item, Op)}
    return replace(recording, scopes=scopes, ops=ops)


class _FirstCalls:
    """Finds the models among *constructions* that are moved before the call that created them."""

    def __init__(self, recording: RecordedRun, constructions: Sequence[Scope]) -> None:
        self.recording = recording
        self.scopes = recording.scopes
        self.calls = CallsAround(recording)
        self.path = cache(self._path)
        inside = {scope.id for scope in constructions}
        outermost = [scope.id for scope in constructions if scope.parent not in inside]
        self.paths = {scope: self.path(scope) for scope in outermost}
        called = Counter(map(self._key, recording.function_calls))
        called.update(self._key(scope.id) for scope in self.scopes.values())
        self.again = {key for key, times in called.items() if times > 1}

    def places(self) -> dict[ScopeId, _NewParent]:
        """The new position of each model."""
        found: dict[ScopeId, _NewParent] = {}
        for scope, path in self.paths.items():
            if self.again.isdisjoint(map(self._key, path)):
                continue
            depth = min((self._shared(path, reader) for reader in self._readers(scope)),
                        default=len(path))
            if depth < len(path):
                found[scope] = self._place(path[:depth])
        return found

    def _place(self, path: Path) -> _NewParent:
        calls, chain = self.recording.function_calls, list[FunctionId]()
        parent: ScopeId | None = None
        for item in path:
            if item in calls:
                chain.append(FunctionId(item))
                continue
            parent = ScopeId(item)
            if self.scopes[parent].kind is ScopeKind.MODULE:
                chain.clear()
        if path and path[-1] in calls:
            before = self._begins[FunctionId(path[-1])] - 0.5
        else:
            before = self.scopes[parent].index + 0.5 if parent is not None else -0.5
        return _NewParent(parent, tuple(chain), before)

    def _shared(self, path: Path, reader: Path) -> int:
        """The length of *path* before the first of two calls of one function or module.

        The whole length if the second call, which contains *reader*, creates its own model.
        """
        here, there = map(self._key, path), map(self._key, reader)
        for depth, (one, other) in enumerate(zip(here, there)):
            if path[depth] == reader[depth]:
                continue
            if one != other:
                break
            inside = [*map(self._key, path[depth:])]
            made = (every[:depth + 1] == reader[:depth + 1]
                    and [*map(self._key, every[depth:])] == inside
                    for every in self.paths.values())
            return len(path) if any(made) else depth
        return len(path)

    def _readers(self, scope: ScopeId) -> Iterator[Path]:
        """The paths of all readers of what *scope* creates; none if it reads other tensors."""
        recording, ops = self.recording, self.recording.ops
        inside = {*ops_inside(recording, [scope])}
        read = (recording.values[slot.value].producer for op in inside for slot in ops[op].inputs)
        if not inside.union([None]).issuperset(read):
            return
        made = dict.fromkeys(value for op in inside for value in ops[op].outputs)
        memory = {recording.values[value].storage: None for value in made}
        made |= dict.fromkeys(value for one in memory for value in self._in_memory.get(one, ()))
        found = {
            reader: None for value in made for reader in recording.consumers.get(value, ())
            if reader not in inside
        }
        yield from map(self.path, found)

    @cached_property
    def _in_memory(self) -> Mapping[int, list[ValueId]]:
        """The values in each storage: each write to a meter is a new value."""
        values = self.recording.values.values()
        return grouped((one.storage, one.id) for one in values if one.storage != NO_STORAGE)

    def _path(self, item: str) -> Path:
        scope = self.scopes.get(ScopeId(item))
        around = self.recording.ops[OpId(item)].scope if scope is None else scope.parent
        path, known = list[str](), 0
        for part in (*reversed(self.recording.within(around)), item):
            chain = self.calls.chain(part)
            path += [*chain[known:], part]
            known = max(known, len(chain))
            if part in self.scopes and self.scopes[ScopeId(part)].kind is ScopeKind.MODULE:
                known = 0  # the calls in it
        return tuple(path[:-1])

    def _key(self, item: str) -> Hashable:
        """A key that is equal for calls of one function or module, and for regions of one kind."""
        call = self.recording.function_calls.get(FunctionId(item))
        if call is not None:
            return call.name, call.file, call.line
        scope = self.scopes[ScopeId(item)]
        return scope.kind, scope.module or scope.name, scope.cls

    @cached_property
    def _begins(self) -> Mapping[FunctionId, float]:
        """The position of the first op or scope in each function call."""
        recording, found = self.recording, dict[FunctionId, float]()
        for call in reversed(list(recording.function_calls.values())):
            items = [*(recording.ops[op].index for op in call.ops if op in recording.ops),
                     *(self.scopes[scope].index for scope in call.scopes if scope in self.scopes)]
            first = min([*items, found.get(call.id, float("inf"))])
            found[call.id] = first
            if call.parent is not None:
                found[call.parent] = min(first, found.get(call.parent, first))
        return found
