"""AutogradWalk: walk ``grad_fn.next_functions``, and find the op that owns each autograd node.

Autograd numbers its nodes when it creates them (``_sequence_nr``, one counter per thread). An op
owns the nodes that were numbered while it ran. A node without an owner was created where the
function mode sees no calls (in scripted or compiled code, C++ or a custom function): it becomes a
hidden op, see `HiddenOps`. ``AccumulateGrad`` nodes have no number; their leaf identifies them.

No node is kept after the walk, because a node keeps the whole graph behind it alive.
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
from torchrecorder.capture.tensors.describe import grad_fn_of, is_leaf
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import GradEdge, GradId, OpId, ScopeId, ValueId, new_tuple
from torchrecorder.graph.nodes import GradNode

_Parents = tuple[tuple[Any, int], ...]
"""The ``next_functions`` of a node: nodes or None, with an input index."""


_FEW = 4
"""This number of autograd nodes is written without `AutogradWalk._gather`."""


class AutogradWalk:
    """The known autograd nodes, with their owners, and the values whose ``grad_fn`` they are."""

    def __init__(self, tape: Tape, values: TensorTable) -> None:
        self.tape = tape
        self.values = values
        # the ids of nodes, by key: the number, or another key; see `ThreadNodes`
        self.known: dict[int, GradId] = {}
        # the ids of ``AccumulateGrad`` nodes, by the value of the leaf
        self.leaves: dict[ValueId, GradId] = {}
        # for nodes of the recorder's aliases, by key, the edges that they stand for
        self.passed: dict[int, GradEdge] = {}
        self.made: dict[GradEdge, ValueId] = {}  # the value of each output of a forward
        self.owners: dict[GradId, OpId] = {}  # the op that created each node
        self._names: dict[type, str] = {}
        self.start = self.since = next_node_number()  # nodes from before have lower numbers
        self.engine_start = 0  # the same in the recorded thread of the engine
        self.recomputes = False
        self.starts: list[int] = []
        self.spans: list[tuple[int, OpId, ScopeId | None]] = []
        self.node_recorded: Callable[[GradId, Any], None] | None = None
        self.unpacks: Callable[[], bool] = lambda: False  # whether a node may unpack saved tensors
        self.foreign_nodes = ThreadNodes(self)
        self.hidden = HiddenOps(self)
        self.key: Callable[[Any], int] = number_of
        self.find_foreign: Callable[[Any], None] = self.foreign_nodes.check

    def expect_foreign_nodes(self) -> None:
        """From now on, expect nodes of other threads, which may have equal numbers."""
        self.key, self.find_foreign = self.foreign_nodes.key, self.foreign_nodes.find_foreign

    def import_nodes(self, node: Any, other: AutogradWalk) -> None:
        """Add *node* and the nodes behind it, which *other* has recorded in its thread."""
        self.foreign_nodes.import_nodes(node, other)

    def clear(self) -> None:
        """Remove all nodes, and release those that are kept alive."""
        self.foreign_nodes.clear()
        for found in (self.known, self.leaves, self.passed, self.made, self.owners):
            found.clear()

    def custom_backward(self) -> str | None:
        """The name of the custom ``autograd.Function`` whose backward this thread runs, or None."""
        node = current_node()
        return name_of(node) if isinstance(node, BackwardCFunction) else None

    def is_in_pass(self) -> bool:
        """Whether this thread runs a part of a backward pass: of a custom function, or forward
        again, for the saved tensors of a node."""
        return self.custom_backward() is not None or current_node() is not None and self.unpacks()

    def made_in_pass(self, node: Any) -> bool:
        """Whether the running part of a backward pass has created *node*."""
        is_new = self.since == LEAF or self.is_recent(self.key(node))
        return is_new and self.is_in_pass()

    def is_older(self, node: Any) -> bool:
        """Whether *node* is from before the run; one without a number, from before the first op."""
        number = self.key(node)
        if number < 0 and node._sequence_nr() == LEAF:
            return not self.starts and self.since == self.start
        return 0 <= number < self.start

    def is_recent(self, number: int) -> bool:
        """Whether the current or last op may have created the node with this number."""
        return self.since <= number < next_node_number()

    def _maker(self, number: int) -> tuple[OpId | None, ScopeId | None]:
        """The op and scope that ran when autograd assigned *number*."""
        place = bisect.bisect_right(self.starts, number) - 1
        if place >= 0 and number < self.spans[place][0]:
            return self.spans[place][1:]
        return None, None

    def begin(self) -> None:
        """An op begins: it owns the nodes that are numbered from now on."""
        self.since = next_node_number()
        if self.tape.engine_thread is not None:
            self.find_numbering()

    def find_numbering(self) -> None:
        """A module or function begins: in a thread of the engine, it creates nodes with numbers of
        that thread, which nodes of the forward pass may have too."""
        if self.tape.engine_thread is not None and is_grad_enabled():
            self.number_elsewhere()
            self.recomputes = True

    def number_elsewhere(self) -> None:
        """Until the next op begins, new nodes have numbers of a thread of the engine."""
        self.expect_foreign_nodes()
        self.since = LEAF

    def may_recompute(self, number: int) -> bool:
        """Whether the node with this number may be from a recomputation in this engine thread."""
        return self.recomputes and self.engine_start <= number < next_node_number()

    def end(self, op: OpId) -> None:
        """The op ended: it owns the nodes numbered since it began, also those found later."""
        number = next_node_number()
        if number > self.since:
            self.starts.append(self.since)
            self.spans.append((number, op, self.tape.scope))

    def expect_unrecorded(self, made: Iterable[Tensor]) -> None:
        """Until the next op begins, unknown nodes behind the tensors *made* belong to the op."""
        for node in map(grad_fn_of, made):
            if node is not None:
                self.find_foreign(node)
                self.since = 0

    def knows(self, tensor: Tensor) -> bool:
        """Whether ``grad_fn`` of *tensor* is known or None."""
        node = grad_fn_of(tensor)
        if node is not None:
            self.find_foreign(node)
        return node is None or self.key(node) in self.known

    def grad_of(self, node: Any) -> GradId | None:
        """The id of *node*; a new one has no owner. None for a node that the recorder created."""
        if self.key(node) in self.passed:
            return None
        return self.edge(node, 0, None).grad

    def edge_behind(self, tensor: Tensor) -> GradEdge | None:
        """The node and input index that receive the gradient of *tensor*, or None."""
        node = grad_fn_of(tensor)
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
        """Map ``grad_fn`` of *alias*, which the recorder created, to that of *tensor*."""
        if alias.grad_fn is None:
            return
        if tensor.grad_fn is not None:
            edge = self.edge(tensor.grad_fn, tensor.output_nr, None)
        else:
            ((leaf, index),) = alias.grad_fn.next_functions
            edge = self.edge(leaf, index, None)
        self.passed[self.key(alias.grad_fn)] = edge

    def edge_of(self, tensor: Tensor, producer: OpId) -> GradEdge | None:
        """The edge to ``grad_fn`` of *tensor*, or None; *producer* is the owner of a new node."""
        node = grad_fn_of(tensor)
        if node is None:
            return None
        if self.since == LEAF:
            self.find_foreign(node)
        number = self.key(node)
        known = self.known.get(number)
        if known is None and number in self.passed:
            return self.passed[number]
        if known is None and self.since <= number < LEAF:
            made: dict[int, Any] | None = {} if self.key is number_of else None  # of one thread
            known = self._claim_usual(number, node, producer, made)
        if known is None:
            return self.edge(node, tensor.output_nr, producer)
        return new_tuple(GradEdge, (known, tensor.output_nr))

    def _claim_usual(
        self, number: int, node: Any, owner: OpId, made: dict[int, Any] | None
    ) -> GradId | None:
        """Write a node, after the few unknown ones of the same *owner* behind it; None if there are
        many or others. *made*: those that were reached so far, by number; nodes are added to it."""
        if made is not None:
            made[number] = node
        following = self.following(node.next_functions, owner, made)
        if following is None:
            return None
        grad = self.known[number] = self.tape.next_grad()
        self._write(grad, node, owner, self.tape.scope, following)
        return grad

    def following(
        self, parents: _Parents, owner: OpId | None = None, made: dict[int, Any] | None = None
    ) -> tuple[GradEdge | None, ...] | None:
        """The recorded edges of *parents* (``next_functions``); None if a node is unknown, also to
        `_claim_usual` with *made*."""
        following: list[GradEdge | None] = []
        for parent, index in parents:
            if parent is None:
                following.append(None)
                continue
            number = self.key(parent)
            known = self.known.get(number)
            if made and made.get(number, parent) is not parent:
                self._add_foreign(parent)
                return None
            if known is not None:
                following.append(new_tuple(GradEdge, (known, index)))
            elif number == LEAF and self._is_leaf(parent):
                following.append(new_tuple(GradEdge, (self._leaf(parent), index)))
            elif number in self.passed:
                following.append(self.passed[number])
            else:
                few = made is not None and len(made) < _FEW
                if few and owner is not None and self.since <= number < LEAF:
                    known = self._claim_usual(number, parent, owner, made)
                if known is None:
                    return None
                following.append(new_tuple(GradEdge, (known, index)))
        return tuple(following)

    def edge(
        self, node: Any, index: int, owner: OpId | None, scope: ScopeId | None = None
    ) -> GradEdge:
        """The edge to *node*; *owner* and *scope* are those of a new node."""
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
        """*node* and the unknown nodes behind it, each after its next nodes."""
        found: dict[int, tuple[int, Any, _Parents]] = {}
        stack: list[tuple[Any, int]] = [(node, LEAF)]  # with the number of the node before it
        ascending = True
        while stack:
            node, before = stack.pop()
            number = self.key(node)
            if number == LEAF:
                if self._is_leaf(node):
                    continue
                number = self.key(node)  # now of a foreign node
            if number in found and found[number][1] is not node:  # equal numbers of two threads
                number = self._add_foreign(node)
            elif number in self.known and self.find_foreign == self.foreign_nodes.find_foreign:
                self.find_foreign(node)
                number = self.key(node)
            if number in self.known or number in self.passed:
                continue
            ascending = ascending and number < before
            if number not in found:
                parents = node.next_functions
                found[number] = (number, node, parents)
                stack.extend([(parent, number) for parent, _ in parents if parent is not None])
        if ascending:
            return [found[number] for number in sorted(found)]
        return _parents_first(found, self.key)

    def _add_foreign(self, node: Any) -> int:
        """Add *node*, which has the number of another: it is of another thread. Returns its key."""
        self.expect_foreign_nodes()
        return self.foreign_nodes.add_foreign(node)

    def _claim(self, node: Any, owner: OpId | None, scope: ScopeId | None) -> None:
        """Write *node* and the unknown nodes behind it, with their owners: ops, or hidden ops."""
        found = self._gather(node)
        for number, _, _ in found:
            self.known[number] = self.tape.next_grad()
        for number, item, parents in found:
            following = self.following(parents)
            assert following is not None  # their ids were assigned above
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
        if self.node_recorded is not None:
            self.node_recorded(grad, node)

    def _name_of(self, node: Any) -> str:
        """The name of *node*, cached by class if all nodes of the class have it."""
        name = name_of(node)
        if type(node).__name__ == name:
            self._names[type(node)] = name
        return name

    def _is_leaf(self, node: Any) -> bool:
        """Whether *node*, which has no number, is the ``AccumulateGrad`` node of a leaf.

        Nodes that raise an error when they run have no number either; they are treated as foreign.
        """
        if hasattr(node, "variable"):
            return True
        self.expect_foreign_nodes()
        self.find_foreign(node)
        return False

    def _leaf(self, node: Any) -> GradId:
        """The id of an ``AccumulateGrad`` node, which is written if it is new."""
        value = self.values.read(node.variable)
        known = self.leaves.get(value)
        if known is None:
            known = self.leaves[value] = self.tape.next_grad()
            self.tape.write(GradNode(known, "AccumulateGrad", None, None, (), value))
            self.made[new_tuple(GradEdge, (known, 0))] = value
        return known


def _parents_first(
    nodes: dict[int, tuple[int, Any, _Parents]], key: Callable[[Any], int]
) -> list[tuple[int, Any, _Parents]]:
    """*nodes* in topological order, each after its next nodes; otherwise by number.

    Numbers alone are not sufficient: those of several threads are not comparable, and a view of a
    tensor that was written in place gets a new node when its ``grad_fn`` is read.
    """
    ordered: dict[int, tuple[int, Any, _Parents]] = {}
    stack = sorted(nodes, reverse=True)
    while stack:
        number = stack[-1]
        behind = [key(parent) for parent, _ in nodes[number][2] if parent is not None]
        behind = [item for item in behind if item in nodes and item not in ordered]
        if behind:
            stack += behind
        else:
            ordered[number] = nodes[number]
            stack.pop()
    return list(ordered.values())
