"""Region captions: the captions of regions such as ``no_grad``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import takewhile

from torchrecorder.events import GRAD_SUFFIX, MODES, Role, ScopeId, ScopeKind, names_gradient
from torchrecorder.graph.calls_around import CallsAround
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.relations import ops_inside
from torchrecorder.graph.recording import RecordedRun

REGIONS = frozenset((
    *MODES, ScopeKind.CHECKPOINT, ScopeKind.COMPILED, ScopeKind.SCRIPTED, ScopeKind.OPTIMIZER,
))
"""Regions with their kind as title instead of a name."""

MAX_MODULES = 2
"""The maximum number of modules named for an optimizer or a mode."""


class RegionCaptions:
    """The captions of the regions of one recording."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording

    @cached_property
    def _calls(self) -> CallsAround:
        return CallsAround(self.recording)

    @cached_property
    def _modules(self) -> Mapping[ScopeId, str]:
        return modules_of_optimizers(self.recording)

    def details(self, scope: Scope) -> tuple[str, ...]:
        """The modules that an optimizer updates, or the function that fills another region."""
        if scope.kind is ScopeKind.OPTIMIZER:
            return (self._modules[scope.id],) if scope.id in self._modules else ()
        if scope.kind not in MODES or not self.recording.function_calls:
            return ()
        call = self._calls.filled_by(scope.id)
        return (f"in {call.called}()",) if call is not None else ()

    def closed(self, scope: Scope, members: Iterable[str]) -> tuple[str, ...]:
        """The captions of a closed region, but not those that others among *members* lack."""
        is_mode = scope.kind in MODES
        if not is_mode and scope.kind is not ScopeKind.OPTIMIZER:
            return self.details(scope)
        own = self._called if is_mode else self.details
        scopes = (self.recording.scopes.get(ScopeId(member)) for member in members)
        found = {own(one) for one in scopes if one and one.kind is scope.kind}
        texts = self.details(scope) if is_mode else ()
        return (*texts, *own(scope)) if len(found) < 2 else texts

    def _called(self, mode: Scope) -> tuple[str, ...]:
        """The modules that a *mode* calls, if they are few."""
        inside = self.recording.children[mode.id]
        calls = [one for one in inside if isinstance(one, Scope) and one.kind is ScopeKind.MODULE]
        names = {one.name or one.cls: one.cls for one in calls}
        texts = [name if len(names) > 1 or name == cls else f"{name}: {cls}"
                 for name, cls in names.items()]
        return (f"calls {', '.join(texts)}",) if 0 < len(names) <= MAX_MODULES else ()


def region_title(scope: Scope) -> str:
    """The kind of a region, and its class if it has one: the dtype of autocast, or another mode."""
    what = scope.kind.value
    between = ", " if scope.kind is ScopeKind.INFERENCE_MODE else " "
    return between.join(filter(None, (what, scope.cls if scope.cls != what else "")))


def modules_of_optimizers(recording: RecordedRun) -> Mapping[ScopeId, str]:
    """``"for discriminator"`` for each optimizer step, if not all update the same few modules."""
    lanes: dict[str, dict[ScopeId, frozenset[str]]] = {}
    for scope in recording.scopes.values():
        outermost = recording.weight_updates.get(scope.id) == scope.id
        if scope.kind is ScopeKind.OPTIMIZER and outermost:
            lane = _lane(recording, scope)
            lanes.setdefault(lane, {})[scope.id] = _weights(recording, scope, lane)
    every = [
        value.names[0] for value in recording.values.values()
        if value.role is Role.PARAMETER and value.trainable and value.names
    ]
    found: dict[ScopeId, str] = {}
    for lane, weights in lanes.items():
        found |= _for_modules(weights, [name.removeprefix(lane) for name in every])
    return found


def _lane(recording: RecordedRun, step: Scope) -> str:
    """The prefix of names in the lane (rank) of a joined recording of *step*; else empty."""
    outermost = recording.scopes[recording.within(step.id)[-1]]
    is_lane = outermost.kind is ScopeKind.FUNCTION and outermost.path
    return f"{outermost.path}." if is_lane else ""


def _for_modules(
    weights: Mapping[ScopeId, frozenset[str]], every: Sequence[str]
) -> dict[ScopeId, str]:
    """The texts for steps with these *weights*; *every* has all weights of the recording."""
    modules = {names: _modules(names, every) for names in {*weights.values()}}
    if len(set(modules.values())) < 2:
        return {}
    return {
        scope: f"for {', '.join(modules[names])}"
        for scope, names in weights.items()
        if 0 < len(modules[names]) <= MAX_MODULES
    }


def _weights(recording: RecordedRun, step: Scope, prefix: str) -> frozenset[str]:
    """The names, without *prefix*, of the parameters whose values or gradients *step* reads."""
    read = {
        slot.value
        for op in ops_inside(recording, [step.id])
        for slot in recording.ops[op].inputs
    }
    values = [recording.values[value] for value in read]
    return frozenset(
        value.names[0].removesuffix(GRAD_SUFFIX).removeprefix(prefix)
        for value in values
        if names_gradient(value.names) or value.role is Role.PARAMETER and value.names
    )


def _modules(names: Set[str], every: Iterable[str]) -> tuple[str, ...]:
    """The common path of the weights *names*, or modules of the root.

    A module stands for its submodules if all of its weights among *every* are included.
    """
    paths = [name.split(".")[:-1] for name in sorted(names)]
    if not all(paths):
        return ()
    shared = list(takewhile(lambda level: len(set(level)) == 1, zip(*paths)))
    if not shared:
        return tuple(dict.fromkeys(path[0] for path in paths))
    path = ".".join(level[0] for level in shared)
    around = path.rpartition(".")[0]
    while around and all(name in names for name in every if name.startswith(f"{around}.")):
        path, around = around, around.rpartition(".")[0]
    return (path,)
