"""The backward view: the autograd graph, in the direction of the gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from torchrecorder.errors import InvalidArgument
from torchrecorder.events import GradId, Role, ScopeId
from torchrecorder.graph.mappings import grouped, reached
from torchrecorder.graph.nodes import GradNode
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import recomputed
from torchrecorder.views.auto_depth import DEFAULT_MAX_BOXES
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.expand_ops import value_edges
from torchrecorder.views.full_view import KIND_OF_ROLE
from torchrecorder.views.view import Arrow, Box, BoxKind, Cluster, Nesting, View


def backward_view(
    recording: RecordedRun, depth: int | None = None, max_boxes: int = DEFAULT_MAX_BOXES
) -> View:
    """The autograd graph of a run, grouped by the scopes whose forward created the nodes.

    If backward ran, boxes are in the order in which they ran. Leaves, which accumulate gradients,
    are drawn as parameters or inputs. *depth* is the number of levels of open scopes, as in the
    forward view. One level more than the deepest also opens ops with several nodes, as groups:
    those of a double backward are in the backward pass that made them. None chooses the deepest
    depth with at most *max_boxes* boxes, and opens no backward pass if this is not the deepest.

    Raises:
        InvalidArgument: There is no autograd graph.
    """
    if not recording.grad_nodes:
        raise InvalidArgument(
            "view='backward' shows the autograd graph, and there is none: nothing that was "
            "recorded requires grad, or gradients were off; record(..., autograd=True) makes one"
        )
    view = _Backward(recording).view()
    if depth is None and len(view.boxes) > max_boxes:
        view = Collapse(only=frozenset(run.op for run in recording.backward_runs))(view)
    depth = _fitting(view, max_boxes) if depth is None else depth
    return _weights_outside(Collapse(depth)(view))


def _weights_outside(view: View) -> View:
    """Put each weight outside all boxes that add to its gradient: calls of a module share it."""
    boxes = dict(view.boxes)
    for arrow in view.arrows:
        box = boxes[arrow.head]
        if box.kind is BoxKind.PARAMETER:
            cluster = view.nesting.common([box.cluster, boxes[arrow.tail].cluster])
            boxes[box.id] = box.replace(cluster=cluster)
    return replace(view, boxes=boxes)


def _fitting(view: View, most: int) -> int:
    """The deepest depth that draws at most *most* boxes; 1 at least."""
    parents = view.nesting.parents
    depths = Nesting(parents, view.recording.transparent).depth
    for depth in range(max(depths.values()) + 1, 1, -1):
        closed = sum(depths[parents[each]] < depth <= depths[each] for each in view.clusters)
        open_ = sum(depths[box.cluster] < depth for box in view.boxes.values())
        if closed + open_ <= most:
            return depth
    return 1


class _Backward:
    """Collects the boxes, clusters and arrows of one recording."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording
        self.order = {ran.grad: (ran.run, ran.order) for ran in reversed(recording.grad_runs)}
        self.values = {edge: value for value, edge in reversed([*value_edges(recording)])}
        self.inside = self._inside()
        self.held = grouped((outer, inner) for inner, outer in self.inside.items())
        self.homes = self._homes()

    def _inside(self) -> dict[GradId, GradId]:
        """Nodes that another node created and ran, as in reentrant checkpointing, each with the
        node in whose box it is drawn."""
        nodes, again = self.recording.grad_nodes, recomputed(self.recording)
        found = {
            grad.id: grad.made_by
            for grad in nodes.values()
            if grad.owner in again and grad.made_by is not None
        }
        for grad in [nodes[item] for item in found]:
            for edge in filter(None, grad.next):
                leaf = nodes[edge.grad].variable
                if leaf is not None and self.recording.values[leaf].producer in again:
                    found[edge.grad] = found[grad.id]  # a detached input
        for item, maker in found.items():
            while maker in found:
                maker = found[maker]
            found[item] = maker
        return found

    def _unused(self) -> set[GradId]:
        """Recomputed nodes that do not run: a checkpoint only needs the tensors that they saved."""
        nodes, again = self.recording.grad_nodes, recomputed(self.recording)
        unused = {grad.id for grad in nodes.values()
                  if grad.owner in again and grad.id not in self.order} - self.inside.keys()
        # the program may go on with a tensor that was computed again
        used = reached((grad for grad in nodes if unused and grad not in unused), lambda grad: (
            edge.grad for edge in nodes[grad].next if edge is not None
        ))
        return unused.difference(used)

    def _outer(self, grad: GradId) -> GradNode:
        """The node whose box *grad* is in."""
        return self.recording.grad_nodes[self.inside.get(grad, grad)]

    def view(self) -> View:
        unused = self._unused()
        nodes = (grad for grad in self.recording.grad_nodes.values() if grad.id not in unused)
        grads = sorted(nodes, key=self._place)
        boxes = [self._box(grad) for grad in grads if grad.id not in self.inside]
        return View(
            self.recording,
            {box.id: box for box in boxes},
            {cluster.id: cluster for cluster in self._clusters(boxes)},
            tuple(self._arrows(grads)),
            backward=True,
        )

    def _place(self, grad: GradNode) -> tuple[int, ...]:
        """Sort key: nodes that ran, in order; then the others, last created first."""
        number = int(grad.id[1:])
        place = self.order.get(grad.id)
        return (0, *place) if place is not None else (1, -number)

    def _homes(self) -> dict[GradId, str | None]:
        """The cluster of each node: its op if that has several nodes, else its scope."""
        homes: dict[GradId, str | None] = {}
        for grad in self.recording.grad_nodes.values():
            if grad.owner is not None:
                several = len(self.recording.owned.get(grad.owner, ())) > 1
                homes[grad.id] = grad.owner if several else self._drawn_scope(grad.scope)
        for grad in self.recording.grad_nodes.values():
            for edge in grad.next:
                if edge is not None and grad.id in homes:
                    homes.setdefault(edge.grad, self._drawn_scope(self._outer(grad.id).scope))
        return homes

    def _drawn_scope(self, scope: ScopeId | None) -> ScopeId | None:
        """*scope*; where PyTorch registers full backward hooks, the module around it."""
        around, scopes = self.recording.within(scope), self.recording.scopes
        return next((outer for outer in around if not scopes[outer].registers_hooks), None)

    def _id(self, grad: GradNode) -> str:
        grad = self._outer(grad.id)
        return grad.id if grad.variable is None else grad.variable

    def _box(self, grad: GradNode) -> Box:
        home = self.homes.get(grad.id)
        if grad.variable is None:
            return Box(grad.id, BoxKind.GRAD, home, (grad.id, *self.held.get(grad.id, ())))
        value = self.recording.values[grad.variable]
        made = BoxKind.PARAMETER if value.kind == "Parameter" else BoxKind.TENSOR  # by an update
        kind = made if value.role is Role.INNER else KIND_OF_ROLE[value.role]
        around = None if kind is BoxKind.INPUT else home
        return Box(grad.variable, kind, around, (grad.id, grad.variable))

    def _clusters(self, boxes: Iterable[Box]) -> Iterator[Cluster]:
        """Scopes and ops around boxes, the outer ones first, in run order."""
        scopes, ops = self.recording.scopes.values(), self.recording.ops.values()
        parents: dict[str, str | None] = {scope.id: scope.parent for scope in scopes}
        parents.update((op.id, op.scope) for op in ops)
        nesting, homes = Nesting(parents), {box.cluster for box in boxes}
        wanted = {around for home in homes for around in nesting.around(home)}
        return (Cluster(item, parent) for item, parent in parents.items() if item in wanted)

    def _arrows(self, grads: Iterable[GradNode]) -> Iterator[Arrow]:
        nodes = self.recording.grad_nodes
        for grad in grads:
            for source, edge in enumerate(grad.next):
                if edge is not None:
                    tail, head = self._id(grad), self._id(nodes[edge.grad])
                    if tail != head:
                        yield Arrow(tail, head, self.values.get(edge), str(source))
