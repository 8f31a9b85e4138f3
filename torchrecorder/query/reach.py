"""Reach: which tensors were needed for others, and from which grad nodes a pass comes to others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx

from torchrecorder.events import GradId, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun


def needed_for(values: Iterable[ValueId], ops: Sequence[Op]) -> set[ValueId]:
    """*values*, and every tensor that *ops*, in run order, computed them from."""
    needed = set(values)
    for op in reversed(ops):
        if not needed.isdisjoint(op.outputs):
            needed.update(slot.value for slot in op.inputs)
    return needed


def leading_to(recording: RecordedRun, nodes: Iterable[GradId]) -> set[GradId]:
    """*nodes*, and every grad node from which a backward pass comes to one of them."""
    layers = nx.bfs_layers(recording.graph.reverse(copy=False), nodes)
    return {node for layer in layers for node in layer}
