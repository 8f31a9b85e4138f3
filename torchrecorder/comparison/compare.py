"""Compare: finds the differences of two recordings, in nearly linear time."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any

from torchrecorder.checks import ABOVE_0, Check, check_one, suggests_names
from torchrecorder.comparison.comparison import Comparison
from torchrecorder.comparison.display_names import DisplayNames, differences, hyperparameters
from torchrecorder.comparison.edge_match import RETURNS, EdgeMatch, by_name
from torchrecorder.comparison.functions import changed_arguments, function, replacement
from torchrecorder.comparison.kinds import LAST, Change, ChangeKind, PlacedChange, alone
from torchrecorder.comparison.match import Matching, match
from torchrecorder.comparison.numbers import Wanted, factors, places, totals
from torchrecorder.comparison.rewired import Rewirings
from torchrecorder.comparison.step_keys import outermost
from torchrecorder.comparison.tensor_changes import TensorChanges
from torchrecorder.events import CONVERTED, OpId, ScopeId, Slot
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun, check_recording
from torchrecorder.recording import Recording
from torchrecorder.select.compiled import without_wrappers
from torchrecorder.views.quiet_ops import is_reshape

NOTABLE = 1e-4
"""Differences of fewer seconds are not reported."""

FACTOR = Check("a factor above 1", lambda value: ABOVE_0.holds(value) and value > 1)


@suggests_names
def compare(
    before: Recording, after: Recording, *, times: float | None = None, numbers: Wanted = ()
) -> Comparison:
    """The differences: what was added, removed, replaced, changed, resized, cast and rewired.

    Modules are matched by name and by their contents, ops by their order. The contents of an added
    or removed module are not listed.

    Args:
        before: The first recording.
        after: The second recording.
        times: Also list modules whose time grew or shrank by this factor, such as 1.5.
        numbers: Also list modules in which one of these numbers differs, for instance
            ``("flops", "gradient_norm")``, or ``{"gradient_norm": 2}`` for the factor from
            which on it does: 1.1 for statistics and times; any difference of counts.

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
    before, after = without_wrappers(before), without_wrappers(after)
    wanted = factors(numbers)
    matching = match(before, after)
    summed = tuple(totals(before, after, wanted))
    of_run = [
        *_run_changes(before, after),
        *(
            Change(ChangeKind.MEASURED, "", "", "the whole run", total.described)
            for total in summed
            if total.name in wanted and total.text
        ),
    ]
    found = [*_Comparer(matching, times).all(), *_measured(matching, wanted)]
    changes = (change for _, change in sorted(found, key=lambda item: item[0]))
    return Comparison(before, after, (*of_run, *changes), matching, summed)


def _run_changes(before: RecordedRun, after: RecordedRun) -> Iterator[Change]:
    """Changes of the run as a whole."""
    for name, left, right in (
        ("grad mode", before.run.grad_mode, after.run.grad_mode),
        ("devices", _devices(before), _devices(after)),
        ("failure", _failure(before), _failure(after)),
    ):
        if left != right:
            yield Change(ChangeKind.CHANGED, "", "", name, f"{left} → {right}")


def _measured(matching: Matching, wanted: Mapping[str, float]) -> Iterator[PlacedChange]:
    """Changes of the requested numbers, module by module."""
    after, names = matching.after, DisplayNames(matching.after)
    for old, new, text in places(matching, wanted):
        place = after.scopes[new].index, 4
        yield place, Change(ChangeKind.MEASURED, old, new, names.scope(new), text)


