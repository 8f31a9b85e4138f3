"""Structural hash: a digest of each scope, equal for scopes of equal structure, in linear time.

Two scopes have equal structure if they are calls of the same class, with the same ops in the same
order on tensors of the same shapes, connected in the same way. Names of parameters and the origin
of inputs do not count. Nor do:

- settings of inactive modules, such as the rate of a dropout in evaluation mode;
- in optimizer steps and averages, everything but weights and gradients, because the first step
  creates the state that later steps read;
- in data loaders, everything but the parts of a batch that are read, because the first call
  shuffles;
- the state that the first call of a gradient scaler creates;
- how FSDP gathers weights, because the first step creates the memory;
- whether two arguments of a scope are one value, because the first iteration of a loop may receive
  one tensor for all of its state;
- in functions, numbers in arguments of ops, and which results are read;
- numbers in arguments of ops in two calls of the same module;
- numbers in the names of modules in a scope, because each call may use another item of a list;
- varying sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from torchrecorder.events import (
    MODES, NO_STORAGE, ModuleId, OpId, OpKind, Role, ScopeId, ScopeKind, ValueId, names_gradient,
)
from torchrecorder.graph.gathered_weights import gathered_weights, sharding_scopes
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.graph.relations import Relations, is_alias, ops_inside, own_outputs

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)|\d+")


def lasting_outputs(values: Mapping[ValueId, Value], op: Op) -> Sequence[ValueId]:
    """The outputs of *op* without the gradients that a backward pass accumulates into leaves.

    Those are outputs only if an op reads them: none does after the last iteration of a loop.
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
    """*text* with numbers replaced by 0, without that of an outermost module (``net_1``)."""
    return re.sub(r"\d+", "0", re.sub(r"_\d+(?=\.|$)", "", text))


@lru_cache(maxsize=4096)
def without_values(text: str) -> str:
    """The *text* of an argument with every number replaced by 0.

    The sign of an integer is kept, because ``x[1:]`` and ``x[-1:]`` are different slices.
    """
    return _NUMBER.sub("0", text)


