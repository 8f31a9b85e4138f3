"""Weights: captions with the number of parameters, of trained ones, and of the call of the
module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cached_property

from torchrecorder.annotations.parameter_owners import FUNCTIONS, ParameterOwners
from torchrecorder.annotations.parameters import PARAMETERS, TRAINABLE
from torchrecorder.events import MODES, ModuleId, ScopeId
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import ops_inside, scopes_inside
from torchrecorder.style import labels
from torchrecorder.views.view import Box


class Weights:
    """The captions about parameters for the scopes of one recording."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording
        self.all = PARAMETERS.on(recording)
        self.trained = TRAINABLE.on(recording)
        self.mixed = 0 < self.trained.total() < self.all.total()
        self._numbered: dict[ModuleId, dict[str, int]] = {}
        self._texts: dict[ScopeId, str] = {}

    @cached_property
    def _owners(self) -> ParameterOwners:
        return ParameterOwners(self.recording)

    def lines(self, scope: Scope, box: Box, single: bool = True) -> Iterator[str]:
        """The parameters, and the number of the call if the box is a *single* one of several."""
        count = self._count([scope.id])
        counts = [self._count([instance]) for instance in box.instances]
        frozen = self._frozen(box.members, count) if count else ""
        if len(set(counts)) > 1:
            whole = labels.count(self._count(box.instances))
            total = f", {whole} in total" if box.count > 1 else ""
            least, most = map(labels.count, (min(counts), max(counts)))
            yield f"{least} … {most} params{total}{frozen}"
        elif count:
            call = self.call(scope, box.members) if single else ""
            shared = len(self._calls(scope.module).keys() & box.members) > 1  # and counted once
            times = f"{box.count} × " if box.count > 1 and not shared else ""
            yield ", ".join(filter(None, [times + labels.parameters(count) + frozen, call]))

    def open(self, scope: Scope, drawn: Set[str], single: bool = True) -> str:
        """The parameters of an open call without those *drawn* in it, and its number."""
        call = self.call(scope) if single else ""
        module = self.recording.module_of(scope)
        if module is None:
            return call
        own, kind = [slot.value for slot in module.parameters], ""
        inside: tuple[str, ...]
        if not self._is_innermost(scope):
            own = [value for value in own if value not in drawn]
            others = self._with_captions(scope, drawn) if own else ()
            counted = self._owners.within(self._members(others))
            inside, kind = tuple(value for value in own if value not in counted), " of its own"
        elif drawn.isdisjoint(own):
            inside = tuple(scopes_inside(self.recording, [scope.id]))
        else:
            return call
        count = int(self.all.of(inside) or 0)
        if not count:
            return call
        text = labels.parameters(count) + kind + self._frozen(inside, count)
        return ", ".join(filter(None, [text, call]))

    def _with_captions(self, scope: Scope, drawn: Set[str]) -> Iterator[ScopeId]:
        """The calls in *scope* that say what they have: those of modules, and *drawn* boxes."""
        for inner in scopes_inside(self.recording, [scope.id]):
            is_module = self.recording.scopes[inner].module is not None
            if inner in drawn or is_module and inner != scope.id:
                yield inner

    def block(self, box: Box) -> str:
        """The parameters in a closed block of siblings, or in a fold of equal ones."""
        first = box.members[: len(box.members) // box.count]
        total, each = (int(self.all.of(part) or 0) for part in (box.members, first))
        if not total:
            return ""
        if each * box.count != total:  # the rounds of a loop share some, or they differ
            return labels.parameters(total) + self._frozen(box.members, total)
        times = f"{box.count} × " if box.count > 1 else ""
        return times + labels.parameters(each) + self._frozen(box.members, each)

    def count(self, scope: Scope) -> int:
        """The number of parameters of a scope and all in it."""
        return self._count([scope.id])

    def _is_innermost(self, scope: Scope) -> bool:
        """Whether only operations and modes such as ``no_grad`` ran in it."""
        inside = scopes_inside(self.recording, [scope.id])
        kinds = (self.recording.scopes[inner].kind for inner in inside if inner != scope.id)
        return all(kind in MODES for kind in kinds)

    def call(self, scope: Scope, members: Iterable[str] = ()) -> str:
        """``call 2 of 3``; empty if *members* has all calls, or the module around has the text."""
        calls = self._calls(scope.module)
        here = calls.keys() & members | calls.keys() & {scope.id}
        text = self._call(scope) if len(here) < len(calls) else ""
        scopes = map(self.recording.scopes.__getitem__, self.recording.within(scope.parent))
        around = next((outer for outer in scopes if outer.module is not None), None)
        return "" if around is not None and self._call(around) == text else text

    def _call(self, scope: Scope) -> str:
        """``"call 2 of 3"`` for a module with weights that is called several times; else empty."""
        if scope.id not in self._texts:
            calls = self._calls(scope.module)
            counts = len(calls) > 1 and scope.id in calls and self._count([scope.id])
            self._texts[scope.id] = f"call {calls[scope.id]} of {len(calls)}" if counts else ""
        return self._texts[scope.id]

    def _frozen(self, members: Iterable[str], each: int) -> str:
        """The frozen parameters, if the model has both kinds; *each*: how many a sibling has."""
        if not self.mixed:
            return ""
        every, trained = (int(one.of(members) or 0) for one in (self.all, self.trained))
        if trained == every:
            return ""
        if not trained:
            return ", frozen"
        if every == each:
            return f", {_part(every, trained)}"
        if every % each or trained % each:
            return ", partly frozen"
        return f", {(every - trained) // each} of {every // each} frozen"

    def _count(self, scopes: Iterable[str]) -> int:
        """The number of weights in scopes; tied ones count once."""
        return int(self.all.of(self._members(scopes)) or 0)

    def _members(self, scopes: Iterable[str]) -> list[str]:
        """All scopes in *scopes*, and the operations in those whose weights no module in them has.
        """
        found = [*map(ScopeId, scopes)]
        read = ops_inside(self.recording, filter(self._counts_reads, found))
        return [*scopes_inside(self.recording, found), *read]

    def _counts_reads(self, scope: ScopeId) -> bool:
        """Whether its operations may read weights that none of its modules has."""
        found = self.recording.scopes.get(scope)
        return found is not None and (found.kind in FUNCTIONS or bool(self._owners.loose))

    def _calls(self, module: ModuleId | None) -> Mapping[str, int]:
        """The calls of a module, numbered from 1."""
        if module is None:
            return {}
        if module not in self._numbered:
            calls = self.recording.modules[module].calls
            first = [call for call in calls if not self.recording.scopes[call].recompute]
            self._numbered[module] = {call: place + 1 for place, call in enumerate(first)}
        return self._numbered[module]


def _part(every: int, trained: int) -> str:
    """How many of the parameters are trained; if nearly all are, how many are not."""
    if labels.count(trained) == labels.count(every):
        return f"{labels.count(every - trained)} frozen"
    return f"{labels.count(trained)} trained"
