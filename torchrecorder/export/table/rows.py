"""Rows: the lines of a table by scope, before any column is filled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from torchrecorder.annotations.parameter_owners import ParameterOwners, cleared_gradients
from torchrecorder.checks import plural
from torchrecorder.events import (
    MODES, OF_WEIGHTS, STORED, ModuleId, OpKind, Role, ScopeId, ScopeKind, ValueId,
)
from torchrecorder.graph.mappings import grouped, reached
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import scopes_inside
from torchrecorder.style import labels
from torchrecorder.style.region_captions import REGIONS, RegionCaptions, region_title
from torchrecorder.style.weights import Weights
from torchrecorder.views.training import is_sharding

DEFAULT_MAX_ROWS = 400
"""The maximum number of rows for the default depth."""

_ROOM = 30
"""How many characters the names of ops have that are listed in one row."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of a table."""

    depth: int  # the number of rows around it
    title: str  # the title, ``"conv1 (Conv2d)"``
    ids: tuple[str, ...]  # ids of its scope, ops, or module that was never called
    inputs: tuple[ValueId, ...] = ()  # input tensors; for an op without parameters and buffers
    outputs: tuple[ValueId, ...] = ()  # output tensors
    again: bool = False  # whether it is another call of modules that are listed before
    notes: tuple[str, ...] = ()  # notes on the row
    last: TableRow | None = None  # the last of the rows that it stands for, if they can differ


def every_row(recording: RecordedRun, *, ops: bool = False) -> list[TableRow]:
    """The rows of a table of *recording*, at every depth, in run order.

    Recomputation in checkpoints is left out. Modules that were never called follow the calls of
    their parent module. Without *ops*, only ops outside of scopes are listed, in one row.
    """
    return list(_TableRows(recording, ops).all())


def fitting(listed: Sequence[TableRow], depth: int | None) -> list[TableRow]:
    """The rows down to *depth*; None for the deepest one with at most 400 rows, 1 at least."""
    if depth is None:
        counts = Counter(row.depth for row in listed)
        levels = sorted(counts)
        totals = accumulate(counts[level] for level in levels)
        fitting = (level for level, total in zip(levels, totals) if total <= DEFAULT_MAX_ROWS)
        depth = max([1, *fitting])
    return [row for row in listed if row.depth <= depth]


def closed(
    recording: RecordedRun, listed: Sequence[TableRow], shown: Sequence[TableRow]
) -> list[TableRow]:
    """The rows *shown* of all that are *listed*; those of which the rows inside are left out have
    notes on the parameters in them."""
    owned = ParameterOwners(recording)
    unreached = owned.unreached & recording.consumers.keys()
    inside = {row.ids[0] for row, after in pairwise(listed) if after.depth > row.depth}
    deepest = max((row.depth for row in shown), default=0)
    return [
        replace(row, notes=tuple(dict.fromkeys((*row.notes, *_in_all(owned, unreached, row)))))
        if row.depth == deepest and row.ids[0] in inside and not row.again else row
        for row in shown
    ]


def _in_all(owned: ParameterOwners, unreached: Set[ValueId], row: TableRow) -> Iterator[str]:
    """Notes on all parameters of a row; *unreached* are those without a gradient that ran."""
    recording = owned.recording
    scopes = scopes_inside(recording, [ScopeId(item) for item in row.ids])
    members = owned.within(scopes)
    values = [recording.values[ValueId(item)] for item in members if item in recording.values]
    held = [value for value in values if value.role is Role.PARAMETER and _is_own(value)]
    for number, some, every in (
        (sum(not value.trainable for value in held), "{} frozen", "frozen"),
        (sum(value.id in unreached for value in held), "no gradient for {}", "no gradient"),
        (sum(value.id in owned.left_out for value in held), "{} not updated", "not updated"),
    ):
        if number:
            part = f"{number} of {plural(len(held), 'parameter')}"
            yield every if number == len(held) else some.format(part)