def arguments_without_values(arguments: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The *arguments* of an op, with every number replaced by 0; see `without_values`."""
    return tuple([(name, without_values(text)) for name, text in arguments])


UNRANKED = 0, -1
"""The series and number of a value from outside the run."""

BACKWARD = "backward"
"""The name of an op that is a backward pass."""

SCALE = "GradScaler.scale"
"""The region in which a gradient scaler multiplies the loss by the scale."""


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


def structures(recording: Relations) -> dict[ScopeId, str]:
    """A digest for each scope: equal digests, equal structure."""
    return {scope: form.digest for scope, form in _StructureHasher(recording).found.items()}


def is_inactive(module: Module, steps: Iterable[Scope | Op]) -> bool:
    """Whether a call of *module* is one of a dropout, of any kind, in evaluation mode: as its op
    was told, because the mode of the module may change between calls."""
    if "Drop" not in module.cls:
        return False
    told = [dict(step.arguments).get("training") for step in steps if isinstance(step, Op)]
    return "True" not in told if "False" in told or "True" in told else not module.training


def _with_unnamed(recording: Relations) -> Mapping[ValueId, Role]:
    """The stored values, and the weights of modules that have not run yet: these have no names."""
    values = recording.values.values()
    unnamed = dict.fromkeys(
        [value.id for value in values if value.kind == "Parameter"], Role.PARAMETER
    )
    return {**unnamed, **recording.stored}


class _ScopeStructure:
    """The contents of one scope, with values numbered relative to the scope.

    Values computed inside are numbered in the order of creation. Others, and batches, which many
    programs load one ahead, are numbered in the order of their first use; if one value may stand
    for several, at each use.

    Attributes:
        start: The number of values computed before, in each series of `_StructureHasher`.
        outside: The values from outside by their numbers.
        settings: The arguments of ops, which may depend on the iteration of a loop. Those in a
            region or function count for the scope around it; those in a module are taken from one
            of its calls.
    """

    def __init__(self, start: tuple[int, ...]) -> None:
        self.start = start
        self.outside: list[ValueId] = []
        self.settings: list[tuple[str, str]] = []
        self.digest = ""
        self._numbers: dict[ValueId, int] = {}

    def number(self, value: ValueId, *, again: bool) -> int:
        """The number of a value from outside; *again*: a new one for each use."""
        known = None if again else self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.outside)
            self.outside.append(value)
        return known


class _StructureHasher:
    """Computes the digests of all scopes, innermost first."""

    def __init__(self, recording: Relations) -> None:
        self.recording = recording
        self.differs = recording.differences
        self.stored = recording.stored
        self.roles = {value: role.value for value, role in _with_unnamed(recording).items()}
        self.loaders = recording.data_loaders
        batches = self.loaders.batches.values()
        self.batched = frozenset(value for batch in batches for value in batch)
        self.varying = recording.varying_sizes
        self.gathered = gathered_weights(recording)
        self.sharding = sharding_scopes(recording)
        ops = recording.ops.values()
        gathering = {op.id for op in ops if op.scope in self.sharding}
        self.outside_rounds = scaler_state(recording) | gathering
        self.rank: dict[ValueId, tuple[int, int]] = {}
        self.found: dict[ScopeId, _ScopeStructure] = {}
        self.numbers: dict[tuple[Any, ...], int] = {}  # most scopes are equal to an earlier one
        self.settings: dict[tuple[ModuleId, int], tuple[Any, ...]] = {}  # of one of its calls
        self.digests: dict[tuple[int, tuple[Any, ...] | None], str] = {}
        self._run_through()
        for scope in reversed(list(recording.scopes.values())):
            self._complete(scope)

    def _run_through(self) -> None:
        """Number the values in the order of creation, and store where each scope starts."""
        steps: list[Scope | Op] = [*self.recording.scopes.values(), *self.recording.ops.values()]
        counts, values = [0, 0, 0], self.recording.values
        for step in sorted(steps, key=lambda step: step.index):
            if isinstance(step, Scope):
                self.found[step.id] = _ScopeStructure((*counts,))
                continue
            if step.id in self.outside_rounds:
                continue
            if is_alias(step):  # only the first of equal calls has it
                place = self.rank.get(step.inputs[0].value)
                if place is not None:
                    self.rank[step.outputs[0]] = place
                continue
            own = [value for value in own_outputs(values, step) if self._is_new(step, value)]
            for value in own:
                series = self._series(step, value)
                self.rank[value] = series, counts[series]
                counts[series] += 1
            if len(own) < len(step.outputs):  # views of written memory have its number
                ranks = {values[value].storage: self.rank[value] for value in reversed(own)}
                for value in filter(partial(self._is_new, step), step.outputs):
                    self.rank[value] = ranks.get(values[value].storage, UNRANKED)

    def _is_new(self, op: Op, value: ValueId) -> bool:
        if value in self.batched or value in self.rank:
            return False
        return self.recording.values[value].producer == op.id

    def _series(self, op: Op, value: ValueId) -> int:
        """The series in which *value*, a result of *op*, is numbered.

        0 for values that every iteration of a loop computes. The state of an optimizer or average,
        values in a data loader (1), and gradients of a backward pass (2) count only if they are
        read.
        """
        if op.name == BACKWARD and names_gradient(self.recording.values[value].names):
            return 2
        if op.scope is None:
            return 0
        if op.scope in self.recording.weight_updates:
            return int(value not in self.stored)
        return int(bool(self.loaders.calls) and self.loaders.is_within(op, value))

    def _complete(self, scope: Scope) -> None:
        """Compute the digest of *scope*, after those of its children, which come later."""
        form = self.found[scope.id]
        parts, settings = tuple(self._parts(scope, form)), None
        number = self.numbers.setdefault(parts, len(self.numbers))
        if scope.module is not None:
            settings = self.settings.setdefault((scope.module, number), tuple(form.settings))
            form.settings = []
        key = number, settings
        if key not in self.digests:
            text = repr(parts if settings is None else (parts, settings))
            content = text.encode("utf-8", "backslashreplace")
            self.digests[key] = blake2b(content, digest_size=16).hexdigest()
        form.digest = self.digests[key]

    def _parts(self, scope: Scope, form: _ScopeStructure) -> Iterator[Any]:
        module = self.recording.module_of(scope)
        yield scope.kind.value, scope.cls, scope.recompute, scope.failed, self.differs.get(scope.id)
        children = self.recording.children[scope.id]
        updates = self.recording.weight_updates
        off = scope.id in updates or scope.kind is ScopeKind.OPTIMIZER
        if module is not None:
            inactive = is_inactive(module, children)
            yield module.qualname, "" if inactive else module.detail, module.training
            off = off or inactive
        if scope.id in self.loaders.batches:
            batch = self.loaders.batches[scope.id]
            yield tuple([self._type(self.recording.values[value]) for value in batch])
            return
        if updates.get(scope.id) == scope.id:
            yield tuple(self._updated(scope, form))
            return
        apart = module is not None or scope.kind in (*MODES, ScopeKind.FUNCTION)
        for step in children:
            if not self._counts(step, module is not None):
                continue
            if isinstance(step, Op):
                yield from self._op(step, form)
                arguments = () if off else step.arguments
                if step.id in self.varying:
                    arguments = arguments_without_values(arguments)
            else:
                inner = self.found[step.id]
                yield without_numbers(step.name), inner.digest
                yield tuple([self._place(value, form) for value in inner.outside])
                arguments = tuple(inner.settings)
            if apart:
                form.settings += arguments
                arguments = arguments_without_values(arguments)
            yield arguments
        if scope.kind is not ScopeKind.FUNCTION:  # else ops after it read them
            yield tuple([(slot.name, self._place(slot.value, form)) for slot in scope.outputs])
        values, varies, role = self.recording.values, scope.id in self.varying, self.roles.get
        yield tuple([
            (self._type(values[value], varies and value not in self.stored), role(value, ""))
            for value in form.outside
        ])

    def _updated(self, scope: Scope, form: _ScopeStructure) -> Iterator[Any]:
        """The weights and gradients that the ops of an optimizer step or averaging read, by name.

        By name, because the first step may read them in another order when it creates state. A
        single weight may have any size, because each may have an optimizer of its own. The averages
        themselves are not listed: they are weights only if a model with them runs later.
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
            yield self._place(value, form), self._type(values[value])[single:]

    def _counts(self, step: Scope | Op, in_module: bool = False) -> bool:
        """Whether *step* counts: it creates no state of a gradient scaler, and an op ran in it.

        Outside of modules, calls such as ``to`` that return their argument do not count, nor calls
        of a data loader whose batch no op reads, such as the call after the last batch.
        """
        if isinstance(step, Op):
            passes = step.kind is OpKind.PASS and not (step.outputs or in_module)
            return not (passes or is_alias(step) or step.id in self.outside_rounds)
        if step.id in self.sharding:
            return False
        if step.kind in MODES:
            return any(map(self._counts, self.recording.children[step.id]))
        return bool(self.loaders.batches.get(step.id, True))

    def _op(self, op: Op, form: _ScopeStructure) -> tuple[Any, ...]:
        place, values = self._place, self.recording.values
        outputs = lasting_outputs(values, op)
        return (
            (op.kind.value, op.qualname, op.failed, written(op, outputs), self.differs.get(op.id)),
            tuple([(name, place(value, form)) for name, value in op.inputs]),
            tuple([self._type(values[value], op.id in self.varying) for value in outputs]),
        )

    def _is_made_in(self, value: ValueId, form: _ScopeStructure) -> bool:
        series, rank = self.rank.get(value, UNRANKED)
        return rank >= form.start[series]

    def _place(self, value: ValueId, form: _ScopeStructure) -> int | tuple[int, int]:
        """The number of a value: 0 or more for values computed inside, negative for others."""
        value = self.gathered.get(value, value)
        series, rank = self.rank.get(value, UNRANKED)
        if rank >= form.start[series]:
            place = rank - form.start[series]
            return (series, place) if series else place
        return -1 - form.number(value, again=value not in self.roles)

    def _type(self, value: Value, varies: bool = False) -> tuple[Any, ...]:
        """The facts about *value* that count; its sizes do, unless it *varies*."""
        return len(value.shape) if varies else value.shape, value.dtype, value.kind
