"""Step keys: one of two compared recordings, keys that are equal for steps that match, and the
alignment of steps by these keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

from torchrecorder.comparison.functions import function
from torchrecorder.comparison.wrapped import InnerModules
from torchrecorder.events import CONVERTED, STORED, ModuleId, ScopeId, ScopeKind, Slot, ValueId
from torchrecorder.graph.align import IndexPair, align, between
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import own_outputs

StepKey = Callable[["Side", "Scope | Op"], Hashable]
"""A key of a step of one of the recordings."""


class Side:
    """One of the two recordings, and the digests of its scopes."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording
        self.skeletons = skeletons(recording)
        weights = {scope: found for scope, found in self.skeletons.items() if found.weights}
        self.inside = InnerModules(recording, weights)

    @cached_property
    def calls(self) -> Mapping[ScopeId, tuple[bool, int]]:
        """Whether each scope ran again in backward, and its number among such calls of its module.
        """
        calls, found = Counter[tuple[ModuleId | None, bool]](), {}
        for scope in self.recording.scopes.values():
            key = scope.module, scope.recompute
            found[scope.id], calls[key] = (scope.recompute, calls[key]), calls[key] + 1
        return found

    @cached_property
    def weights_of(self) -> Mapping[ValueId, tuple[ValueId, str]]:
        """For each gradient, state and update of a weight, the weight and its name (``"grad"``)."""
        values = self.recording.values.values()
        named = {name: value.id for value in values if value.role in STORED for name in value.names}
        found = dict[ValueId, tuple[ValueId, str]]()
        for value in values:
            for name in value.names[:1]:
                weight, _, part = (name, "", "") if name in named else name.rpartition(".")
                if weight in named:
                    found[value.id] = named[weight], part
        return found


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The structure of one scope without the shapes of tensors, to find it in another run."""

    digest: str  # equal for equal classes, hyperparameters and functions in the same order
    weights: int  # the number of parameters of the modules in it
    scopes: int  # the number of scopes in it, with itself
    # equal if arguments, shapes and connections are equal too
    exact: str = field(compare=False)


def skeletons(recording: RecordedRun) -> Mapping[ScopeId, Skeleton]:
    """The skeleton of every scope, computed backwards, because children come later in a run."""
    found: dict[ScopeId, Skeleton] = {}
    for scope in reversed(list(recording.scopes.values())):
        module = recording.module_of(scope)
        weights = len(module.parameters) if module is not None else 0
        plain: list[Any] = [module.detail if module is not None else "", scope.recompute]
        exact: list[Any] = [*_connections(recording, scope.id)]
        scopes = 1
        for step in recording.children[scope.id]:
            if isinstance(step, Op):
                plain.append((step.kind, function(step)))
                exact.append(step.arguments)
            else:
                inner = found[step.id]
                plain.append((step.name, inner.digest))
                exact.append(inner.exact)
                weights, scopes = weights + inner.weights, scopes + inner.scopes
        digest = _digest(plain_kind(scope), scope.cls, plain)
        found[scope.id] = Skeleton(digest, weights, scopes, _digest(digest, exact))
    return found


def _digest(*parts: Any) -> str:
    content = repr(parts).encode("utf-8", "backslashreplace")
    return blake2b(content, digest_size=16).hexdigest()


def _connections(recording: RecordedRun, scope: ScopeId) -> Iterator[tuple[Any, ...]]:
    """The values that each step in *scope* reads and makes, numbered in their order, and their
    forms."""
    values, numbers = recording.values, dict[ValueId, int]()
    for step in recording.children[scope]:
        made = own_outputs(values, step) if isinstance(step, Op) else _values(step.outputs)
        read = _values(step.inputs)
        yield len(read), *(numbers.setdefault(value, len(numbers)) for value in (*read, *made))
    for value in numbers:
        yield values[value].shape, values[value].dtype, recording.stored.get(value)


def _values(slots: Iterable[Slot]) -> list[ValueId]:
    return [slot.value for slot in slots]


def plain_kind(scope: Scope) -> ScopeKind:
    """The kind of a scope; a compiled or scripted module is a module."""
    return ScopeKind.MODULE if scope.kind in CONVERTED else scope.kind


def _exact(side: Side, step: Scope | Op, *, indices: bool = True) -> Hashable:
    """All facts about a step but the origin of inputs; its number only with *indices*."""
    if isinstance(step, Op):
        shapes = tuple(side.recording.values[output].shape for output in step.outputs)
        return function(step), step.arguments, len(step.inputs), shapes
    name = step.name if indices else _unnumbered(step)
    return plain_kind(step), name, side.skeletons[step.id].exact


def _made_of(side: Side, step: Scope | Op, *, indices: bool = True) -> Hashable:
    """The structure of a scope without its shapes."""
    if isinstance(step, Op):
        return function(step), step.arguments
    name = step.name if indices else _unnumbered(step)
    return plain_kind(step), name, side.skeletons[step.id].digest


def named(side: Side, step: Scope | Op) -> Hashable:
    """The name of a step, and the class of a scope."""
    return function(step) if isinstance(step, Op) else (plain_kind(step), step.name, step.cls)


def _roughly(side: Side, step: Scope | Op) -> Hashable:
    """The name of an op in whatever namespace; the class of a scope with whatever index."""
    return step.name if isinstance(step, Op) else (plain_kind(step), step.cls, _unnumbered(step))


def called(side: Side, scope: Scope) -> Hashable:
    """The name of an attribute, whatever its class; of all else, equal to nothing."""
    numbered = _unnumbered(scope) != scope.name
    return (id(side), scope.id) if numbered else (plain_kind(scope), scope.name)


def weighted(side: Side, scope: Scope) -> Hashable:
    """The structure of a scope with weights, whatever its name; of all else, equal to nothing."""
    found = side.skeletons[scope.id]
    return found.digest if found.weights else (id(side), scope.id)


def _placed(side: Side, step: Scope | Op) -> Hashable:
    """Of an op: equal to nothing in the other recording."""
    return (id(side), step.id) if isinstance(step, Op) else (plain_kind(step), step.name)


def _by_class(side: Side, step: Scope | Op) -> Hashable:
    """The name and class of a scope; of an op: equal to nothing in the other recording."""
    return (id(side), step.id) if isinstance(step, Op) else named(side, step)


made_alike: StepKey = partial(_made_of, indices=False)
"""The key of steps with one structure, whatever their index in a container."""

TIERS: tuple[tuple[StepKey, ...], ...] = (
    (_exact, partial(_exact, indices=False)),
    (_made_of, made_alike),
    (named,),
    (_roughly,),
    (_placed,),
)
"""Keys that must be equal for two steps to match, from strict to loose. In each tier, the key
counts that matches the most steps: insertions shift the indices in a container."""


def keys_of(
    key: Callable[[Side, Any], Hashable], side: Side, steps: Iterable[Scope | Op]
) -> Iterator[Hashable]:
    """The keys of *steps*; none that ran again in backward has the key of one that did not."""
    return ((step.recompute, key(side, step)) for step in steps)


def outermost(recording: RecordedRun) -> list[ScopeId]:
    """The outermost scopes, without those that ran again in backward."""
    return [root for root in recording.roots if not recording.scopes[root].recompute]


def _step_name(step: Scope | Op) -> Hashable:
    """The function of an op; the kind and the name of a scope, whatever is in it."""
    return function(step) if isinstance(step, Op) else (plain_kind(step), step.name)


def _uneven_names(a: Iterable[Scope | Op], b: Iterable[Scope | Op]) -> Set[Hashable]:
    """The names of steps that both sides have, in different numbers."""
    left, right = Counter(map(_step_name, a)), Counter(map(_step_name, b))
    return {name for name in left.keys() & right.keys() if left[name] != right[name]}


def _unnumbered(scope: Scope) -> str:
    """The name without the indices in containers: `layers.` of `layers.3`."""
    return ".".join("" if part.isdigit() else part for part in scope.name.split("."))


StepList = Sequence[Scope | Op]


class StepAligner:
    """Aligns the steps of scopes of two recordings."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b

    def aligned(self, a: StepList, b: StepList) -> list[IndexPair]:
        """Pairs of indices in their common order.

        Steps that run more often on one side, such as a ReLU called once more, are matched last if
        more steps match in this way. Modules are matched by their names first if then more steps
        match, or more of one structure, and not fewer of either: an operation may by chance have
        the shape that another one had in the other run.
        """
        pairs = self._between([], a, b)
        uneven = _uneven_names(a, b)
        if uneven and (others := self._between([], a, b, without=uneven)):
            pairs = max(pairs, self._between(others, a, b), key=len)
        by_name = self._equal(_by_class, a, b)
        if not set(pairs).issuperset(by_name):
            others = self._between(by_name, a, b)
            more = len(others) - len(pairs)
            alike = self._alike(others, a, b) - self._alike(pairs, a, b)
            if min(more, alike) >= 0 and more + alike > 0:
                return others
        return pairs

    def _alike(self, pairs: Sequence[IndexPair], a: StepList, b: StepList) -> int:
        """The number of *pairs* with one structure."""
        return sum(made_alike(self.a, a[i]) == made_alike(self.b, b[j]) for i, j in pairs)

    def _between(
        self, pairs: Sequence[IndexPair], a: StepList, b: StepList,
        without: Set[Hashable] = frozenset(),
    ) -> list[IndexPair]:
        """*pairs*, and those between them, tier by tier; *without* steps of these names."""
        found = list(pairs)
        for keys in TIERS:
            for gaps in list(between(found, len(a), len(b))):
                here, there = ([place for place in gap if _step_name(steps[place]) not in without]
                               for gap, steps in zip(gaps, (a, b)))
                if here and there:
                    parts = [a[i] for i in here], [b[j] for j in there]
                    equal = max((self._equal(key, *parts) for key in keys), key=len)
                    found.extend((here[i], there[j]) for i, j in equal)
            found.sort()
        return found

    def _equal(self, key: StepKey, a: StepList, b: StepList) -> list[IndexPair]:
        return align(list(keys_of(key, self.a, a)), list(keys_of(key, self.b, b)))