class _TableRows:
    """Walks the scopes of one recording without recursion."""

    def __init__(self, recording: RecordedRun, ops: bool) -> None:
        self.recording = recording
        self.ops = ops
        self.owned = ParameterOwners(recording)
        self.weights = Weights(recording)
        self.regions = RegionCaptions(recording)
        self.silent = _never_called(recording)
        self.above = {item.id: outer for outer, below in self.silent.items() for item in below}

    def all(self) -> Iterator[TableRow]:
        waiting = self._inside(None, 0)
        while waiting:
            depth, items = waiting.pop()
            first = items[0]
            if isinstance(first, Scope):
                yield self._scope(first, depth)
                if self.ops or first.kind not in OF_WEIGHTS:
                    waiting.extend(self._inside(first, depth + 1))
            elif isinstance(first, Module):
                yield self._silent(first, depth)
            else:
                loose = [item for item in items if isinstance(item, Op)]
                yield row_of_ops(self.recording, loose, depth)

    def _inside(
        self, scope: Scope | None, depth: int
    ) -> list[tuple[int, list[Scope | Op | Module]]]:
        """Scopes and ops directly in *scope*, the last first."""
        found: list[list[Scope | Op | Module]] = []
        for item in self.recording.children[scope.id if scope else None]:
            if item.recompute or (isinstance(item, Op) and scope and not self.ops):
                continue
            if isinstance(item, Scope) and not self.ops:
                if is_sharding(self.recording, item.id) or item.registers_hooks:
                    continue
            if isinstance(item, Scope) and item.kind in MODES:
                if not (item.failed or self.recording.children[item.id]):
                    continue
            if isinstance(item, Op) and not self.ops and found and isinstance(found[-1][0], Op):
                found[-1].append(item)
            else:
                found.append([item])
        if scope is None or (scope.module is not None and scope.call == 0):
            found.extend([item] for item in self.silent.get(scope.module if scope else None, ()))
        return [(depth, items) for items in reversed(found)]

    def _scope(self, scope: Scope, depth: int) -> TableRow:
        return TableRow(
            depth=depth,
            title=self._title(scope),
            ids=(scope.id,),
            inputs=tuple(slot.value for slot in scope.inputs),
            outputs=tuple(slot.value for slot in scope.outputs),
            again=self._ran_before(scope),
            notes=tuple(self._notes(scope)),
        )

    def _ran_before(self, scope: Scope) -> bool:
        """Whether the module, or all modules with weights that a function calls, has been called
        before."""
        if scope.module is not None:
            return scope.call > 0
        scopes, children = self.recording.scopes, self.recording.children
        inside = reached([scope.id], lambda outer: [] if scopes[outer].module is not None else [
            child.id for child in children[outer] if isinstance(child, Scope)
        ])
        again = [
            call.call > 0 for call in map(scopes.__getitem__, inside)
            if call.module is not None and self.owned.by_module(call.module)
        ]
        return bool(again) and all(again)

    def _title(self, scope: Scope) -> str:
        """The path below the module around it, and the class."""
        if scope.kind in REGIONS:
            return region_title(scope)
        if scope.kind is ScopeKind.FUNCTION:
            return f"{scope.name}()"
        cls = scope.cls if scope.module is not None else ""
        kind = "" if scope.kind is ScopeKind.MODULE else scope.kind.value
        return labels.with_remarks(scope.name, cls, kind)

    def _notes(self, scope: Scope) -> Iterator[str]:
        if scope.failed:
            yield _ended(self.recording, scope)
        yield from self.regions.details(scope)
        if scope.module is not None:
            module = self.recording.modules[scope.module]
            yield from filter(None, [self.weights.call(scope)])
            yield from self._about(module) if scope.call == 0 else ()

    def _about(self, module: Module) -> Iterator[str]:
        """Notes on the parameters of a module itself."""
        held = {slot.value for slot in module.parameters}
        rows = (self.recording.values[slot.value] for slot in module.parameters)
        own = {row.id: None for row in rows if _is_own(row)}
        if any(value in self.owned.tied for value in own):
            yield "tied"
        frozen = [value for value in own if not self.recording.values[value].trainable]
        ran = module.calls or any(value in self.recording.consumers for value in own)
        for every, some, values in (
            ("frozen", "frozen {}", frozen),
            ("no gradient", "no gradient for {}", held & self.owned.unreached if ran else ()),
            ("not updated", "{} not updated", own.keys() & self.owned.left_out),
        ):
            if values:
                is_all = self._is_all(module, len(values))
                yield every if is_all else some.format(_names(module, values))
        by_hooks = cleared_gradients(self.recording)
        found = grouped((by_hooks[value], value) for value in own if value in by_hooks)
        for hooks, cleared in found.items():
            of = "" if self._is_all(module, len(cleared)) else f" of {_names(module, cleared)}"
            yield f"gradient{of} cleared by {hooks}"

    def _is_all(self, module: Module, number: int) -> bool:
        """Whether these are all parameters of *module* and its submodules."""
        owned = (self.recording.values[value].role for value in self.owned.by_module(module.id))
        return sum(role is Role.PARAMETER for role in owned) == number

    def _silent(self, module: Module, depth: int) -> TableRow:
        parent = self.above[module.id]
        above = self.recording.modules[parent] if parent is not None else None
        return TableRow(
            depth=depth,
            title=f"{_below(module.names[0], above.names[0] if above else '')} ({module.cls})",
            ids=(module.id,),
            notes=(*self._why_silent(module, above), *self._about(module)),
        )

    def _why_silent(self, module: Module, above: Module | None) -> Iterator[str]:
        """The note on a module without a call; *above* is the innermost called module around it."""
        calls = above.calls if above is not None else ()
        if any(self.recording.scopes[call].kind is ScopeKind.SCRIPTED for call in calls):
            yield "inside TorchScript"  # its calls have no hooks
            return
        recording, owned = self.recording, self.owned.by_module(module.id)
        read = {recording.values[value].role for value in owned if value in recording.consumers}
        if not module.is_parameter_list:
            kind = "weights" if Role.PARAMETER in read else "buffers"
            yield f"{kind} read, never called" if read else "never called"
        elif not read:
            yield "never read"


