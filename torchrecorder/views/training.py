"""Training: the parts of a training step outside the model."""

from __future__ import annotations

from torchrecorder.events import TRAINING, OpId, ScopeId, ScopeKind
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import calls_of_kind


def training_steps(recording: RecordedRun) -> frozenset[str]:
    """Scopes of a training step outside the model: data loaders, optimizer steps, clipping, zeroing
    gradients, averaging, gradient scaling, and regions that create, move, copy or load the weights
    of a model; with all scopes inside them.

    Scopes that run a module, such as a step of LBFGS, are left out.
    """
    return frozenset(calls_of_kind(recording.scopes, *TRAINING))


def is_sharding(recording: RecordedRun, box: str) -> bool:
    """Whether *box* is a region that gathered or freed weights, and did not fail."""
    scope = recording.scopes.get(ScopeId(box))
    return scope is not None and scope.kind is ScopeKind.SHARDING and not scope.failed


def is_in_module(recording: RecordedRun, scope: ScopeId | None) -> bool:
    """Whether *scope* is the call of a module, or inside one."""
    around = map(recording.scopes.__getitem__, recording.within(scope))
    return any(outer.kind is ScopeKind.MODULE for outer in around)


def drawn_backwards(recording: RecordedRun) -> frozenset[OpId]:
    """The calls of backward that are drawn.

    A single backward call is hidden if it follows the run, starts at its outputs, and nothing reads
    its gradients, as with ``backward=True``.
    """
    given = {slot.value for slot in recording.outputs}
    runs = [run.op for run in recording.backward_runs if run.op in recording.ops]
    return frozenset(
        run
        for run in runs
        if len(runs) > 1
        or recording.ops[run].scope is not None
        or recording.ops[run].outputs
        or not given.issuperset(
            slot.value
            for slot in recording.ops[run].inputs
            if recording.values[slot.value].producer is not None
        )
    )
