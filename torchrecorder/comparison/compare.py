"""Compare: two recordings -> their differences, in nearly linear time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import zip_longest
from typing import Union

from torchrecorder.checks import ABOVE_0, Check, advised, check_one
from torchrecorder.comparison.kinds import Change, ChangeKind
from torchrecorder.comparison.comparison import Comparison
from torchrecorder.comparison.match import Matching, match
from torchrecorder.comparison.numbers import Total, Wanted, factors, places, totals
from torchrecorder.comparison.display_names import (
    DisplayNames,
    differences,
    form,
    hyperparameters,
    size,
)
from torchrecorder.comparison.edge_match import EdgeMatch, by_name
from torchrecorder.events import STORED, ModuleId, OpId, Role, ScopeId, Slot, ValueId
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun, check_recording
from torchrecorder.recording import Recording

NOTABLE = 1e-4
"""Differences of fewer seconds are not reported."""

LAST = float("inf")
"""The place of what comes after the run."""

Placed = tuple[tuple[float, int], Change]


FACTOR = Check(
    "a factor above 1, such as 1.5,", lambda value: ABOVE_0.holds(value) and value > 1
)


@advised
def compare(
    before: Recording, after: Recording, *, times: float | None = None, numbers: Wanted = ()
) -> Comparison:
    """What was added, removed, replaced, renamed, changed, resized and rewired.

    Modules are matched by name and by what they are made of, ops by their order. What is
    in a module that is new or gone is not listed again.

    Args:
        before: The first recording.
        after: The second recording.
        times: Also list modules whose time grew or shrank by this factor, such as 1.5.
        numbers: Also list modules in which one of these numbers differs, for instance
            ``("flops", "gradient_norm")``, or ``{"gradient_norm": 2}`` for the factor from
            which on it does: 1.1 for statistics and times; any difference of what is counted.

    Returns:
        A comparison; it is false if nothing differs.

    Raises:
        InvalidArgument: *times* is not a factor above 1, *numbers* are neither names nor
            factors, or one of the first two is not a recording.
        UnknownAnnotation: No annotation has one of the names in *numbers*.

    Example:
        >>> import torch, torchrecorder
        >>> from torch import nn
        >>> old = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> new = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        >>> x = torch.ones(1, 4)
        >>> print(torchrecorder.compare(torchrecorder.record(old, x), torchrecorder.record(new, x)))
        Sequential: 1 replaced
          replaced  1  ReLU → GELU
    """
    check_recording(before)
    check_recording(after)
    check_one("times", times, FACTOR.or_none())
    wanted = factors(numbers)
    matching = match(before, after)
    summed = tuple(totals(before, after, wanted))
    found = [
        *_Comparer(before, after, matching, times).all(),
        *_measured(before, after, matching, wanted),
        *_overall(summed, wanted),
    ]
    changes = tuple(change for _, change in sorted(found, key=lambda item: item[0]))
    return Comparison(before, after, changes, matching, summed)


def _measured(
    before: RecordedRun, after: RecordedRun, matching: Matching, wanted: Mapping[str, float]
) -> Iterator[Placed]:
    """Changes of the requested numbers, module by module."""
    names = DisplayNames(after)
    for one, other, text in places(before, after, matching.scopes, wanted):
        place = after.scopes[other].index, 4
        yield place, Change(ChangeKind.MEASURED, one, other, names.scope(other), text)


def _overall(summed: Iterable[Total], wanted: Mapping[str, float]) -> Iterator[Placed]:
    """Changes of the requested numbers of the whole run."""
    for total in summed:
        if total.name in wanted and total.text:
            yield (-1, 1), Change(ChangeKind.MEASURED, "", "", "the whole run", total.said)


class _Comparer:
    """Finds the changes, each with its place in the run."""

    def __init__(
        self, before: RecordedRun, after: RecordedRun, matching: Matching, times: float | None
    ) -> None:
        self.before, self.after, self.matching, self.times = before, after, matching, times
        self.wiring = EdgeMatch(before, after, matching)
        self.old, self.new = self.wiring.old, self.wiring.new
        self.met = set(matching.scopes.values()), set(matching.ops.values())
        self.replaced: set[str] = set()

    def all(self) -> Iterator[Placed]:
        """Every change with the place where it is listed."""
        yield from self._run()
        yield from self._scopes()
        yield from self._ops()
        yield from self._lonely(self.before, self.matching.scopes, self.matching.ops, False)
        yield from self._lonely(self.after, *self.met, True)
        yield from self._modules()
        yield from self._values()

    # The run and its scopes -------------------------------------------------------------

    def _run(self) -> Iterator[Placed]:
        for name, left, right in (
            ("grad mode", self.before.run.grad_mode, self.after.run.grad_mode),
            ("devices", _devices(self.before), _devices(self.after)),
            ("failure", _failure(self.before), _failure(self.after)),
        ):
            if left != right:
                yield (-1, 0), Change(ChangeKind.CHANGED, "", "", name, f"{left} → {right}")
        if self._roots_differ():
            for one, other in zip_longest(self.before.outputs, self.after.outputs):
                if not self.wiring.same(one, other, None):
                    text = self._returns(one, other)
                    yield (LAST, 0), Change(ChangeKind.REWIRED, "", "", "the result", text)

    def _returns(self, one: Slot | None, other: Slot | None) -> str:
        new = self.new.value(other.value) if other is not None else "nothing"
        return f"is {new}, not {self.old.value(one.value) if one is not None else 'nothing'}"

    def _roots_differ(self) -> bool:
        """Whether the outermost scopes do not determine the outputs of the run."""
        roots = [self.matching.scopes.get(root) for root in self.before.roots]
        return roots != list(self.after.roots)

    def _scopes(self) -> Iterator[Placed]:
        for left, right in self.matching.scopes.items():
            one, other = self.before.scopes[left], self.after.scopes[right]
            if one.cls != other.cls:
                self.replaced.update((left, right))
            for kind, text in self._about(one, other):
                change = Change(kind, left, right, self.new.scope(right), text)
                yield (other.index, 0), change

    def _about(self, one: Scope, other: Scope) -> Iterator[tuple[ChangeKind, str]]:
        """Differences between two scopes; those of a module are listed at its first call."""
        if one.module is None or one.call == 0 or other.call == 0:
            if one.cls != other.cls:
                yield ChangeKind.REPLACED, f"{one.cls} → {other.cls}"
            if self._renamed(one, other):
                yield ChangeKind.RENAMED, f"was {self.old.scope(one.id)}"
            for text in self._turned(one, other):
                yield ChangeKind.CHANGED, text
        for text in self._returned(one, other):
            yield ChangeKind.REWIRED, text
        if self._slower(one, other):
            yield ChangeKind.RETIMED, f"{_milliseconds(one)} → {_milliseconds(other)}"

    def _returned(self, one: Scope, other: Scope) -> Iterator[str]:
        for slot, twin in by_name(one.outputs, other.outputs):
            if not self.wiring.same(slot, twin, other.id):
                yield self.wiring.instead("returns", slot, twin, one.id, other.id)

    def _renamed(self, one: Scope, other: Scope) -> bool:
        """Whether it is not where the scope around it went, under its name."""
        if one.parent is None or other.parent is None:
            return one.parent is not other.parent
        elsewhere = self.matching.scopes.get(one.parent) != other.parent
        return one.name != other.name or elsewhere

    def _turned(self, one: Scope, other: Scope) -> Iterator[str]:
        left, right = self.before.module_of(one), self.after.module_of(other)
        if left is None or right is None:
            return
        if one.cls == other.cls and one.call == other.call == 0 and left.detail != right.detail:
            details = [hyperparameters(one.cls, item.detail) for item in (left, right)]
            yield differences(*details) or "its hyperparameters"
        flags = left.training, right.training
        if flags[0] != flags[1] and self._flags_around(one, other) != flags:
            yield " → ".join("training" if flag else "evaluation" for flag in flags)

    def _flags_around(self, one: Scope, other: Scope) -> tuple[bool | None, bool | None]:
        return _training(self.before, one.parent), _training(self.after, other.parent)

    def _slower(self, one: Scope, other: Scope) -> bool:
        if self.times is None or one.seconds is None or other.seconds is None:
            return False
        low, high = sorted((one.seconds, other.seconds))
        return high > max(low * self.times, low + NOTABLE)

    # Ops --------------------------------------------------------------------------------

    def _ops(self) -> Iterator[Placed]:
        for left, right in self.matching.ops.items():
            one, other = self.before.ops[left], self.after.ops[right]
            place, where = (other.index, 1), self.new.op(right)
            if one.qualname != other.qualname:
                text = f"{one.name} → {other.name}"
                yield place, Change(ChangeKind.REPLACED, left, right, where, text)
            elif one.arguments != other.arguments and not self._follows_from_module(one, other):
                text = differences(dict(one.arguments), dict(other.arguments))
                yield place, Change(ChangeKind.CHANGED, left, right, where, text)
            for text in self._rewired(one, other):
                yield place, Change(ChangeKind.REWIRED, left, right, where, text)

    def _follows_from_module(self, one: Op, other: Op) -> bool:
        """Whether the module around has other hyperparameters, which are listed."""
        if one.scope is None or other.scope is None:
            return False
        left = self.before.module_of(self.before.scopes[one.scope])
        right = self.after.module_of(self.after.scopes[other.scope])
        return left is not None and right is not None and left.detail != right.detail

    def _rewired(self, one: Op, other: Op) -> Iterator[str]:
        for slot, twin in by_name(one.inputs, other.inputs):
            if not self.wiring.same(slot, twin, other.scope) and not self.wiring.known(slot, twin):
                given = twin if twin is not None else slot
                name = given.name if given is not None else ""
                of = "" if name.isdigit() or name in ("", "input") else f"{name}: "
                yield of + self.wiring.instead("reads", slot, twin, one.scope, other.scope)

    # What is on one side only -------------------------------------------------------------

    def _lonely(
        self,
        recording: RecordedRun,
        scopes: Union[set[ScopeId], Mapping[ScopeId, ScopeId]],
        ops: Union[set[OpId], Mapping[OpId, OpId]],
        added: bool,
    ) -> Iterator[Placed]:
        """Scopes and ops with no counterpart, in scopes that have one."""
        names = self.new if added else self.old
        kind = ChangeKind.ADDED if added else ChangeKind.REMOVED
        for scope in recording.scopes.values():
            if scope.id not in scopes and self._listed(scope.parent, recording, scopes):
                change = _alone(kind, scope.id, names.scope_title(scope.id), size(scope, recording))
                yield (self._place(scope, added), 2), change
        for op in recording.ops.values():
            if op.id not in ops and self._listed(op.scope, recording, scopes):
                yield (self._place(op, added), 2), _alone(kind, op.id, names.op(op.id))

    def _listed(
        self,
        around: ScopeId | None,
        recording: RecordedRun,
        scopes: Union[set[ScopeId], Mapping[ScopeId, ScopeId]],
    ) -> bool:
        """Whether changes inside this scope have their own lines."""
        if around is None:
            return True
        inner = any(isinstance(child, Scope) for child in recording.children[around])
        return around in scopes and (around not in self.replaced or inner)

    def _place(self, step: Union[Scope, Op], added: bool) -> float:
        """Where in the second run to list a step: after what it followed in the first."""
        if added:
            return step.index
        return self._followed.get(step.id, -0.5)

    @cached_property
    def _followed(self) -> Mapping[str, float]:
        return dict(self._following())

    def _following(self) -> Iterator[tuple[str, float]]:
        """For each step that is gone: half a place after the last one before it that is not."""
        steps: list[Union[Scope, Op]] = [*self.before.scopes.values(), *self.before.ops.values()]
        last = -1.0
        for step in sorted(steps, key=lambda step: step.index):
            if isinstance(step, Op) and step.id in self.matching.ops:
                last = self.after.ops[self.matching.ops[step.id]].index
            elif isinstance(step, Scope) and step.id in self.matching.scopes:
                last = self.after.scopes[self.matching.scopes[step.id]].index
            else:
                yield step.id, last + 0.5

    # Modules and tensors ------------------------------------------------------------------

    def _modules(self) -> Iterator[Placed]:
        """Modules that no call shows."""
        met = set(self.matching.modules.values())
        for added, recording, known in (
            (False, self.before, self.matching.modules.keys()),
            (True, self.after, met),
        ):
            kind = ChangeKind.ADDED if added else ChangeKind.REMOVED
            lonely = [module for module in recording.modules.values() if module.id not in known]
            names = {name for module in lonely for name in module.names}
            for module in lonely:
                if module.names and not module.calls and not _around(module, names):
                    where = f"{module.names[0]} ({module.cls})"
                    yield (LAST, 1), _alone(kind, module.id, where, "never called")

    def _values(self) -> Iterator[Placed]:
        for left, right in self.matching.values.items():
            one, other = self.before.values[left], self.after.values[right]
            place, where = (self._read_at(other), 3), self.new.value(right)
            if form(one) != form(other):
                text = f"{form(one)} → {form(other)}"
                yield place, Change(ChangeKind.RESIZED, left, right, where, text)
            for text in _stored(one, other):
                yield place, Change(ChangeKind.CHANGED, left, right, where, text)
        for left_module, right_module in self.matching.modules.items():
            yield from self._own(left_module, right_module)

    def _own(self, left: ModuleId, right: ModuleId) -> Iterator[Placed]:
        """Parameters and buffers that a module has on one side only."""
        one, other = self.before.modules[left], self.after.modules[right]
        place = (self._called_at(other), 3)
        for module, twin, recording, kind in (
            (one, other, self.before, ChangeKind.REMOVED),
            (other, one, self.after, ChangeKind.ADDED),
        ):
            shared = {slot.name for slot in twin.stored}
            for slot in module.stored:
                if slot.name not in shared:
                    text = form(recording.values[slot.value])
                    yield place, _alone(kind, slot.value, _path(module, slot.name), text)

    def _read_at(self, value: Value) -> float:
        if value.producer is not None:
            return self.after.ops[value.producer].index
        if value.role is Role.INPUT:
            return -1
        readers = self.after.consumers.get(ValueId(value.id), ())
        return self.after.ops[readers[0]].index if readers else LAST

    def _called_at(self, module: Module) -> float:
        return self.after.scopes[module.calls[0]].index if module.calls else LAST


def _alone(kind: ChangeKind, node: str, where: str, text: str = "") -> Change:
    """What is on one side only."""
    before, after = (None, node) if kind is ChangeKind.ADDED else (node, None)
    return Change(kind, before, after, where, text)


def _devices(recording: RecordedRun) -> str:
    return ", ".join(sorted({value.device for value in recording.values.values()})) or "none"


def _failure(recording: RecordedRun) -> str:
    failure = recording.run.failure
    return failure.error if failure is not None else "none"


def _training(recording: RecordedRun, scope: ScopeId | None) -> bool | None:
    """Whether the innermost module around was in training mode."""
    for inner in recording.within(scope):
        module = recording.module_of(recording.scopes[inner])
        if module is not None:
            return module.training
    return None


def _milliseconds(scope: Scope) -> str:
    return f"{1000 * (scope.seconds or 0):.2f} ms"


def _around(module: Module, names: set[str]) -> bool:
    """Whether a module around this one is listed already."""
    name = module.names[0]
    return any(name[:place] in names for place, letter in enumerate(name) if letter == ".")


def _stored(one: Value, other: Value) -> Iterator[str]:
    """What is different about a parameter or buffer, besides its form."""
    if one.role in STORED and one.producer is other.producer is None:
        if one.trainable != other.trainable:
            yield " → ".join("trainable" if item.trainable else "frozen" for item in (one, other))
        if len(one.names) != len(other.names):
            yield f"names: {', '.join(one.names)} → {', '.join(other.names)}"


def _path(module: Module, name: str) -> str:
    around = module.names[0] if module.names else module.cls
    return f"{around}.{name}" if around else name
