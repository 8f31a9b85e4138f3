"""Autograd paths: what a backward pass started at and depends on, and where autograd is left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from torchrecorder.events import MODES, GradId, ScopeKind, ValueId, names_gradient
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun

_WITHOUT_GRADIENTS = (ScopeKind.NO_GRAD, ScopeKind.INFERENCE_MODE)


@once
def forward_ops(recording: RecordedRun) -> tuple[Op, ...]:
    """The ops of the forward pass, without those of optimizers."""
    apart = {
        scope.id
        for scope in recording.scopes.values()
        if scope.kind is ScopeKind.OPTIMIZER or scope.recompute
    }
    backward = {run.op for run in recording.backward_runs}
    return tuple(
        op
        for op in recording.ops.values()
        if not op.recompute
        and op.id not in backward
        and apart.isdisjoint(recording.within(op.scope))
    )


def needed_for(values: Iterable[ValueId], ops: Sequence[Op]) -> set[ValueId]:
    """*values*, and every tensor from which *ops*, in run order, computed them."""
    needed = set(values)
    for op in reversed(ops):
        if not needed.isdisjoint(op.outputs):
            needed.update(slot.value for slot in op.inputs)
    return needed


def leading_to(recording: RecordedRun, nodes: Iterable[GradId]) -> set[GradId]:
    """*nodes*, and every grad node from which a backward pass reaches one of them."""
    import networkx as nx

    layers = nx.bfs_layers(recording.graph.reverse(copy=False), nodes)
    return {node for layer in layers for node in layer}


def reached_from(recording: RecordedRun, nodes: Iterable[GradId]) -> set[GradId]:
    """*nodes*, and every grad node that a backward pass reaches from one of them."""
    import networkx as nx

    return {node for layer in nx.bfs_layers(recording.graph, nodes) for node in layer}


def roots_of(call: Op) -> list[ValueId]:
    """The tensors at which the pass of *call* started: no given gradients, no ``inputs``."""
    return [
        slot.value for slot in call.inputs
        if not names_gradient((slot.name,)) and slot.name.partition(".")[0] not in _NO_ROOTS
    ]


_NO_ROOTS = frozenset(("gradient", "grad_tensors", "grad_outputs", "grad_variables", "inputs"))
"""Arguments of functions that run a backward pass, without the tensors at which it starts."""


def why_left(recording: RecordedRun, op: Op, tensors: Collection[ValueId]) -> str:
    """Why the results of *op* among *tensors* lack the autograd history of an argument."""
    if op.name in ("detach", "detach_", "data"):
        return "it returns the same numbers without their autograd history"
    for inner in recording.within(op.scope):
        scope = recording.scopes[inner]
        modes = (scope.kind.value, *scope.cls.split(", ")) if scope.kind in MODES else ()
        if ScopeKind.ENABLE_GRAD.value in modes:
            break
        for mode in _WITHOUT_GRADIENTS:
            if mode.value in modes:
                return f"it runs under {mode.value}"
    if recording.run.grad_mode != "grad":
        return f"the whole run was under {recording.run.grad_mode}"
    results = [recording.values[value] for value in op.outputs if value in tensors]
    if not results:
        return "it returns a Python value, which autograd does not track"
    if not any(item.dtype.startswith(("float", "bfloat", "complex")) for item in results):
        return f"its result is {results[0].dtype}, which has no gradient"
    if any(item.requires_grad for item in results):
        return "its result requires grad because of other tensors only"
    return "its result does not require grad"
