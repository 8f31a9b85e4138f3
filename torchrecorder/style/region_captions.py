"""Region captions: the captions of regions such as ``no_grad``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import cached_property
from os.path import commonprefix

from torchrecorder.annotations.parameter_owners import ParameterOwners
from torchrecorder.events import GRAD_SUFFIX, MODES, Role, ScopeId, ScopeKind, names_gradient
from torchrecorder.graph.calls_around import CallsAround
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import ops_inside

REGIONS = frozenset((*MODES, ScopeKind.CHECKPOINT, ScopeKind.OPTIMIZER))
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
            if not self.recording.children[scope.id]:
                return ("updates nothing",)  # every gradient is None
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
    found: dict[ScopeId, str] = {}
    owners = ParameterOwners(recording)
    for lane, weights in lanes.items():
        if len({*weights.values()}) > 1:
            found |= _for_modules(weights, _Trained(recording, owners, lane))
    return found


class _Trained:
    """The trainable parameters of a recording, or of one *lane*, by name.

    Attributes:
        paths: The path of the module of each; of a parameter of no module or of the model itself,
            its name.
        model: The class of the recorded model.
        of_model: The parameters of this model.
    """

    def __init__(self, recording: RecordedRun, owners: ParameterOwners, lane: str) -> None:
        rows = [row for row in recording.values.values() if row.trainable and row.names]
        self.paths = {
            name: row.id not in owners.loose and _path(name) or [name]
            for row in rows for name in [row.names[0].removeprefix(lane)]
        }
        path, modules = lane.removesuffix("."), recording.modules.values()
        root = next((one for one in modules if path in one.names and not one.apart), None)
        owned = owners.by_module(root.id) if root is not None else {}
        self.model = root.cls if root is not None else ""
        self.of_model = {row.names[0].removeprefix(lane) for row in rows if row.id in owned}


def _path(name: str) -> list[str]:
    """The path of the module of a weight."""
    return name.split(".")[:-1]


def _lane(recording: RecordedRun, step: Scope) -> str:
    """The prefix of names in the lane (rank) of a joined recording of *step*; else empty."""
    outermost = recording.scopes[recording.within(step.id)[-1]]
    is_lane = outermost.kind is ScopeKind.FUNCTION and outermost.path
    return f"{outermost.path}." if is_lane else ""


def _for_modules(
    weights: Mapping[ScopeId, frozenset[str]], trained: _Trained
) -> dict[ScopeId, str]:
    """The texts for steps with these *weights*."""
    modules = {names: _modules(names, trained) for names in {*weights.values()}}
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


def _modules(names: Set[str], trained: _Trained) -> tuple[str, ...]:
    """The class of the model if all of its weights are among *names*, and the common path of the
    others, or modules and weights of the root.

    A module stands for its submodules if all of its trainable weights are included.
    """
    whole = (trained.model,) if trained.of_model and trained.of_model <= names else ()
    others = names - trained.of_model if whole else names
    paths = [trained.paths.get(name, _path(name)) for name in sorted(others)]
    if not all(paths):  # the gradient of a tensor without a name
        return ()
    path = [*commonprefix(paths)]
    if not path:
        return whole + tuple(dict.fromkeys(first for first, *_ in paths))
    while path[:-1] and all(
        name in names for name in trained.paths if name.startswith(f"{'.'.join(path[:-1])}.")
    ):
        path.pop()
    return (*whole, ".".join(path))
