"""Training: the parts of a training step outside the model."""

from __future__ import annotations

from torchrecorder.events import TRAINING, OpId, ScopeKind
from torchrecorder.graph.recording import RecordedRun


def training_steps(recording: RecordedRun) -> frozenset[str]:
    """Calls of data loaders, steps of optimizers, clipping, zeroing, averaging, gradient scalers,
    and regions that create, move, copy or load the weights of a model; with all scopes in them.

    Those that run a module, such as steps of LBFGS, are left out.
    """
    if not any(scope.kind in TRAINING for scope in recording.scopes.values()):
        return frozenset()
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

    A backward call is hidden if it is the last call and nothing reads its gradients.
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
