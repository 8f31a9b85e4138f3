"""Training: the parts of a training step beside the model."""

from __future__ import annotations

from torchrecorder.events import TRAINING, OpId, ScopeKind
from torchrecorder.graph.recording import RecordedRun


def training_steps(recording: RecordedRun) -> frozenset[str]:
    """Steps of optimizers, clipping and gradient scalers, and all scopes in them.

    A step that runs a module, as that of LBFGS does, is none of them.
    """
    holding: set[str | None] = set()
    for scope in recording.scopes.values():
        if scope.kind is ScopeKind.MODULE:
            holding.update(recording.within(scope.id))
    found: set[str | None] = set()
    for scope in recording.scopes.values():
        if scope.parent in found or (scope.kind in TRAINING and scope.id not in holding):
            found.add(scope.id)
    return frozenset(item for item in found if item is not None)


def drawn_backwards(recording: RecordedRun) -> frozenset[OpId]:
    """The calls of backward that are drawn.

    One is not that is all that runs after the model, and leaves gradients that nobody reads.
    """
    given = {slot.value for slot in recording.outputs}
    runs = [run.op for run in recording.backward_runs if run.op in recording.ops]
    return frozenset(
        run
        for run in runs
        if len(runs) > 1
        or recording.ops[run].outputs
        or not given.issuperset(
            slot.value
            for slot in recording.ops[run].inputs
            if recording.values[slot.value].producer is not None
        )
    )
