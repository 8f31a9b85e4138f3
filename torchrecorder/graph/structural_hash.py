"""Structural hash: a digest of each scope, equal for scopes that did the same, in linear time.

Two scopes have equal structure if they are calls of the same class, with the same ops in the same
order on tensors of the same shapes, connected in the same way. Names of parameters and the origin
of inputs do not matter. Nor do numbers in the names of modules in a region: they are indices in the
module around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Protocol

from torchrecorder.events import (
    MODES, NO_STORAGE, OpId, OpKind, Role, ScopeId, ScopeKind, ValueId, names_gradient,
)  # fmt: skip
from torchrecorder.graph.data_loaders import DataLoaders
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.graph.relations import Relations, ops_inside, own_outputs

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)|\d+")


def is_alias(op: Op) -> bool:
    """Whether *op* is the first use of other memory of a tensor, such as that of a shard."""
    alone = len(op.inputs) == len(op.outputs) == 1
    return op.kind is OpKind.PASS and op.name == ALIAS and alone


def lasting_outputs(values: Mapping[ValueId, Value], op: Op) -> Sequence[ValueId]:
    """The outputs without the gradients that a backward pass leaves in its leaves.

    These are outputs only if something reads them: nothing does after the last iteration of a loop.
    """
    found = own_outputs(values, op)
    if op.name != BACKWARD:
        return found
    return [value for value in found if not names_gradient(values[value].names)]


def written(op: Op, outputs: Sequence[ValueId]) -> int:
    """The number of *outputs* that *op* wrote in place."""
    return len(frozenset(op.writes).intersection(outputs)) if op.writes else 0


@lru_cache(maxsize=4096)
def without_numbers(text: str) -> str:
    """*text* with every number replaced by 0, and without the number of an outermost module.

    The first of several models of one name is ``net``, and the second ``net_1``.
    """
    return re.sub(r"\d+", "0", re.sub(r"_\d+(?=\.|$)", "", text))


@lru_cache(maxsize=4096)
def without_values(text: str) -> str:
    """The *text* of an argument with every number replaced by 0, whole or not.

    The sign of a whole one counts: ``x[1:]`` and ``x[-1:]`` are different parts.
    """
    return _NUMBER.sub("0", text)


def _without_values(arguments: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple([(name, without_values(text)) for name, text in arguments])


UNRANKED = 0, -1
"""The series and number of a value that is from outside everywhere."""

BACKWARD = "backward"
"""The name of an op that is a backward pass."""

ALIAS = "alias"
"""The name of an op that takes another tensor to be the memory of a known one."""

SCALE = "GradScaler.scale"
"""The region in which the loss is multiplied by the scale."""


def scaler_state(recording: Relations) -> frozenset[OpId]:
    """The ops that create the scale and the growth tracker of a gradient scaler from numbers.

    ``torch.amp.GradScaler`` runs them in its first call of ``scale``. Empty if no other call
    follows: then the first iteration differs from no other.
    """
    calls = {
        scope.id for scope in recording.scopes.values()
        if scope.kind is ScopeKind.SCALER and scope.name == SCALE
    }
    if len(calls) < 2:
        return frozenset()
    return frozenset(
        op.id for op in recording.ops.values()
        if op.scope in calls and not op.inputs and any(map(recording.consumers.get, op.outputs))
    )


class HashedRun(Relations, Protocol):
    """The part of a recording that the structure depends on."""

    @property
    def data_loaders(self) -> DataLoaders: ...
    @property
    def varying_sizes(self) -> frozenset[str]: ...
    @property
    def differences(self) -> Mapping[str, tuple[str, ...]]: ...


def structures(recording: HashedRun, *, exact: bool = True) -> dict[ScopeId, str]:
    """A digest for each scope: equal digests, equal structure.

    Args:
        recording: The run.
        exact: Whether all settings count. Otherwise these differences do not count: the settings
            of inactive modules, such as the rate of a dropout in evaluation mode; in optimizer
            steps and averages, everything but weights and gradients, because the first step creates
            the state that later steps read; in data loaders, everything but the parts of a batch
            that are read, because the first call shuffles; the state that the first call of a
            gradient scaler creates; whether two arguments of a scope are one value or two, because
            the first iteration of a loop may receive one tensor as all state; numbers among the
            arguments of ops in functions, and which results of functions are read; such numbers in
            two calls of the same module; numbers in the names of modules in a module, because each
            call may use another item of a list; varying sizes.
    """
    forms = _Forms(recording, exact)
    return {scope: form.digest for scope, form in forms.found.items()}


def is_off(module: Module) -> bool:
    """Whether it is a dropout of any kind in evaluation mode."""
    return "Drop" in module.cls and not module.training


def _with_unnamed(recording: HashedRun) -> Mapping[ValueId, Role]:
    """The stored values, and the weights of modules that have not run yet: these have no names."""
    values = recording.values.values()
    unnamed = dict.fromkeys(
        [value.id for value in values if value.kind == "Parameter"], Role.PARAMETER
    )
    return {**unnamed, **recording.stored}


class _Form:
    """The steps of one scope, relative to its own inputs.

    Values computed inside are numbered in the order of creation. Others are numbered in the order
    of their first use, or of each use if one value may stand for several. So are batches: many
    programs load one ahead.

    Attributes:
        start: The number of values that were made before, in each series of `_Forms`.
        outside: The values from outside by their numbers.
        settings: The arguments in it, which may depend on the iteration of a loop. Those in a
            region or function count for the scope around it, not for the region; those in a
            module are taken from one of its calls.
    """

    def __init__(self, start: tuple[int, ...]) -> None:
        self.start = start
        self.outside: list[ValueId] = []
        self.settings: list[tuple[str, str]] = []
        self.digest = ""
        self._numbers: dict[ValueId, int] = {}

    def number(self, value: ValueId, *, again: bool) -> int:
        """The number of a value from outside; a new one *again* for each use."""
        known = None if again else self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.outside)
            self.outside.append(value)
        return known


class _Forms:
    """Computes the forms of all scopes, innermost first."""

    def __init__(self, recording: HashedRun, exact: bool) -> None:
        self.recording = recording
        self.exact = exact
        self.differs = recording.differences
        self.stored = recording.stored
        self.roles = self.stored if exact else _with_unnamed(recording)
        self.loaders = None if exact else recording.data_loaders
        batches = self.loaders.batches.values() if self.loaders is not None else ()
        self.batched = frozenset(value for batch in batches for value in batch)
        self.varying = frozenset[str]() if exact else recording.varying_sizes
        self.outside_rounds = frozenset[OpId]() if exact else scaler_state(recording)
        self.rank: dict[ValueId, tuple[int, int]] = {}
        self.found: dict[ScopeId, _Form] = {}
        self.digests: dict[tuple[Any, ...], str] = {}  # most scopes equal one before
        self.settings: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # of one call of each module
        self._run_through()
        for scope in reversed(list(recording.scopes.values())):
            self._complete(scope)

    def _run_through(self) -> None:
        """Number the values in the order of creation, and record where each scope starts."""
        steps: list[Scope | Op] = [*self.recording.scopes.values(), *self.recording.ops.values()]
        counts, values = [0, 0, 0], self.recording.values
        for step in sorted(steps, key=lambda step: step.index):
            if isinstance(step, Scope):
                self.found[step.id] = _Form((*counts,))
                continue
            if step.id in self.outside_rounds:
                continue
            if self._is_alias(step):
                place = self.rank.get(step.inputs[0].value)
                if place is not None:
                    self.rank[step.outputs[0]] = place
                continue
            own = [value for value in own_outputs(values, step) if self._is_new(step, value)]
            for value in own:
                series = self._series(step, value)
                self.rank[value] = series, counts[series]
                counts[series] += 1
            if len(own) < len(step.outputs):  # views of what it wrote have the number of that
                ranks = {values[value].storage: self.rank[value] for value in reversed(own)}
                for value in filter(partial(self._is_new, step), step.outputs):
                    self.rank[value] = ranks.get(values[value].storage, UNRANKED)

    def _is_alias(self, op: Op) -> bool:
        """Whether *op* is an alias, which only the first of several equal calls has, and which does
        not count."""
        return not self.exact and is_alias(op)

    def _is_new(self, op: Op, value: ValueId) -> bool:
        if value in self.batched or value in self.rank:
            return False
        return self.recording.values[value].producer == op.id

    def _series(self, op: Op, value: ValueId) -> int:
        """What a *value* of *op* is counted with: 0 for what every round of a loop makes.

        The state that an optimizer or average makes, what a data loader does for a batch (1), and
        the gradients that a backward pass leaves (2) count only where they are read.
        """
        if not self.exact and op.name == BACKWARD:
            if names_gradient(self.recording.values[value].names):
                return 2
        if self.loaders is None or op.scope is None:
            return 0
        if op.scope in self.recording.weight_updates:
            return int(value not in self.stored)
        return int(self.loaders.is_within(op, value))

    def _complete(self, scope: Scope) -> None:
        """Join the steps of a scope; its children are complete, because they come later."""
        form = self.found[scope.id]
        parts = tuple(self._parts(scope, form))
        if not self.exact and scope.module is not None:
            parts = parts, self.settings.setdefault((scope.module, parts), tuple(form.settings))
            form.settings = []
        if parts not in self.digests:
            text = repr(parts).encode("utf-8", "backslashreplace")
            self.digests[parts] = blake2b(text, digest_size=16).hexdigest()
        form.digest = self.digests[parts]

    def _parts(self, scope: Scope, form: _Form) -> Iterator[Any]:
        module = self.recording.module_of(scope)
        yield scope.kind.value, scope.cls, scope.recompute, scope.failed, self.differs.get(scope.id)
        off = module is not None and not self.exact and is_off(module)
        if module is not None:
            yield module.qualname, "" if off else module.detail, module.training
        if not self.exact:
            in_update = scope.id in self.recording.weight_updates
            off = off or in_update or scope.kind is ScopeKind.OPTIMIZER
        if self.loaders is not None and scope.id in self.loaders.batches:
            batch = self.loaders.batches[scope.id]
            yield tuple([self._look(self.recording.values[value]) for value in batch])
            return
        children = self.recording.children[scope.id]
        if not self.exact and self.recording.weight_updates.get(scope.id) == scope.id:
            yield tuple(self._updated(scope, form))
            return
        apart = not self.exact and (module or scope.kind in (*MODES, ScopeKind.FUNCTION))
        for step in children:
            if not self._counts(step, module is not None):
                continue
            if isinstance(step, Op):
                yield from self._op(step, form)
                arguments = () if off else step.arguments
                if step.id in self.varying:
                    arguments = _without_values(arguments)
            else:
                inner = self.found[step.id]
                named = self.exact and module is not None
                yield step.name if named else without_numbers(step.name), inner.digest
                yield tuple([self._place(value, form) for value in inner.outside])
                arguments = tuple(inner.settings)
            if apart:
                form.settings += arguments
                arguments = _without_values(arguments)
            yield arguments
        if self.exact or scope.kind is not ScopeKind.FUNCTION:  # else: what ran later read them
            yield tuple([(slot.name, self._place(slot.value, form)) for slot in scope.outputs])
        values, varies = self.recording.values, scope.id in self.varying
        yield tuple([
            (self._look(values[value], varies and value not in self.stored), self._stored(value))
            for value in form.outside
        ])

    def _updated(self, scope: Scope, form: _Form) -> Iterator[Any]:
        """The weights and gradients that the ops of an optimizer's step or an averaging are given.

        By their names: the first step may read them in another order, for the state that it makes.
        A single weight may have any size, as where each has an optimizer of its own. The averages
        themselves do not count: they are weights only if a model with them runs later.
        """
        values = self.recording.values
        inside = map(self.recording.ops.__getitem__, ops_inside(self.recording, [scope.id]))
        ops = sorted(inside, key=attrgetter("index"))
        averages = set[int]()
        if scope.kind is ScopeKind.AVERAGING:
            averages = {values[value].storage for op in ops for value in op.writes} - {NO_STORAGE}
        read = {slot.value: values[slot.value].names for op in ops for slot in op.inputs}
        given: list[ValueId] = []
        for value in sorted(read, key=lambda value: read[value]):
            given_to_all = names_gradient(read[value]) or value in self.stored
            if values[value].storage in averages:
                continue
            if given_to_all and not self._is_made_in(value, form):
                given.append(value)
        single = sum(value in self.stored for value in given) == 1
        for value in given:
            yield self._place(value, form), self._look(values[value])[single:]

    def _counts(self, step: Scope | Op, in_module: bool = False) -> bool:
        """Whether a step counts: it is no state of a scaler, and something ran in it.

        Outside of modules, calls such as ``to`` that return what they are given do not count; nor
        do calls of a data loader whose batch nothing reads, as the one after the last.
        """
        if isinstance(step, Op):
            nothing = step.kind is OpKind.PASS and not (step.outputs or in_module or self.exact)
            return not (nothing or step.id in self.outside_rounds or self._is_alias(step))
        if self.loaders is None:
            return True
        if step.kind in MODES:
            return any(map(self._counts, self.recording.children[step.id]))
        return bool(self.loaders.batches.get(step.id, True))

    def _op(self, op: Op, form: _Form) -> Iterator[Any]:
        place, values = self._place, self.recording.values
        outputs = (own_outputs if self.exact else lasting_outputs)(values, op)
        yield op.kind.value, op.qualname, op.failed, written(op, outputs), self.differs.get(op.id)
        yield tuple([(name, place(value, form)) for name, value in op.inputs])
        yield tuple([self._look(values[value], op.id in self.varying) for value in outputs])

    def _is_made_in(self, value: ValueId, form: _Form) -> bool:
        series, rank = self.rank.get(value, UNRANKED)
        return rank >= form.start[series]

    def _place(self, value: ValueId, form: _Form) -> int | tuple[int, int]:
        """The number of a value: 0 or more for values made inside, negative for others."""
        series, rank = self.rank.get(value, UNRANKED)
        if rank >= form.start[series]:
            place = rank - form.start[series]
            return (series, place) if series else place
        return -1 - form.number(value, again=not self.exact and value not in self.roles)

    def _look(self, value: Value, varies: bool = False) -> tuple[Any, ...]:
        """What is seen of a value, whose sizes count unless it *varies*."""
        return len(value.shape) if varies else value.shape, value.dtype, value.kind

    def _stored(self, value: ValueId) -> str:
        """The role of a parameter or buffer, which distinguishes it from other inputs."""
        return self.roles[value].value if value in self.roles else ""
