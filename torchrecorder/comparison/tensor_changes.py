"""Tensor changes: weights and results that differ, and modules that never ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import cached_property

from torchrecorder.comparison.display_names import DisplayNames, forms
from torchrecorder.comparison.kinds import LAST, Change, ChangeKind, PlacedChange, alone
from torchrecorder.comparison.match import Matching
from torchrecorder.events import STORED, ModuleId, Role, ScopeId, ValueId
from torchrecorder.graph.nodes import Module, Op, Value
from torchrecorder.style import labels


class TensorChanges:
    """Finds these changes; *listed* returns whether those in a scope have their own lines."""

    def __init__(self, matching: Matching, listed: Callable[[ScopeId], bool]) -> None:
        self.before, self.after, self.matching = matching.before, matching.after, matching
        self.listed = listed

    def all(self) -> Iterator[PlacedChange]:
        """Every change, with its position."""
        yield from self._modules()
        yield from self._values()
        for left, right in self.matching.modules.items():
            yield from self._own(left, right)

    def _modules(self) -> Iterator[PlacedChange]:
        """Changes of modules without calls, except those in replaced modules and containers."""
        hidden = [(left, right) for left, right in self.matching.modules.items()
                  if not self._has_lines(self.after.modules[right])]
        sides = (self.before, self.matching.there), (self.after, self.matching.back)
        for added, (recording, known) in enumerate(sides):
            kind = ChangeKind.ADDED if added else ChangeKind.REMOVED
            unmatched = [module for module in recording.modules.values() if module.id not in known]
            names = {name for module in unmatched for name in module.names}
            names.update(name for pair in hidden for name in recording.modules[pair[added]].names)
            holders = {outer for module in recording.modules.values() if module.calls
                       for name in module.names for outer in _above(name)}
            for module in unmatched:
                if module.calls or not names.isdisjoint(_above(*module.names[:1])):
                    continue
                if module.names and (module.stored or module.names[0] not in holders):
                    where = f"{module.names[0]} ({module.cls})"
                    yield (LAST, 1), alone(kind, module.id, where, "never called")

    def _values(self) -> Iterator[PlacedChange]:
        names = DisplayNames(self.after)
        for left, right in self.matching.values.items():
            old, new = self.before.values[left], self.after.values[right]
            place, where = (self._read_at(new), 3), names.value(right)
            if right in self._hidden:
                continue
            if right in self._resized:
                producer = self.after.ops[new.producer] if new.producer is not None else None
                kind = ChangeKind.CAST if old.shape == new.shape else ChangeKind.RESIZED
                text, follows = " → ".join(forms(old, new)), self.follows(producer)
                follows = follows or right in self._sized_by_modules
                yield place, Change(kind, left, right, where, text, follows)
            for kind, text in _stored(old, new):
                yield place, Change(kind, left, right, where, text)

    @cached_property
    def _resized(self) -> Set[ValueId]:
        """The tensors of the second run that had another shape or dtype in the first."""
        return {
            right for left, right in self.matching.values.items()
            if labels.form(self.before.values[left]) != labels.form(self.after.values[right])
        }

    def follows(self, op: Op | None) -> bool:
        """Whether there is an op of the second run, and it reads a tensor of another form."""
        return op is not None and any(slot.value in self._resized for slot in op.inputs)

    @cached_property
    def _sized_by_modules(self) -> Set[ValueId]:
        """The weights of modules of which the hyperparameters differ."""
        pairs = (
            (self.before.modules[left], self.after.modules[right])
            for left, right in self.matching.modules.items()
        )
        return {
            slot.value for old, new in pairs
            if old.cls == new.cls and old.detail != new.detail for slot in new.stored
        }

    @cached_property
    def _hidden(self) -> Set[ValueId]:
        """The parameters and buffers of replaced modules without modules in them."""
        owned: dict[bool, set[ValueId]] = {True: set(), False: set()}
        for module in self.after.modules.values():
            owned[self._has_lines(module)].update(slot.value for slot in module.stored)
        return owned[False] - owned[True]

    def _has_lines(self, module: Module) -> bool:
        """Whether changes inside a matched module have their own lines."""
        return not module.calls or self.listed(module.calls[0])

    def _own(self, left: ModuleId, right: ModuleId) -> Iterator[PlacedChange]:
        """Parameters and buffers that a module has in one run only."""
        old, new = self.before.modules[left], self.after.modules[right]
        if not self._has_lines(new):
            return
        place = (self.after.scopes[new.calls[0]].index if new.calls else LAST), 3
        for module, twin, recording, kind in (
            (old, new, self.before, ChangeKind.REMOVED), (new, old, self.after, ChangeKind.ADDED)
        ):
            shared = {slot.name for slot in twin.stored}
            for slot in module.stored:
                if slot.name not in shared:
                    text = labels.form(recording.values[slot.value])
                    yield place, alone(kind, slot.value, _path(module, slot.name), text)

    def _read_at(self, value: Value) -> float:
        if value.producer is not None:
            return self.after.ops[value.producer].index
        if value.role is Role.INPUT:
            return -1
        readers = self.after.consumers.get(ValueId(value.id), ())
        return self.after.ops[readers[0]].index if readers else LAST


def _above(name: str = "") -> Iterator[str]:
    """The names of the modules around the module of this name."""
    yield from (name[:place] for place, letter in enumerate(name) if letter == ".")


def _stored(old: Value, new: Value) -> Iterator[tuple[ChangeKind, str]]:
    """The differences of a parameter or buffer, other than its form."""
    if old.role in STORED and old.producer is new.producer is None:
        if old.trainable != new.trainable:
            yield (ChangeKind.UNFROZEN if new.trainable else ChangeKind.FROZEN), ""
        if len(old.names) != len(new.names):
            yield ChangeKind.CHANGED, f"names: {', '.join(old.names)} → {', '.join(new.names)}"


def _path(module: Module, name: str) -> str:
    around = module.names[0] if module.names else module.cls
    return f"{around}.{name}" if around else name
