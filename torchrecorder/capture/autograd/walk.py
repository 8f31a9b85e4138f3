"""Walk ``grad_fn.next_functions``: grad nodes and their owners.

Autograd numbers its nodes on creation (``_sequence_nr``, one counter per thread). An op owns the
nodes numbered while it ran. A node without an owner was created where the function mode does not
see calls (a scripted or compiled region, C++, a custom function): it becomes a hidden op, see
`HiddenOps`.
Accumulation nodes have no number and are identified by their leaf.

No node is kept beyond the walk, because a node keeps the whole graph behind it alive.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, is_grad_enabled
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import get_gradient_edge

from torchrecorder.capture.autograd.hidden_ops import HiddenOps
from torchrecorder.capture.autograd.node_facts import name_of
from torchrecorder.capture.autograd.thread_nodes import LEAF, ThreadNodes, number_of
from torchrecorder.capture.internals.access import current_node, next_node_number
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import is_leaf, node_behind
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import GradEdge, GradId, OpId, ScopeId, ValueId, made
from torchrecorder.graph.nodes import GradNode

_Parents = tuple[tuple[Any, int], ...]
"""``next_functions``: nodes, or None, and which of their outputs."""


class AutogradWalk:
    """The known grad nodes, and the value of each of their outputs."""

    def __init__(self, tape: Tape, values: TensorTable) -> None:
        self.tape = tape
        self.values = values
        self.known: dict[int, GradId] = {}
        self.leaves: dict[ValueId, GradId] = {}
        self.passed: dict[int, GradEdge] = {}  # nodes of our own aliases: the edge they replace
        self.made: dict[GradEdge, ValueId] = {}
        self.owners: dict[GradId, OpId] = {}
        self._names: dict[type, str] = {}
        self.start = self.since = next_node_number()  # older nodes have lower numbers
        self.engine_start = 0  # the same in the thread of the engine that is recorded
        self.recomputes = False
        self.starts: list[int] = []
        self.spans: list[tuple[int, OpId, ScopeId | None]] = []
        self.node_recorded: Callable[[GradId, Any], None] = lambda grad, node: None
        self.foreign_nodes = ThreadNodes(self)
        self.hidden = HiddenOps(self)
        self.key: Callable[[Any], int] = number_of
        self.meet: Callable[[Any], None] = self.foreign_nodes.look

    def expect_foreign_nodes(self) -> None:
        """From now on, nodes of two threads may have the same number."""
        self.key, self.meet = self.foreign_nodes.key, self.foreign_nodes.meet

    def adopt(self, node: Any, other: AutogradWalk) -> None:
        """Take over the grad nodes from *node* on, which *other* recorded in its thread."""
        self.foreign_nodes.adopt(node, other)

    def clear(self) -> None:
        """Forget all nodes, and release those that are kept alive."""
        self.foreign_nodes.clear()
        for found in (self.known, self.leaves, self.passed, self.made, self.owners):
            found.clear()

    def custom_backward(self) -> str | None:
        """The name of the custom function whose backward runs in this thread, or None."""
        node = current_node()
        return name_of(node) if isinstance(node, BackwardCFunction) else None

    def made_in_pass(self, node: Any) -> bool:
        """Whether the backward of a custom function made *node*, and is still running."""
        is_new = self.since == LEAF or self.is_recent(self.key(node))
        return is_new and self.custom_backward() is not None

    def is_older(self, node: Any) -> bool:
        """Whether *node* existed before the run; for one without a number, before the first op."""
        number = self.key(node)
        if number < 0 and node._sequence_nr() == LEAF:
            return not self.starts and self.since == self.start
        return 0 <= number < self.start

    def is_recent(self, number: int) -> bool:
        """Whether the current or last op may have created the node with this number."""
        return self.since <= number < next_node_number()

    def _maker(self, number: int) -> tuple[OpId | None, ScopeId | None]:
        """The op that ran when autograd assigned *number*."""
        place = bisect.bisect_right(self.starts, number) - 1
        if place >= 0 and number < self.spans[place][0]:
            return self.spans[place][1:]
        return None, None

    def begin(self) -> None:
        """An op begins, which owns the nodes numbered from now on."""
        self.since = next_node_number()
        if self.tape.engine is not None:
            self.find_numbering()

    def find_numbering(self) -> None:
        """A module or function begins: in a thread of the engine, it makes nodes with numbers of
        that thread, perhaps the same that the forward pass made."""
        if self.tape.engine is not None and is_grad_enabled():
            self.number_elsewhere()
            self.recomputes = True

    def number_elsewhere(self) -> None:
        """Until the next op begins, new nodes have the numbers of a thread of the engine."""
        self.expect_foreign_nodes()
        self.since = LEAF

    def may_recompute(self, number: int) -> bool:
        """Whether the node with this number may have been made again in this thread of the
        engine."""
        return self.recomputes and self.engine_start <= number < next_node_number()

    def end(self, op: OpId) -> None:
        """The op ended: it owns all nodes numbered since it began, also those found later."""
        number = next_node_number()
        if number > self.since:
            self.starts.append(self.since)
            self.spans.append((number, op, self.tape.scope))

    def expect_unrecorded(self, made: Iterable[Tensor]) -> None:
        """Until the next op begins, all unknown grad nodes behind *made* belong to this call."""
        for node in map(node_behind, made):
            if node is not None:
                self.meet(node)
                self.since = 0

    def knows(self, tensor: Tensor) -> bool:
        """Whether the node behind *tensor* is known."""
        node = node_behind(tensor)
        if node is not None:
            self.meet(node)
        return node is None or self.key(node) in self.known

    def grad_of(self, node: Any) -> GradId | None:
        """The id of *node*, without an owner if it is new; None for one created by the recorder."""
        if self.key(node) in self.passed:
            return None
        return self.edge(node, 0, None).grad

    def edge_behind(self, tensor: Tensor) -> GradEdge | None:
        """The grad node and output that receive the gradient of *tensor*."""
        node = node_behind(tensor)
        if node is not None:
            return self.edge(node, tensor.output_nr, None)
        if not is_leaf(tensor):
            return None
        return GradEdge(self._leaf(get_gradient_edge(tensor).node), 0)

    def known_as(self, node: Any) -> GradId | None:
        """The id of *node*, if it is known."""
        number = self.key(node)
        if number != LEAF or not self._is_leaf(node):
            return self.known.get(number)
        value = self.values.peek(node.variable)
        return self.leaves.get(value) if value is not None else None

    def map_alias(self, alias: Tensor, tensor: Tensor) -> None:
        """Map the node of *alias*, which the recorder created, to that of *tensor*."""
        if alias.grad_fn is None:
            return
        if tensor.grad_fn is not None:
            edge = self.edge(tensor.grad_fn, tensor.output_nr, None)
        else:
            ((leaf, index),) = alias.grad_fn.next_functions
            edge = self.edge(leaf, index, None)
        self.passed[self.key(alias.grad_fn)] = edge

    def edge_of(self, tensor: Tensor, producer: OpId) -> GradEdge | None:
        """The node behind *tensor*; if it is new, *producer* is its owner."""
        node = node_behind(tensor)
        if node is None:
            return None
        if self.since == LEAF:
            self.meet(node)
        number = self.key(node)
        known = self.known.get(number)
        if known is None and number in self.passed:
            return self.passed[number]
        if known is None and self.since <= number < LEAF:
            known = self._claim_usual(number, node, producer)
        if known is None:
            return self.edge(node, tensor.output_nr, producer)
        return made(GradEdge, (known, tensor.output_nr))

    def _claim_usual(self, number: int, node: Any, owner: OpId) -> GradId | None:
        """Record a node if all nodes behind it are known, as for most ops; otherwise None."""
        following = self.following(node.next_functions)
        if following is None:
            return None
        grad = self.known[number] = self.tape.next_grad()
        self._write(grad, node, owner, self.tape.scope, following)
        return grad

    def following(self, parents: _Parents) -> tuple[GradEdge | None, ...] | None:
        """The edges of a node with these *parents*; None if one of them is unknown."""
        following: list[GradEdge | None] = []
        for parent, index in parents:
            if parent is None:
                following.append(None)
                continue
            number = self.key(parent)
            known = self.known.get(number)
            if known is not None:
                following.append(made(GradEdge, (known, index)))
            elif number == LEAF and self._is_leaf(parent):
                following.append(made(GradEdge, (self._leaf(parent), index)))
            elif number in self.passed:
                following.append(self.passed[number])
            else:
                return None
        return tuple(following)

    def edge(
        self, node: Any, index: int, owner: OpId | None, scope: ScopeId | None = None
    ) -> GradEdge:
        number = self.key(node)
        known = self.known.get(number)
        if known is None:
            if number in self.passed:
                return self.passed[number]
            if number == LEAF and self._is_leaf(node):
                return GradEdge(self._leaf(node), index)
            self._claim(node, owner, scope or self.tape.scope)
            known = self.known[self.key(node)]
        return GradEdge(known, index)

    def _gather(self, node: Any) -> list[tuple[int, Any, _Parents]]:
        """*node* and the unknown nodes behind it, in the order of creation."""
        found: dict[int, tuple[int, Any, _Parents]] = {}
        stack = [node]
        while stack:
            node = stack.pop()
            if self.key(node) == LEAF and self._is_leaf(node):
                continue
            number = self.key(node)
            if number in found and found[number][1] is not node:  # found only now
                self.expect_foreign_nodes()
                number = self.foreign_nodes.hold(node)
            elif number in self.known and self.meet == self.foreign_nodes.meet:
                self.meet(node)
                number = self.key(node)
            if number in self.known or number in self.passed or number in found:
                continue
            parents = node.next_functions
            found[number] = (number, node, parents)
            for parent, _ in parents:
                if parent is not None:
                    stack.append(parent)
        return _parents_first(found, self.key)

    def _claim(self, node: Any, owner: OpId | None, scope: ScopeId | None) -> None:
        """Record *node* and the unknown nodes behind it, owned by *owner* or by hidden ops."""
        found = self._gather(node)
        for number, _, _ in found:
            self.known[number] = self.tape.next_grad()
        for number, item, parents in found:
            following = self.following(parents)
            assert following is not None  # all of them have been gathered
            grad = self.known[number]
            whole = number < 0 or isinstance(item, BackwardCFunction)
            maker, place = owner, scope
            if owner is None or number < self.since and not whole:
                maker, place = self._maker(number)
            if maker is not None:
                self._write(grad, item, maker, place, following)
            elif self.is_older(item):
                self.tape.write(GradNode(grad, name_of(item), None, None, following, None))
            else:
                op = self.tape.next_op()
                self._write(grad, item, op, scope, following)
                self.hidden.write(grad, item, op, following)

    def _write(
        self,
        grad: GradId,
        node: Any,
        owner: OpId,
        scope: ScopeId | None,
        following: tuple[GradEdge | None, ...],
    ) -> None:
        self.owners[grad] = owner
        name = self._names.get(type(node)) or self._name_of(node)
        self.tape.write(GradNode(grad, name, owner, scope, following, None))
        self.node_recorded(grad, node)

    def _name_of(self, node: Any) -> str:
        """The name of *node*, cached by class if the class determines it."""
        name = name_of(node)
        if type(node).__name__ == name:
            self._names[type(node)] = name
        return name

    def _is_leaf(self, node: Any) -> bool:
        """Whether *node*, which has no number, is the accumulation node of a leaf.

        Nodes that only raise an error if a gradient arrives have no number either; they are treated
        as foreign nodes.
        """
        if hasattr(node, "variable"):
            return True
        self.expect_foreign_nodes()
        self.meet(node)
        return False

    def _leaf(self, node: Any) -> GradId:
        """The accumulation node of a leaf."""
        value = self.values.read(node.variable)
        known = self.leaves.get(value)
        if known is None:
            known = self.leaves[value] = self.tape.next_grad()
            self.tape.write(GradNode(known, "AccumulateGrad", None, None, (), value))
            self.made[made(GradEdge, (known, 0))] = value
        return known


def _parents_first(
    nodes: dict[int, tuple[int, Any, _Parents]], key: Callable[[Any], int]
) -> list[tuple[int, Any, _Parents]]:
    """The nodes in *nodes* by their numbers, but each after its next nodes.

    Numbers of several threads are not comparable; and a view of a tensor written in place gets
    another node, with a later number, when its ``grad_fn`` is read.
    """
    ordered: dict[int, tuple[int, Any, _Parents]] = {}
    stack = [(number, False) for number in sorted(nodes, reverse=True)]
    while stack:
        number, seen = stack.pop()
        if seen:
            ordered[number] = nodes[number]
        elif number not in ordered:
            stack.append((number, True))
            behind = [key(parent) for parent, _ in nodes[number][2] if parent is not None]
            stack.extend((item, False) for item in behind if item in nodes)
    return list(ordered.values())
