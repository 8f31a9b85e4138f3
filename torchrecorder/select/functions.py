"""Functions: groups operations by the Python functions that ran them, and sums.

The scopes are added to the recording before a view is built from it, as for user-defined groups.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count, groupby
from typing import NamedTuple

from torchrecorder.events import (
    FUNCTION, SUM, FunctionId, OpKind, ScopeId, ScopeKind, Slot, SourceLine, ValueId,
    names_gradient,
)
from torchrecorder.graph.calls_around import LOCAL, CallsAround, Chain, common
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import Boundaries
from torchrecorder.graph.running_sums import sums_at_once
from torchrecorder.select.first_calls import in_order_of, with_first_calls

MAX_DIRECT_OPS = 25
"""Scopes with more direct operations than this are grouped by function."""


class NewScope(NamedTuple):
    """A new scope without its contents; *path* if that does not follow from its name."""

    kind: ScopeKind
    cls: str
    name: str
    source: SourceLine | None
    path: str | None = None

    def around(
        self, inside: Sequence[Scope | Op], first: Scope | Op, name: ScopeId,
        parent: ScopeId | None, path: str,
    ) -> Scope:
        """The scope around *inside*, at the place of *first*; *path* is that of its parent."""
        own = f"{path}.{self.name}" if path else self.name
        known = [item.seconds for item in inside if item.seconds is not None]
        seconds, failed = sum(known), any(item.failed for item in inside)
        return Scope(
            name, parent, first.index, self.kind, self.name,
            own if self.path is None else self.path, self.cls, None, 0, self.source,
            first.recompute, (), (), seconds if len(known) == len(inside) else None, failed,
        )


@dataclass(frozen=True)
class WithFunctions:
    """Group the operations of large scopes by the calls of Python functions that ran them.

    The additions of a sum such as ``sum(losses)`` are grouped in scopes of any size.
    """

    # True groups in all scopes, False in none; None in scopes with more than `MAX_DIRECT_OPS`
    # direct operations
    wanted: bool | None = None

    def __call__(self, recording: RecordedRun) -> RecordedRun:
        """*recording* with a scope for each call that is shown; unchanged if there is none.

        If an optimizer step runs the model, as in LBFGS, the operations of the optimizer between
        the calls of the model become scopes, too.
        """
        if self.wanted is False:
            return recording
        found = _Grouping(recording, -1 if self.wanted else MAX_DIRECT_OPS)
        return found.recording() if found.parent else found.old


class _Grouping:
    """Finds the calls that become scopes, and their contents, where more than *most* ops are."""

    def __init__(self, old: RecordedRun, most: int) -> None:
        old, self.made_before = with_first_calls(old)
        self.calls_around = CallsAround(old)
        sums = [*sums_at_once(old, self.calls_around.chain)]
        late: dict[str, float] = {op.id: ops[-1].index for ops in sums for op in ops}
        self.old = old = in_order_of(old, late) if late else old
        self.most = most
        self.added: dict[ScopeId, NewScope] = {}  # for calls, parts of optimizer steps, and sums
        self.first: dict[str, list[ScopeId]] = {}
        self.parent: dict[str, ScopeId | None] = {}  # of new scopes, and of what is in them
        for scope, inside in old.children.items():
            if len(inside) > most and self._drawn_ops(inside) > most:
                self._group(scope, inside, self._depth(scope))
            if scope is not None and old.scopes[scope].kind is ScopeKind.OPTIMIZER:
                self._group_updates(old.scopes[scope], inside)
        for ops in sums:
            first = ops[0]
            if first.scope is not None and old.scopes[first.scope].cls == SUM:
                continue  # grouped before
            new = NewScope(ScopeKind.FUNCTION, SUM, SUM, first.source)
            self._put(ops, ScopeId(f"s:{first.id}"), self.parent.get(first.id, first.scope), new)

    def _depth(self, scope: ScopeId | None) -> int:
        """The number of calls between a scope and the innermost module call around it."""
        if scope is None or self.old.scopes[scope].kind is ScopeKind.MODULE:
            return 0
        return len(self.calls_around.chain(scope))

    def _chain(self, item: Scope | Op) -> Chain:
        """The function calls around an item; for one that loads a batch, those of its readers.

        Many programs load a batch ahead, in the function that returns the previous one.
        """
        if item.id in self.made_before:
            return self.made_before[item.id]
        chain, batches = self.calls_around.chain(item.id), self.old.data_loaders.batches
        if not isinstance(item, Scope) or item.id not in batches:
            return chain
        batch = batches[item.id]
        return common([chain, *self._readers(item, batch)]) if batch else ()

    def _readers(self, call: Scope, batch: Iterable[ValueId]) -> Iterator[Chain]:
        """The calls around the siblings of a data loader's *call* that read its *batch*."""
        waiting, seen = [*batch], {*batch}
        while waiting:
            for reader in self.old.consumers.get(waiting.pop(), ()):
                op = self.old.ops[reader]
                if op.kind is OpKind.PASS:
                    waiting += [value for value in op.outputs if value not in seen]
                    seen.update(op.outputs)
                    continue
                beside: Scope | Op | None = op
                while beside is not None and _around(beside) != call.parent:
                    outer = _around(beside)
                    beside = self.old.scopes[outer] if outer is not None else None
                if beside is not None:
                    yield self.calls_around.chain(beside.id)

    def _is_drawn(self, item: Scope | Op) -> bool:
        if isinstance(item, Scope):
            return not item.recompute
        quiet = item.recompute or item.kind is OpKind.PASS or item.id in self.old.bookkeeping
        return not quiet and bool(item.outputs or item.failed)

    def _drawn_ops(self, items: Sequence[Scope | Op]) -> int:
        return sum(isinstance(item, Op) and self._is_drawn(item) for item in items)

    def _group(self, around: ScopeId | None, items: Sequence[Scope | Op], depth: int) -> None:
        """Group *items*, which are in a scope and *depth* calls, by the next call."""
        drawn = sum(map(self._is_drawn, items))
        chains = ((self._chain(item), item) for item in items)
        members = grouped((calls[depth], item) for calls, item in chains if len(calls) > depth)
        new: dict[tuple[str, str, int], list[ScopeId]] = {}  # the new scopes of each function
        contents: dict[ScopeId, Sequence[Scope | Op]] = {}
        for call, inside in members.items():
            shown = sum(map(self._is_drawn, inside))
            if shown == drawn:  # equal to the scope around it
                self._group(around, inside, depth + 1)
            elif shown > 1:
                call = self._wrapped(call, inside)
                scope, called = self._add(call, around, inside), self.old.function_calls[call]
                new.setdefault((called.name, called.file, called.line), []).append(scope)
                contents[scope] = inside
        for scopes in new.values():  # all calls of a function are grouped alike
            if max(self._drawn_ops(contents[scope]) for scope in scopes) > self.most:
                for scope in scopes:
                    self._group(scope, contents[scope], depth + 1)

    def _group_updates(self, step: Scope, items: Sequence[Scope | Op]) -> None:
        """Group the optimizer's own operations between calls in its *step*, if there are any.

        Only these have the source line of the step: a closure may be in no function call either.
        """
        depth = self._depth(step.id)

        def is_own(item: Scope | Op) -> bool:
            if not isinstance(item, Op) or item.source != step.source:
                return False
            return len(self.calls_around.chain(item.id)) <= depth

        runs = [(own, list(run)) for own, run in groupby(items, is_own)]
        for number, (own, run) in enumerate(runs if len(runs) > 1 else (), start=1):
            if own and self._drawn_ops(run):
                new = NewScope(step.kind, step.cls, step.name, step.source, step.path)
                self._put(run, ScopeId(f"{step.id}:{number}"), step.id, new)

    def _put(
        self, inside: Sequence[Scope | Op], name: ScopeId, around: ScopeId | None, new: NewScope
    ) -> None:
        """Put items into a new scope."""
        self.added[name] = new
        self.parent[name] = around
        self.first.setdefault(inside[0].id, []).append(name)
        self.parent.update((item.id, name) for item in inside)

    def _wrapped(self, call: FunctionId, inside: Sequence[Scope | Op]) -> FunctionId:
        """*call*; for a wrapper, the call of the wrapped function."""
        chains = [self._chain(item) for item in inside if self._is_drawn(item)]
        for deeper in common(chains)[chains[0].index(call) :]:
            call = deeper
            if LOCAL not in self.old.function_calls[call].name:
                break
        return call

    def _add(
        self, call: FunctionId, around: ScopeId | None, inside: Sequence[Scope | Op]
    ) -> ScopeId:
        """Add a scope for *call*, numbered if the call already has one in another scope."""
        name, found = next(free(ScopeId(call), self.added)), self.old.function_calls[call]
        new = NewScope(ScopeKind.FUNCTION, FUNCTION, found.called, found.source)
        self._put(inside, name, around, new)
        return name

    # The recording with the new scopes --------------------------------------------------

    def recording(self) -> RecordedRun:
        """The recording with the new scopes."""
        nested, added = nested_in(self.old, self._scopes(), self.parent), self._members
        read, stored = self._read_after_calls(), self.old.stored
        left = tuple(slot for slot in nested.outputs if slot.value not in read)
        ends = Boundaries(replace(nested, outputs=left), added)
        scopes = {
            scope.id: scope.replace(
                inputs=_numbered(ends.inputs(scope.id)) if scope.cls == SUM
                else tuple(slot for slot in ends.inputs(scope.id) if slot.value not in stored),
                outputs=self._results_first(ends.outputs(scope.id)),
            )
            if scope.id in added
            else scope
            for scope in nested.scopes.values()
        }
        return replace(nested, scopes=scopes)

    def _results_first(self, outputs: Iterable[Slot]) -> tuple[Slot, ...]:
        """*outputs* of a function; weights, their gradients, buffers and optimizer state that it
        writes are last."""
        old = self.old

        def is_state(value: ValueId) -> bool:
            producer = old.values[value].producer
            around = old.within(old.ops[producer].scope) if producer is not None else ()
            kinds = (old.scopes[scope].kind for scope in around)
            written = value in old.stored or names_gradient(old.values[value].names)
            return written or ScopeKind.OPTIMIZER in kinds

        made = sorted((slot.value for slot in outputs), key=is_state)
        return tuple(Slot(str(place), value) for place, value in enumerate(made))

    def _read_after_calls(self) -> set[ValueId]:
        """The results of calls that an op after the call reads: these are outputs of a function
        only if that op is outside of it."""
        old, givers = self.old, dict[ValueId, ScopeId]()
        for scope in old.scopes.values():  # outermost first
            for slot in scope.outputs:
                givers.setdefault(slot.value, scope.id)
        return {
            value for value, giver in givers.items() for reader in old.consumers.get(value, ())
            if giver not in old.within(old.ops[reader].scope)
        }

    def _scopes(self) -> Iterator[Scope]:
        """All scopes in run order; a new scope comes before its first item."""
        old = self.old
        items: list[Scope | Op] = [*old.scopes.values(), *old.ops.values()]
        paths: dict[ScopeId | None, str] = {None: ""}
        for item in sorted(items, key=lambda item: item.index):
            for name in self.first.get(item.id, ()):
                parent, inside = self.parent[name], self._members[name]
                scope = self.added[name].around(inside, item, name, parent, paths[parent])
                paths[name] = scope.path
                yield scope
            if isinstance(item, Scope):
                paths[item.id] = item.path or paths[item.parent]
                yield item.replace(parent=self.parent.get(item.id, item.parent))

    @cached_property
    def _members(self) -> Mapping[ScopeId, list[Scope | Op]]:
        """The ops and scopes of the recording in each new scope."""
        found: dict[ScopeId, list[Scope | Op]] = {name: [] for name in self.added}
        items: list[Scope | Op] = [*self.old.scopes.values(), *self.old.ops.values()]
        for item in items:
            around = self.parent.get(item.id)
            while around in found:
                found[around].append(item)
                around = self.parent[around]
        return found


