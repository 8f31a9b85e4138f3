"""Open ops: draw the grad nodes that autograd created for an op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from torchrecorder.events import GradEdge, GradId, OpId, ValueId
from torchrecorder.graph.nodes import GradNode
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.view import Arrow, Box, BoxKind, Cluster, View


def open_ops(view: View) -> View:
    """Turn each op box that owns several grad nodes into a cluster of them.

    That of an op with a single node stands for both: it would be alone in its cluster.
    Arrows run with the data, against the gradients. One between two ops ends at the grad
    node that took or gave its value. A value that autograd did not follow enters where a
    gradient is missing, and leaves the last node of the op.
    """
    opened = {
        box.id: OpAutograd(view.recording, OpId(box.id))
        for box in view.boxes.values()
        if OpId(box.id) in view.recording.owned
    }
    inner = [arrow for inside in opened.values() for arrow in inside.arrows()]
    framed = {
        op: Cluster(op, view.boxes[op].cluster)
        for op, inside in opened.items()
        if len(inside.grads) > 1
    }
    return replace(
        view,
        boxes=_boxes(view, opened),
        clusters={**view.clusters, **framed},
        arrows=(*inner, *_outer(view, opened)),
    )


class OpAutograd:
    """The grad nodes of one op."""

    def __init__(self, recording: RecordedRun, op: OpId) -> None:
        self.grads: dict[GradId, GradNode] = {grad.id: grad for grad in recording.owned[op]}
        behind = {edge.grad for grad in self.grads.values() for edge in grad.next if edge}
        self.readers: dict[GradEdge, list[GradId]] = {}
        for grad in self.grads.values():
            for edge in dict.fromkeys(grad.next):
                if edge is not None:
                    self.readers.setdefault(edge, []).append(grad.id)
        last = (grad for grad in self.grads if grad not in behind)
        self.last = next(last, next(iter(self.grads)))
        untracked = (grad.id for grad in self.grads.values() if None in grad.next)
        self.first = next(untracked, self.last)

    def arrows(self) -> Iterator[Arrow]:
        """The flow from grad node to grad node inside."""
        for grad in self.grads.values():
            for edge in grad.next:
                if edge is not None and edge.grad in self.grads:
                    yield Arrow(edge.grad, grad.id, None)

    def made(self, edge: GradEdge | None) -> str:
        """The grad node that made a value with this edge."""
        return edge.grad if edge is not None and edge.grad in self.grads else self.last

    def took(self, edge: GradEdge | None) -> Sequence[GradId]:
        """The grad nodes that read a value with this edge."""
        return (self.first,) if edge is None else self.readers.get(edge, (self.first,))


def _boxes(view: View, opened: Mapping[str, OpAutograd]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    for box in view.boxes.values():
        if box.id not in opened:
            boxes[box.id] = box
            continue
        inside = opened[box.id]
        if len(inside.grads) == 1:
            boxes[inside.last] = Box(inside.last, BoxKind.GRAD, box.cluster, box.members)
            continue
        rest = tuple(member for member in box.members[1:] if member not in inside.grads)
        for grad in inside.grads:
            mine = (grad, *rest) if grad == inside.last else (grad,)
            boxes[grad] = Box(grad, BoxKind.GRAD, box.id, mine)
    return boxes


def _outer(view: View, opened: Mapping[str, OpAutograd]) -> Iterator[Arrow]:
    """The arrows between ops, ending at grad nodes."""
    behind: dict[str | None, GradEdge] = dict(reversed([*value_edges(view.recording)]))
    for arrow in view.arrows:
        edge = behind.get(arrow.value)
        tail = opened[arrow.tail].made(edge) if arrow.tail in opened else arrow.tail
        heads = opened[arrow.head].took(edge) if arrow.head in opened else (arrow.head,)
        for head in heads:
            yield Arrow(tail, head, arrow.value, arrow.slot)


def value_edges(recording: RecordedRun) -> Iterator[tuple[ValueId, GradEdge]]:
    """Each value with its edge in the autograd graph, then leaves with their AccumulateGrad node.

    If a value or an edge is in several pairs, the first counts.
    """
    for value in recording.values.values():
        if value.grad is not None:
            yield value.id, value.grad
    for grad in recording.grad_nodes.values():
        if grad.variable is not None:
            yield grad.variable, GradEdge(grad.id, 0)
