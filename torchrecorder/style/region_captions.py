"""RegionCaptions: the captions of regions such as ``no_grad``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from torchrecorder.events import MODES, ScopeId, ScopeKind
from torchrecorder.graph.calls_around import CallsAround
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.optimizers import modules_of_optimizers

REGIONS = {
    ScopeKind.NO_GRAD: "no_grad",
    ScopeKind.ENABLE_GRAD: "enable_grad",
    ScopeKind.INFERENCE_MODE: "inference_mode",
    ScopeKind.AUTOCAST: "autocast",
    ScopeKind.CHECKPOINT: "checkpoint",
    ScopeKind.COMPILED: "compiled",
    ScopeKind.SCRIPTED: "scripted",
    ScopeKind.OPTIMIZER: "optimizer",
}


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
        """The modules that an optimizer updates; the function that fills another region, such as
        one decorated with ``no_grad()``.
        """
        if scope.kind is ScopeKind.OPTIMIZER:
            return (self._modules[scope.id],) if scope.id in self._modules else ()
        if scope.kind not in MODES or not self.recording.function_calls:
            return ()
        call = self._calls.filled_by(scope.id)
        return (f"in {call.called}()",) if call is not None else ()

    def shared(self, scope: Scope, members: Iterable[str]) -> tuple[str, ...]:
        """The same, without what other optimizers among *members* do not have."""
        if scope.kind is not ScopeKind.OPTIMIZER:
            return self.details(scope)
        scopes = (self.recording.scopes.get(ScopeId(member)) for member in members)
        found = {self.details(one) for one in scopes if one and one.kind is scope.kind}
        return self.details(scope) if len(found) < 2 else ()


def region_title(scope: Scope) -> str:
    """The kind of a region, and its class if it has one: a dtype of autocast, or another mode."""
    what = REGIONS[scope.kind]
    between = ", " if scope.kind is ScopeKind.INFERENCE_MODE else " "
    return between.join(filter(None, (what, scope.cls if scope.cls != what else "")))