class _Comparer:
    """Finds the changes, each with its position in the run."""

    def __init__(self, matching: Matching, times: float | None) -> None:
        self.before, self.after, self.matching = matching.before, matching.after, matching
        self.times = times
        self.edge_match = EdgeMatch(matching)
        self.old_names, self.new_names = self.edge_match.old_names, self.edge_match.new_names
        replaced = matching.replaced
        self.replaced = {False: replaced.keys(), True: {*replaced.values()}}
        self.tensors = TensorChanges(matching, partial(self._listed, added=True))

    def all(self) -> Iterator[PlacedChange]:
        """Every change, with the position at which it is listed."""
        yield from self._result()
        yield from self._scopes()
        yield from self._ops()
        yield from self._unmatched(self.before, added=False)
        yield from self._unmatched(self.after, added=True)
        yield from self.tensors.all()

    # The result and the scopes ----------------------------------------------------------

    def _result(self) -> Iterator[PlacedChange]:
        """Different outputs of the run, unless the calls or steps that return them are listed."""
        roots = [self.matching.scopes.get(root) for root in outermost(self.before)]
        if roots == outermost(self.after):
            return
        before, after = list(self.before.outputs), list(self.after.outputs)
        if len(before) != len(after):
            there = {slot.value for slot in after}
            known = {self.matching.values.get(slot.value) for slot in before}
            before = [slot for slot in before
                      if self.matching.values.get(slot.value) not in there]
            after = [slot for slot in after if slot.value not in known]
        for old, new in zip_longest(before, after):
            listed = (
                _made_by_others(old, self.before, self.matching.ops)
                and _made_by_others(new, self.after, self.matching.back)
            )
            if not listed and not self.edge_match.same(old, new, None):
                former = self.old_names.value(old.value) if old is not None else "nothing"
                value = self.new_names.value(new.value) if new is not None else "nothing"
                text = f"is {value}, not {former}"
                if value == former:
                    text = self.edge_match.instead("is", old, new, None, None)
                yield (LAST, 0), Change(ChangeKind.REWIRED, "", "", "the result", text)

    def _scopes(self) -> Iterator[PlacedChange]:
        for left, right in self.matching.scopes.items():
            old, new = self.before.scopes[left], self.after.scopes[right]
            for kind, text in self._about(old, new):
                change = Change(kind, left, right, self.new_names.scope(right), text)
                yield (new.index, 0), change

    def _about(self, old: Scope, new: Scope) -> Iterator[tuple[ChangeKind, str]]:
        """The differences between two scopes; those of a module are listed at its first call."""
        if old.module is None or old.call == 0 or new.call == 0:
            if old.cls != new.cls:
                yield ChangeKind.REPLACED, f"{old.cls} → {new.cls}"
            elif old.id in self.replaced[False] and old.kind is new.kind:
                names = (self.before.module_of(old), self.after.module_of(new))
                yield ChangeKind.REPLACED, " → ".join(item.qualname for item in names if item)
            if self._renamed(old, new):
                yield ChangeKind.RENAMED, f"was {self._former_name(old)}"
            for text in self._changed(old, new):
                yield ChangeKind.CHANGED, text
        for text in self._returned(old, new):
            yield ChangeKind.REWIRED, text
        if self._slower(old, new):
            yield ChangeKind.RETIMED, f"{_milliseconds(old)} → {_milliseconds(new)}"

    def _returned(self, old: Scope, new: Scope) -> Iterator[str]:
        """Different results; not those of a replaced module, whose contents are not listed."""
        if new.id in self.replaced[True]:
            return
        for slot, twin in by_name(old.outputs, new.outputs):
            if not self.edge_match.same(slot, twin, new.id):
                yield self.edge_match.instead(RETURNS, slot, twin, old.id, new.id)

    def _renamed(self, old: Scope, new: Scope) -> bool:
        """Whether a scope has another name, or another path because of its parent."""
        if old.module is not None and old.path and old.path == new.path:
            return False
        if old.parent is None or new.parent is None:
            return old.parent is not new.parent and old.name != new.name
        if old.module is None:
            return old.name != new.name or self._moved(old.parent, new.parent)
        return old.name != new.name or self.matching.scopes.get(old.parent) != new.parent

    def _former_name(self, old: Scope) -> str:
        """The name in the first run; in a wrapper, the path below the scope around both."""
        outer = self._wrappers.get(old.id)
        around = self.before.scopes[outer].parent if outer is not None else None
        path = self.before.scopes[around].path if around is not None else ""
        return self.old_names.scope(old.id).removeprefix(f"{path}." * bool(path))

    @cached_property
    def _wrappers(self) -> Mapping[ScopeId, ScopeId]:
        """For each scope in a wrapper, what corresponds to its wrapper: itself, or a wrapper."""
        removed = {inner: outer for outer, inner in self.matching.held(added=False).items()}
        return {**{scope: scope for scope in self.matching.wrapped}, **removed}

    def _changed(self, old: Scope, new: Scope) -> Iterator[str]:
        left, right = self.before.module_of(old), self.after.module_of(new)
        if left is None or right is None:
            return
        if old.kind is not new.kind:
            yield new.kind.value if new.kind in CONVERTED else f"not {old.kind.value}"
        same = old.cls == new.cls and old.id not in self.replaced[False]
        known = same and self._hyperparameters_known
        if known and old.call == new.call == 0 and left.detail != right.detail:
            details = [hyperparameters(old.cls, item.detail) for item in (left, right)]
            yield differences(*details) or "its hyperparameters"
        flags = left.training, right.training
        around = _training(self.before, old.parent), _training(self.after, new.parent)
        if flags[0] != flags[1] and around != flags:
            yield " → ".join("training" if flag else "evaluation" for flag in flags)

    def _slower(self, old: Scope, new: Scope) -> bool:
        if self.times is None or old.seconds is None or new.seconds is None:
            return False
        low, high = sorted((old.seconds, new.seconds))
        return high > max(low * self.times, low + NOTABLE)

    # Ops --------------------------------------------------------------------------------

    def _ops(self) -> Iterator[PlacedChange]:
        for left, right in self.matching.ops.items():
            old, new = self.before.ops[left], self.after.ops[right]
            place, where = (new.index, 1), self.new_names.op(right)
            if function(old) != function(new):
                text = replacement(old, new)
                yield place, Change(ChangeKind.REPLACED, left, right, where, text)
            elif (text := changed_arguments(old, new)) and not self._follows_from_module(old, new):
                follows = is_reshape(new) and self.tensors.follows(new)
                yield place, Change(ChangeKind.CHANGED, left, right, where, text, follows)
            if self._moved(old.scope, new.scope):
                text = f"was {self.old_names.op(left)}"
                yield place, Change(ChangeKind.RENAMED, left, right, where, text)
        for index, change in Rewirings(self.edge_match).all():
            yield (index, 1), change

    def _moved(self, old: ScopeId | None, new: ScopeId | None) -> bool:
        """Whether what is in these scopes is in another module, apart from modules that only one
        run has."""
        outer = self.before.within(old), self.after.within(new)
        left = next((scope for scope in outer[0] if scope in self.matching.scopes), None)
        right = next((scope for scope in outer[1] if scope in self.matching.back), None)
        return (self.matching.scopes[left] if left is not None else None) != right

    def _follows_from_module(self, old: Op, new: Op) -> bool:
        """Whether the hyperparameters of the module around differ, and so are listed."""
        if old.scope is None or new.scope is None:
            return False
        left = self.before.module_of(self.before.scopes[old.scope])
        right = self.after.module_of(self.after.scopes[new.scope])
        if left is None or right is None or not self._hyperparameters_known:
            return False
        return left.detail != right.detail

    @cached_property
    def _hyperparameters_known(self) -> bool:
        """Whether both runs have the hyperparameters of their modules; exported programs do not."""
        modules = (run.modules.values() for run in (self.before, self.after))
        details = ([one.detail for one in found if one.parameters] for found in modules)
        return all(any(found) or not found for found in details)

    # Added and removed nodes -------------------------------------------------------------

    def _matched(self, added: bool) -> Mapping[Any, Any]:
        """The parts of one of the runs that have a counterpart."""
        return self.matching.back if added else self.matching.there

    def _unmatched(self, recording: RecordedRun, *, added: bool) -> Iterator[PlacedChange]:
        """Scopes and ops with no counterpart, in scopes that have one."""
        matched, names = self._matched(added), self.new_names if added else self.old_names
        kind = ChangeKind.ADDED if added else ChangeKind.REMOVED
        moved = {} if added else self._removed_places()
        held = self.matching.held(added=added)
        for scope in recording.scopes.values():
            if scope.recompute or scope.id in matched:
                continue
            if self._listed(scope.parent, added=added):
                inner = held.get(scope.id)
                text = (names.contents(scope.id, matched) if inner is None
                        else names.around(scope.id, inner))
                change = alone(kind, scope.id, names.scope_title(scope.id), text)
                yield (moved.get(scope.id, scope.index), 2), change
        for op in recording.ops.values():
            if not op.recompute and op.id not in matched and self._listed(op.scope, added=added):
                place = moved.get(op.id, op.index), 2
                yield place, alone(kind, op.id, names.op_itself(op.id))

    def _listed(self, around: ScopeId | None, *, added: bool) -> bool:
        """Whether changes inside this scope have their own lines."""
        if around is None:
            return True
        return around in self._matched(added) and around not in self.replaced[added]

    def _removed_places(self) -> Mapping[str, float]:
        """The place of each removed step in the second run: after the matched step before."""
        steps: list[Scope | Op] = [*self.before.scopes.values(), *self.before.ops.values()]
        removed: dict[str, float] = {}
        last = -1.0
        for step in sorted(steps, key=lambda step: step.index):
            if step.id not in self.matching.there:
                removed[step.id] = last + 0.5
                continue
            new = self.matching.there[step.id]
            last = (self.after.ops if isinstance(step, Op) else self.after.scopes)[new].index
        return removed


def _made_by_others(slot: Slot | None, recording: RecordedRun, ops: Container[OpId]) -> bool:
    """Whether there is no output, or none of these *ops* computed it."""
    producer = recording.values[slot.value].producer if slot is not None else None
    return slot is None or (producer is not None and producer not in ops)


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