def row_of_ops(recording: RecordedRun, ops: Sequence[Op], depth: int) -> TableRow:
    """One line for one or several ops."""
    return _together(ops, depth) if len(ops) > 1 else _of_op(recording, ops[0], depth)


def _of_op(recording: RecordedRun, op: Op, depth: int) -> TableRow:
    values = recording.values
    marks = {
        _ended(recording, op): op.failed,
        "in place": bool(op.writes),
        "hidden": op.kind is OpKind.HIDDEN,
        "returned unchanged": op.kind is OpKind.PASS,
    }
    return TableRow(
        depth=depth,
        title=_called(op),
        ids=(op.id,),
        inputs=tuple(slot.value for slot in op.inputs if values[slot.value].role not in STORED),
        outputs=op.outputs,
        notes=tuple(mark for mark, holds in marks.items() if holds),
    )


def _ended(recording: RecordedRun, item: Scope | Op) -> str:
    """How a failed call ended, if it has."""
    return "still running" if item.id in recording.run.running else "failed"


def _called(op: Op) -> str:
    """The name of an op with parentheses; ``bool()`` has them already."""
    return op.name if op.name.endswith("()") else f"{op.name}()"


def _together(ops: Sequence[Op], depth: int) -> TableRow:
    """One line for several ops outside of all scopes."""
    names = list(dict.fromkeys(map(_called, ops)))
    shown = [name for name, end in zip(names, accumulate(map(len, names))) if end <= _ROOM][:3]
    shown = shown or names[:1]
    more = ", …" if len(names) > len(shown) else ""
    title = f"{len(ops)} ops: {', '.join(shown)}{more}"
    failed = ("failed",) if any(op.failed for op in ops) else ()
    return TableRow(depth, title, tuple(op.id for op in ops), notes=failed)


def _is_own(parameter: Value) -> bool:
    """Whether it is not a tensor that the run computed and ``functional_call`` put in a module."""
    return parameter.producer is None or parameter.kind == "Parameter"


def _names(module: Module, values: Iterable[ValueId]) -> str:
    found = set(values)
    return ", ".join(slot.name for slot in module.parameters if slot.value in found)


def _below(path: str, around: str) -> str:
    """*path* relative to the path *around* it: ``"0.conv1"``."""
    return path.removeprefix(f"{around}.") if around else path


def _never_called(recording: RecordedRun) -> dict[ModuleId | None, list[Module]]:
    """Modules without calls of themselves or of submodules, by the called module around them.

    Only the outermost of nested ones is listed.
    """
    modules = recording.modules.values()
    by_path = {name: module for module in modules for name in module.names[:1]}
    alive = {path for module in modules if module.calls for path in module.around()}
    found: dict[ModuleId | None, list[Module]] = {}
    for module in modules:
        if module.names and alive.isdisjoint(module.names):
            first = module.replace(names=module.names[:1])
            above = list(first.around())[1:] if module.names[0] else []
            if not above or above[0] in alive or above[0] not in by_path:
                called = (by_path[item] for item in above if item in by_path)
                parent = next((item.id for item in called if item.calls), None)
                found.setdefault(parent, []).append(module)
    return found