def _numbered(terms: Iterable[Slot]) -> tuple[Slot, ...]:
    """The terms of a sum, named as the argument of Python's ``sum``."""
    return tuple(Slot(f"iterable.{place}", term.value) for place, term in enumerate(terms))


def _around(item: Scope | Op) -> ScopeId | None:
    """The scope directly around an item."""
    return item.parent if isinstance(item, Scope) else item.scope


def nested_in(
    recording: RecordedRun, scopes: Iterable[Scope], parent: dict[str, ScopeId | None]
) -> RecordedRun:
    """*recording* with these *scopes*, and ops, with their grad nodes, in their new *parent*."""
    ops = {
        op.id: op.replace(scope=parent[op.id]) if op.id in parent else op
        for op in recording.ops.values()
    }
    grads = {
        grad.id: grad.replace(scope=parent[grad.owner]) if grad.owner in parent else grad
        for grad in recording.grad_nodes.values()
    }
    added = {scope.id: scope for scope in scopes}
    return replace(recording, scopes=added, ops=ops, grad_nodes=grads)


def free(name: ScopeId, taken: Container[ScopeId]) -> Iterator[ScopeId]:
    """*name*, and with numbers appended, without those that are *taken*."""
    numbered = (ScopeId(f"{name}:{number}") for number in count(2))
    return (found for found in chain([name], numbered) if found not in taken)
