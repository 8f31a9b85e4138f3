"""Optimizers: the modules whose weights each of several optimizers updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import takewhile

from torchrecorder.events import GRAD_SUFFIX, Role, ScopeId, ScopeKind, names_gradient
from torchrecorder.graph.nodes import Scope, Value
from torchrecorder.graph.ops_inside import ops_inside
from torchrecorder.graph.recording import RecordedRun

MOST = 2
"""The maximum number of modules named for an optimizer."""


def modules_of_optimizers(recording: RecordedRun) -> Mapping[ScopeId, str]:
    """``"for discriminator"`` for each optimizer step, if not all update the same modules.

    Steps without named weights, or with those of more than `MOST` modules, are left out.
    """
    steps = (scope for scope in recording.scopes.values() if scope.kind is ScopeKind.OPTIMIZER)
    weights = {scope.id: _weights(recording, scope) for scope in steps}
    if len(set(weights.values())) < 2:
        return {}
    every = [value.names[0] for value in recording.values.values() if _is_trained(value)]
    modules = {names: _modules(names, every) for names in {*weights.values()}}
    if len(set(modules.values())) < 2:
        return {}
    return {
        scope: f"for {', '.join(modules[names])}"
        for scope, names in weights.items()
        if 0 < len(modules[names]) <= MOST
    }


def _weights(recording: RecordedRun, step: Scope) -> frozenset[str]:
    """The dotted names of the parameters that *step* reads itself or the gradients of."""
    read = {
        slot.value
        for op in ops_inside(recording, [step.id])
        for slot in recording.ops[op].inputs
    }
    values = [recording.values[value] for value in read]
    return frozenset(
        value.names[0].removesuffix(GRAD_SUFFIX)
        for value in values
        if names_gradient(value.names) or value.role is Role.PARAMETER and value.names
    )


def _is_trained(value: Value) -> bool:
    return value.role is Role.PARAMETER and value.trainable and bool(value.names)


def _modules(names: Set[str], every: Iterable[str]) -> tuple[str, ...]:
    """The modules that have *names*: one path if they have one in common, else those in the root.

    A module around one without other weights stands for it.

    Args:
        names: The dotted names of the weights.
        every: Those of all weights.
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
