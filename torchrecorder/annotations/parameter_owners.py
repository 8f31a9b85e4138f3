"""Parameter owners: the parameters and buffers of scopes and modules; tied ones count once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from torchrecorder.events import (
    BYTES_OF_GRADIENT, CALLED, GRAD_SUFFIX, MODES, NO_STORAGE, STORED, Gradient, ModuleId, Role,
    ScopeId, ScopeKind, ValueId, names_gradient,
)
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.memory_access import replaced
from torchrecorder.graph.nodes import Module, Op, Value
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun

FUNCTIONS = (ScopeKind.FUNCTION, ScopeKind.CHECKPOINT, *MODES)
"""Scopes that have no weights of their own."""

_SETTING = frozenset(("set_grad", "copy_", "_foreach_copy_", "fill_", "set_", "setitem"))
"""Ops that give a gradient new numbers, whatever it was before."""


class FunctionRead(NamedTuple):
    """The parameters and buffers that an op directly in the function or mode *scope* reads, or
    those of no module, directly in any call.

    *around*: the nearest scope around it that has these parameters; None if no module has them.
    """

    values: tuple[ValueId, ...]
    scope: ScopeId
    around: ScopeId | None


class Whole(dict[str, None]):
    """Some members, and the parameters and buffers that count with them."""


@dataclass(frozen=True)
class ParameterOwners:
    """The parameters and buffers of the modules of a recording."""

    recording: RecordedRun

    @cached_property
    def _listed(self) -> list[tuple[str, ModuleId]]:
        """The modules sorted by dotted path; submodules directly follow their module."""
        modules = self.recording.modules.values()
        return sorted(
            (_key(name, module.apart), module.id) for module in modules for name in module.names
        )

    @cached_property
    def _places(self) -> dict[ModuleId, int]:
        return {module: place for place, module in enumerate(self.recording.modules)}

    def modules(self, module: ModuleId) -> Iterable[ModuleId]:
        """*module* and its submodules, called or not, in the order of the model."""
        row = self.recording.modules[module]
        if not row.names:
            return (module,)
        key = _key(row.names[0], row.apart)
        first = bisect_left(self._listed, (key, ModuleId("")))
        last = bisect_left(self._listed, (key + _AFTER, ModuleId("")), first)
        if last - first == 1:
            return (module,)
        below = dict.fromkeys(item for _, item in self._listed[first:last])
        return sorted(below, key=self._places.__getitem__)

    def by_module(self, module: ModuleId) -> dict[ValueId, None]:
        """The parameters and buffers of *module* and its submodules."""
        rows = map(self.recording.modules.__getitem__, self.modules(module))
        return dict.fromkeys(value for row in rows for value in own(row))

    @cached_property
    def read_in(self) -> Mapping[ModuleId | None, Sequence[Module]]:
        """The modules by the innermost called one around each, itself included: this reads their
        weights, if anything does."""
        modules = self.recording.modules.values()
        calls = [one for one in self.recording.scopes.values() if not one.recompute]
        ran = {one.module for one in calls if one.module is not None}
        places = {(name, one.apart): one.id for one in modules for name in one.names}

        def reader(one: Module) -> ModuleId | None:
            around = (places.get((path, one.apart)) for path in one.around())
            return next((place for place in around if place in ran), None)

        return grouped((reader(one), one) for one in modules)

    def within(self, members: Iterable[str]) -> Whole:
        """*members* and the parameters and buffers of their modules, and of ops in functions;
        without nodes that only the first of two compared runs has, unless all are such."""
        if isinstance(members, Whole):
            return members
        recording, found = self.recording, Whole(dict.fromkeys(members))
        if recording.former and not recording.former.issuperset(found):
            found = Whole((item, None) for item in found if item not in recording.former)
        called, own, reads = self._module_of, self._own, self.function_reads
        covered: set[ModuleId] = set()
        for module in [*map(called.__getitem__, filter(called.__contains__, found))]:
            if module not in covered:
                below = self.modules(module)
                covered.update(below)
                for item in below:
                    found.update(own[item])
        for op in filter(reads.__contains__, list(found)) if reads else ():
            for read in reads[op]:
                if read.scope in found and read.around not in found:
                    found.update(dict.fromkeys(read.values))
        return found

    @cached_property
    def _module_of(self) -> Mapping[str, ModuleId]:
        """The module of each of its calls, and itself."""
        scopes, modules = self.recording.scopes.values(), self.recording.modules
        found: dict[str, ModuleId] = dict(zip(modules, modules))
        found.update((scope.id, scope.module) for scope in scopes if scope.module is not None)
        return found

    @cached_property
    def _own(self) -> Mapping[ModuleId, dict[str, None]]:
        """The parameters and buffers of each module itself."""
        stored = ((module.id, module.stored) for module in self.recording.modules.values())
        return {module: dict.fromkeys([slot.value for slot in slots]) for module, slots in stored}

    @cached_property
    def loose(self) -> frozenset[ValueId]:
        """The parameters that no module has, such as one in a list; none that a comparison has from
        the first recording only."""
        values = self.recording.values.values()
        stored = frozenset([value.id for value in values if value.role in STORED])
        return stored.difference(self.recording.former, *self._own.values())

    @cached_property
    def function_reads(self) -> Mapping[str, Sequence[FunctionRead]]:
        """For each op directly in a function or mode, the parameters and buffers whose contents it
        reads; for each op in a call, those that no module has."""
        recording, found = self.recording, dict[str, list[FunctionRead]]()
        kinds = {scope.id: scope.kind for scope in recording.scopes.values()}
        functions = {scope for scope, kind in kinds.items() if kind in FUNCTIONS}
        reading = {scope for scope, kind in kinds.items() if kind in CALLED} | functions
        loose = self.loose
        for op in recording.ops.values() if functions or loose else ():
            scope = op.scope
            if scope is None or scope not in reading:
                continue
            overwritten, values = {*replaced(op)}, recording.values
            read = (slot.value for slot in op.inputs if slot not in overwritten)
            stored = [value for value in read if values[value].role in STORED]
            if not stored:
                continue
            outer = next((one for one in recording.within(scope) if one not in functions), None)
            of_none = tuple(value for value in stored if value in loose)
            of_some = tuple(value for value in stored if value not in loose and scope in functions)
            reads = FunctionRead(of_none, scope, None), FunctionRead(of_some, scope, outer)
            found[op.id] = [read for read in reads if read.values]
        return found

    @cached_property
    def tied(self) -> frozenset[ValueId]:
        """The parameters that several modules have."""
        seen: set[ValueId] = set()
        twice: set[ValueId] = set()
        for module in self.recording.modules.values():
            for value in {slot.value: None for slot in module.parameters}:
                (twice if value in seen else seen).add(value)
        return frozenset(twice)

    @cached_property
    def unreached(self) -> frozenset[ValueId]:
        """The trainable parameters with elements but without a gradient, if others have one."""
        reached = with_gradient(self.recording)
        values = self.recording.values.values() if reached else ()
        found = (value for value in values if value.trainable and 0 not in value.shape)
        unreached = frozenset(value.id for value in found if value.id not in reached)
        return unreached - run_again(self.recording) - assigned_gradients(self.recording)

    @cached_property
    def left_out(self) -> frozenset[ValueId]:
        """The parameters with a gradient to which nothing was written, if optimizer steps updated
        others."""
        recording = self.recording
        if not updated_parameters(recording):
            return frozenset()
        stored = {one.id for one in recording.values.values() if one.role is Role.PARAMETER}
        return frozenset((with_gradient(recording) & stored) - writers(recording).keys())


@once
def with_gradient(recording: RecordedRun) -> set[ValueId]:
    """The first values of the leaves that received a gradient; not what was left of an earlier pass
    at the part of a parameter."""
    known, around = leaf_gradients(recording), flat_parameters(recording)
    counted = {None, *known}
    return {*known, *(one for one in set_gradients(recording) if around.get(one) in counted)}


@once
def assigned_gradients(recording: RecordedRun) -> frozenset[ValueId]:
    """The first values of the tensors to whose ``grad`` the program itself assigns or copies; not
    parts of flat parameters, to which FSDP assigns those of earlier passes too."""
    values, setting = recording.values, (op for op in recording.ops.values() if op.name in _SETTING)
    written = {values[value].names for op in setting for value in op.outputs}
    names = {name for one in written if names_gradient(one) for name in one}
    apart = {**before_writes(recording), **flat_parameters(recording)} if names else {}
    return frozenset(
        value.id for value in values.values() if names and value.id not in apart
        and any(f"{name}{GRAD_SUFFIX}" in names for name in value.names)
    )


@once
def cleared_gradients(recording: RecordedRun) -> dict[str, str]:
    """The leaves whose gradient was cleared in the last pass that computed it, with the hooks that
    did so. By the first value of each."""
    cleared = [(run.run, slot) for run in recording.backward_runs for slot in run.cleared]
    if not cleared:
        return {}
    first, last = before_writes(recording), {leaf: run for leaf, run, _ in _received(recording)}
    found = [(run, first.get(slot.value, slot.value), slot.name) for run, slot in cleared]
    return {value: hooks for run, value, hooks in found if last.get(value) == run}


def set_gradients(recording: RecordedRun) -> dict[ValueId, float]:
    """The bytes of the gradients that other code than autograd sets: of sharded parameters, and of
    parts of parameters. By the first value of each."""
    measured = recording.measured.get(BYTES_OF_GRADIENT, {})
    first = before_writes(recording) if measured else {}
    return {first.get(ValueId(key), ValueId(key)): size for key, size in measured.items()}


def flat_parameters(recording: RecordedRun) -> dict[ValueId, ValueId]:
    """For each parameter in the memory of one that no module has, that one; by first values.

    Autograd computes the gradient of the flat parameter, of which FSDP gives each its part.
    """
    if not recording.parameter_parts:
        return {}
    first = before_writes(recording)
    modules = recording.modules.values()
    held = {slot.value for module in modules for slot in module.parameters}
    pairs = [[first.get(value, value) for value in pair] for pair in recording.parameter_parts]
    return {part: whole for part, whole in pairs if whole not in held}


def leaf_gradients(recording: RecordedRun) -> dict[ValueId, Gradient]:
    """The last gradient that each leaf received, by its value; by the first value of a weight."""
    return {leaf: gradient for leaf, _, gradient in _received(recording)}


def _received(recording: RecordedRun) -> Iterator[tuple[ValueId, int, Gradient]]:
    """The gradients that leaves received: the first value of each, the backward pass, and the
    gradient."""
    first = before_writes(recording) if recording.grad_runs else {}
    for ran in recording.grad_runs:
        leaf = recording.grad_nodes[ran.grad].variable
        for gradient in ran.given:
            if leaf is not None and gradient is not None:
                yield first.get(leaf, leaf), ran.run, gradient


@once
def optimizer_steps(recording: RecordedRun) -> dict[ScopeId, ScopeId]:
    """The outermost optimizer step around each scope in one, itself included."""
    found: dict[ScopeId | None, ScopeId] = {}
    for scope in recording.scopes.values():
        if scope.parent in found:
            found[scope.id] = found[scope.parent]
        elif scope.kind is ScopeKind.OPTIMIZER:
            found[scope.id] = scope.id
    return {scope: step for scope, step in found.items() if scope is not None}


@once
def updated_parameters(recording: RecordedRun) -> frozenset[ValueId]:
    """The parameters to which optimizer steps wrote, by first values."""
    steps, values = optimizer_steps(recording), recording.values
    if not steps:
        return frozenset()
    written = writers(recording).items()
    return frozenset(
        value for value, ops in written
        if values[value].role is Role.PARAMETER and any(op.scope in steps for op in ops)
    )


@once
def writers(recording: RecordedRun) -> dict[ValueId, list[Op]]:
    """The ops that wrote to each tensor, in run order, by the first value of a parameter; also to
    a view of it, as Adam does with complex weights."""
    first = written_parameters(recording)
    return grouped(
        (value, op) for op in recording.ops.values()
        for value in dict.fromkeys(first.get(one, one) for one in op.writes)
    )


@once
def written_parameters(recording: RecordedRun) -> dict[ValueId, ValueId]:
    """The first value of each parameter and buffer, by its values after writes; also by what was
    written to its memory, unless others share it."""
    first, values, held = before_writes(recording), recording.values, dict[int, set[ValueId]]()
    for value in recording.stored:
        held.setdefault(values[value].storage, set()).add(first.get(value, value))
    alone = {storage: value for storage, (value, *more) in held.items() if not more}
    alone.pop(NO_STORAGE, None)
    written = (values[one] for op in recording.ops.values() for one in op.writes)
    return {one.id: alone[one.storage] for one in written if one.storage in alone} | first


@once
def before_writes(recording: RecordedRun) -> dict[ValueId, ValueId]:
    """The first value of each parameter and buffer, by its values after writes, by name.

    By storage, if several models have the name: ``weight.data = x`` replaces the storage.
    """
    firsts: dict[str, list[Value]] = {}
    found: dict[ValueId, ValueId] = {}
    for value in recording.values.values():
        name = value.names[0] if value.names else ""
        if value.role in STORED:
            firsts.setdefault(name, []).append(value)
        elif value.id in recording.stored:
            named = firsts.get(name, [])
            same = [first for first in named if first.storage == value.storage] or named
            if len(same) == 1:
                found[value.id] = same[0].id
    return found


@once
def run_again(recording: RecordedRun) -> frozenset[ValueId]:
    """Trainable tensors that recomputed ops of a checkpoint read: these get gradients, too."""
    values = recording.values
    again = {scope.id for scope in recording.scopes.values() if scope.recompute}
    return frozenset(
        slot.value
        for op in (recording.ops.values() if again else ())
        if op.scope in again
        for slot in op.inputs
        if values[slot.value].trainable and any(values[out].requires_grad for out in op.outputs)
    )


def own(module: Module) -> dict[ValueId, None]:
    """The parameters and buffers of *module* itself, without submodules."""
    return {slot.value: None for slot in module.stored}


_DOT, _AFTER, _APART = "\0", "\1", "\2"
"""In sort keys: the separator of path components, a character that sorts right after it, and the
start of modules that are not in the recorded model."""


def _key(path: str, apart: bool) -> str:
    """The sort key of a path: submodules come before other paths with the same prefix."""
    key = f"{_DOT}{path}".replace(".", _DOT) if path else ""
    return f"{_APART}{key}" if apart else key
