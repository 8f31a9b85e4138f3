"""Match: finds corresponding scopes, ops, values and modules of two recordings.

Matching goes from the outside in. Within a matched pair of scopes, direct members are aligned,
first by all of their facts, then by fewer and fewer. Unmatched scopes are then searched everywhere,
by name, then by structure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torchrecorder.annotations.parameter_owners import ParameterOwners
from torchrecorder.comparison.functions import call, is_replaced
from torchrecorder.comparison.list_places import place_of, uneven_lists
from torchrecorder.comparison.moved_scopes import (
    ScopePair, called_elsewhere, equal_elsewhere, moved_path, renamed_lists,
)
from torchrecorder.comparison.step_keys import (
    Side, StepAligner, called, keys_of, made_alike, named, outermost, plain_kind, weighted,
)
from torchrecorder.comparison.wrapped import are_alike, unwrapped
from torchrecorder.events import ModuleId, OpId, ScopeId, Slot, ValueId
from torchrecorder.graph.align import IndexPair, between
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun

StepPair = tuple[Scope | Op, Scope | Op]


@dataclass(frozen=True)
class Matching:
    """Corresponding parts of two recordings, one to one, from the id in the first to the id in the
    second.

    *wrapped* are pairs of scopes in the same place, of which one is only around the counterpart of
    the other, such as `DistributedDataParallel`.
    """

    before: RecordedRun
    after: RecordedRun
    scopes: Mapping[ScopeId, ScopeId]
    ops: Mapping[OpId, OpId]
    values: Mapping[ValueId, ValueId]
    modules: Mapping[ModuleId, ModuleId]
    wrapped: Mapping[ScopeId, ScopeId]

    @cached_property
    def there(self) -> Mapping[Any, Any]:
        """The ids in the second recording of all parts of the first."""
        return {**self.scopes, **self.ops, **self.values, **self.modules}

    @cached_property
    def back(self) -> Mapping[Any, Any]:
        """The ids in the first recording of all parts of the second."""
        return {new: old for old, new in self.there.items()}

    @cached_property
    def replaced(self) -> Mapping[ScopeId, ScopeId]:
        """The innermost scopes with another class: both are drawn as one box."""
        before, after = self.before, self.after
        return {
            old: new for old, new in self.scopes.items()
            if is_replaced(before, after, before.scopes[old], after.scopes[new])
        }

    def held(self, *, added: bool) -> Mapping[ScopeId, ScopeId]:
        """The scope inside each wrapper: wrappers of the second run, or of the first."""
        pairs, back = self.wrapped.items(), self.back
        if added:
            return {new: self.scopes[old] for old, new in pairs if self.scopes.get(old, new) != new}
        return {old: back[new] for old, new in pairs if back.get(new, old) != old}


def match(before: RecordedRun, after: RecordedRun) -> Matching:
    """Match the parts of both recordings."""
    matcher = _Matcher(Side(before), Side(after))
    matcher.steps()
    matcher.stored()
    matcher.flows()
    return Matching(
        before, after, matcher.scopes.there, matcher.ops.there, matcher.values.there,
        matcher.modules.there, matcher.wrapped,
    )


class _OneToOne:
    """One-to-one pairs."""

    def __init__(self) -> None:
        self.there: dict[Any, Any] = {}
        self.back: dict[Any, Any] = {}

    def add(self, a: Any, b: Any) -> bool:
        """Add a pair unless one of the two has a partner; return whether it was added."""
        if a in self.there or b in self.back:
            return False
        self.there[a], self.back[b] = b, a
        return True


class _Matcher:
    """Collects pairs. Scopes are visited with a stack, so that depth is unlimited."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b, self.aligner = a, b, StepAligner(a, b)
        self.scopes, self.ops, self.values, self.modules = (_OneToOne() for _ in range(4))
        self.wrapped: dict[ScopeId, ScopeId] = {}

    # Scopes and ops ---------------------------------------------------------------------

    def steps(self) -> None:
        """Match scopes and ops."""
        self._walk([(None, None)])
        self._models(sure=True)
        for a, b in self._moved():
            self.scopes.add(a, b)
            self._walk([(a, b)])
        self._models()

    def _models(self, *, sure: bool = False) -> None:
        """Match the outermost scopes if each run has only one; if *sure*, they must be alike."""
        a, b = self.a.recording, self.b.recording
        roots, others = outermost(a), outermost(b)
        if len(roots) != 1 or len(others) != 1:
            return
        left, right = a.scopes[roots[0]], b.scopes[others[0]]
        if self._is_known(left, right):
            return
        if sure and not are_alike(left, right, self.a.inside, self.b.inside):
            if unwrapped(left, right, self.a.inside, self.b.inside) == (left, right):
                return
        self._walk(list(self._pair(left, right)))

    def _walk(self, waiting: list[tuple[ScopeId | None, ScopeId | None]]) -> None:
        while waiting:
            a, b = waiting.pop()
            for left, right in self._inside(a, b):
                if isinstance(left, Op):
                    self.ops.add(left.id, right.id)
                elif isinstance(right, Scope):
                    waiting.extend(self._pair(left, right))

    def _pair(self, a: Scope, b: Scope) -> Iterator[tuple[ScopeId, ScopeId]]:
        """Match two scopes, or one with the contents of a wrapper, and return comparable pairs."""
        left, right = unwrapped(a, b, self.a.inside, self.b.inside)
        if (left, right) != (a, b):
            self.wrapped[a.id] = b.id
        if self.scopes.add(left.id, right.id) and self._comparable(left, right):
            yield left.id, right.id

    def _comparable(self, a: Scope, b: Scope) -> bool:
        """Whether two steps can match; innermost modules of different classes cannot."""
        return not is_replaced(self.a.recording, self.b.recording, a, b)

    def _is_known(self, a: Scope, b: Scope) -> bool:
        """Whether one of two scopes has a counterpart."""
        return a.id in self.scopes.there or b.id in self.scopes.back

    def _inside(self, a: ScopeId | None, b: ScopeId | None) -> Iterator[StepPair]:
        left = _free(self.a.recording.children[a], self.scopes.there)
        right = _free(self.b.recording.children[b], self.scopes.back)
        pairs = self._aligned(left, right)
        taken = {i for i, _ in pairs}, {j for _, j in pairs}
        rest = (
            [item for i, item in enumerate(left) if i not in taken[0]],
            [item for j, item in enumerate(right) if j not in taken[1]],
        )
        yield from ((left[i], right[j]) for i, j in pairs)
        yield from self._anywhere(*rest)
        lists = renamed_lists(self.a, self.b, left, right, pairs)
        yield from (pair for pair in lists if not self._is_known(*pair))

    def _aligned(self, a: Sequence[Scope | Op], b: Sequence[Scope | Op]) -> list[IndexPair]:
        """Pairs of indices in their common order."""
        pairs = self.aligner.aligned(a, b)
        for left, right in list(between(pairs, len(a), len(b))):
            if len(left) == len(right) == 1 and self._is_replaced(a[left[0]], b[right[0]]):
                pairs.append((left[0], right[0]))
        return sorted(pairs)

    def _is_replaced(self, a: Scope | Op, b: Scope | Op) -> bool:
        """Whether two steps between matched ones correspond; modules must have much in common."""
        if a.recompute is not b.recompute:
            return False
        if isinstance(a, Scope) and isinstance(b, Scope):
            if a.kind is b.kind and a.module is None:
                return True
            return self.a.inside.is_renamed(a, b, self.b.inside)
        return isinstance(a, Op) and isinstance(b, Op)

    def _anywhere(self, a: Iterable[Scope | Op], b: Iterable[Scope | Op]) -> Iterator[StepPair]:
        """Scopes in another order, matched by name and class, contents, attribute, then weights."""
        left = [item for item in a if isinstance(item, Scope)]
        right = [item for item in b if isinstance(item, Scope)]
        for key in (named, made_alike, called, weighted):
            places = grouped(zip(keys_of(key, self.b, right[::-1]), reversed(right)))
            keys = zip(keys_of(key, self.a, left), left)
            found = [(item, places[known].pop()) for known, item in keys if places.get(known)]
            yield from found
            taken = {item.id for item, _ in found}, {entry.id for _, entry in found}
            left = [item for item in left if item.id not in taken[0]]
            right = [entry for entry in right if entry.id not in taken[1]]

    def _moved(self) -> Iterator[ScopePair]:
        """Match scopes in other places: first those of one module, then those of one structure."""
        known = self.scopes.there, self.scopes.back
        yield from called_elsewhere(self.a, self.b, *known)
        yield from equal_elsewhere(self.a, self.b, *known)

    # Modules and tensors ----------------------------------------------------------------

    def stored(self) -> None:
        """Match modules, and their parameters and buffers."""
        a, b = self.a.recording, self.b.recording
        for left, right in self.scopes.there.items():
            modules = a.scopes[left].module, b.scopes[right].module
            if None not in modules:
                self.modules.add(*modules)
        named = {module.names[0]: module.id for module in b.modules.values() if module.names}
        paths = {a.modules[left].names[0]: b.modules[right].names[0]
                 for left, right in self.modules.there.items()
                 if a.modules[left].names and b.modules[right].names}
        for module in a.modules.values():
            twin = named.get(moved_path(module.names[0], paths)) if module.names else None
            if twin is not None and not (module.calls and b.modules[twin].calls):
                self.modules.add(module.id, twin)
        for left, right in self.modules.there.items():
            own, other = a.modules[left], b.modules[right]
            self._slots(own.parameters, other.parameters)
            self._slots(own.buffers, other.buffers)
        free = [_loose(recording) for recording in (a, b)]
        self._alike(free[0], free[1], _seen)
        self._alike(free[0], free[1], _form)  # those of variables that were renamed

    def flows(self) -> None:
        """Match tensors: inputs, results of ops and scopes, and constants read by ops."""
        a, b = self.a.recording, self.b.recording
        self._slots(*map(_sole, (a.inputs, b.inputs)))
        for left in (op for op in a.ops if op in self.ops.there):  # in the order of the run
            self._results(a.ops[left], b.ops[self.ops.there[left]])
        self._given()
        self._moved_ops()
        self._around_moved()
        for scope, other_scope in self.scopes.there.items():
            self._slots(a.scopes[scope].outputs, b.scopes[other_scope].outputs)
            if a.scopes[scope].cls != b.scopes[other_scope].cls:
                self._slots(_written(a, scope), _written(b, other_scope))

    def _results(self, old: Op, new: Op) -> None:
        for value, other in self._outputs(old, new):
            self.values.add(value, other)

    def _moved_ops(self) -> None:
        """Match ops that do the same with the same tensors, in another order or another scope."""
        a, b = self.a.recording, self.b.recording
        replaced = set[Any](), set[Any]()
        for scope, other_scope in self.scopes.there.items():
            if not self._comparable(a.scopes[scope], b.scopes[other_scope]):  # is not listed
                replaced[0].add(scope)
                replaced[1].add(other_scope)
        for anywhere in (False, True):
            there: dict[Hashable, list[Op]] = {}
            for new in reversed(list(b.ops.values())):
                if new.id not in self.ops.back and new.scope not in replaced[1]:
                    read = tuple(slot.value for slot in new.inputs)
                    around = self._place(new, anywhere, added=True)
                    there.setdefault((around, new.recompute, call(new), read), []).append(new)
            for old in a.ops.values() if there else ():
                if old.id not in self.ops.there and old.scope not in replaced[0]:
                    read = tuple(self.values.there.get(slot.value, "") for slot in old.inputs)
                    around = self._place(old, anywhere, added=False)
                    if twins := there.get((around, old.recompute, call(old), read)):
                        new = twins.pop()
                        self.ops.add(old.id, new.id)
                        self._results(old, new)

    def _place(self, op: Op, anywhere: bool, *, added: bool) -> ScopeId | bool | None:
        """The scope of the second run in which the counterpart of an op is, or whether anything
        will do; for an op that reads nothing, the innermost that both runs have."""
        if op.inputs and anywhere:
            return True
        run, known = (self.b, self.scopes.back) if added else (self.a, self.scopes.there)
        scopes = run.recording.within(op.scope) if anywhere else (op.scope,)
        found = next((scope for scope in scopes if scope in known), None)
        return found if added else self.scopes.there.get(found)

    def _around_moved(self) -> None:
        """Match scopes of one class in which all steps correspond, from the inside out."""
        a, b = self.a.recording, self.b.recording
        for scope in reversed(list(a.scopes.values())):
            steps = a.children[scope.id] if scope.id not in self.scopes.there else ()
            twins = {self._scope_of_twin(step) for step in steps}
            around = twins.pop() if len(twins) == 1 else None
            twin = b.scopes[around] if around is not None else None
            if twin is not None and (plain_kind(twin), twin.cls) == (plain_kind(scope), scope.cls):
                if len(b.children[twin.id]) == len(steps) and self.scopes.add(scope.id, twin.id):
                    if scope.module is not None:
                        self.modules.add(scope.module, twin.module)

    def _scope_of_twin(self, step: Scope | Op) -> ScopeId | None:
        """The scope in which the counterpart of a step is; None without a counterpart."""
        b = self.b.recording
        if isinstance(step, Op):
            return b.ops[self.ops.there[step.id]].scope if step.id in self.ops.there else None
        return b.scopes[self.scopes.there[step.id]].parent if step.id in self.scopes.there else None

    def _outputs(self, old: Op, new: Op) -> Iterator[tuple[ValueId, ValueId]]:
        """Pairs of outputs: weights and states by weight, others by lists of inputs, in order."""
        mine, others = self.a.weights_of, self.b.weights_of
        twins: dict[tuple[ValueId | None, str], list[ValueId]] = grouped(
            (others[value], value) for value in reversed(new.outputs) if value in others
        )
        for value in old.outputs:
            if value in mine:
                weight, part = mine[value]
                if waiting := twins.get((self.values.there.get(weight), part)):
                    yield value, waiting.pop()
        places: list[IndexPair] = []
        if len(old.outputs) != len(new.outputs):
            pairs = uneven_lists(old, new, self.a.recording.values, self.values.there)
            places = [(place_of(slot), place_of(other)) for slot, other in pairs if slot and other]
        yield from (
            (old.outputs[place], new.outputs[other]) for place, other in places
            if place < len(old.outputs) and other < len(new.outputs)
        )
        if not places:
            yield from zip(
                (value for value in old.outputs if value not in mine),
                (value for value in new.outputs if value not in others),
            )

    def _given(self) -> None:
        """Match values that no op computed: those of matched ops, inputs of the run in order, then
        by name, role and form."""
        a, b = self.a.recording, self.b.recording
        for left, right in self.ops.there.items():
            for slot, other in zip(a.ops[left].inputs, b.ops[right].inputs):
                if self._are_alike(slot, other):
                    self.values.add(slot.value, other.value)
        for slot, other in zip(a.inputs, b.inputs):
            self.values.add(slot.value, other.value)
        given = [[one for one in run.values.values() if one.producer is None] for run in (a, b)]
        self._alike(given[0], given[1], _seen)

    def _alike(
        self, a: Iterable[Value], b: Sequence[Value], key: Callable[[Value], Hashable]
    ) -> None:
        """Match values with the same *key* that have no counterpart, in order."""
        free = (value for value in reversed(b) if value.id not in self.values.back)
        places = grouped((key(value), value.id) for value in free)
        for value in a:
            waiting = places.get(key(value))
            if waiting and value.id not in self.values.there:
                self.values.add(value.id, waiting.pop())

    def _slots(self, a: Iterable[Slot], b: Iterable[Slot]) -> None:
        there = dict(b)
        for name, value in dict(a).items():
            if name in there:
                self.values.add(value, there[name])

    def _are_alike(self, a: Slot, b: Slot) -> bool:
        """Whether two inputs have the same role, and no op computed them."""
        left, right = self.a.recording.values[a.value], self.b.recording.values[b.value]
        return left.producer is right.producer is None and left.role is right.role


def _sole(slots: Iterable[Slot]) -> list[Slot]:
    """Those of a name of their own: several calls in one run may each have an argument *x*."""
    named = grouped((slot.name, slot) for slot in slots).values()
    return [of_name[0] for of_name in named if len(of_name) == 1]


def _written(recording: RecordedRun, scope: ScopeId) -> Iterator[Slot]:
    """The parameters and buffers that the ops directly in a scope wrote last, by their names."""
    for step in recording.children[scope]:
        for value in step.writes if isinstance(step, Op) else ():
            yield from (Slot(name, value) for name in recording.values[value].names)


def _free(steps: Iterable[Scope | Op], taken: Mapping[ScopeId, ScopeId]) -> list[Scope | Op]:
    return [step for step in steps if isinstance(step, Op) or step.id not in taken]


def _loose(recording: RecordedRun) -> list[Value]:
    """The parameters that no module has, in the order of the run."""
    loose = ParameterOwners(recording).loose
    return [value for value in recording.values.values() if value.id in loose]


def _seen(value: Value) -> Hashable:
    return value.names, _form(value)


def _form(value: Value) -> Hashable:
    return value.role, value.shape, value.dtype, value.kind
