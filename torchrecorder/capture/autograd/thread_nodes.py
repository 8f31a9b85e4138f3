"""ThreadNodes: distinguish autograd nodes of several threads, which each number their nodes from 0.

In one thread a node is identified by its number. Once the program starts a thread, or a node shows
that another thread creates nodes, two nodes may have the same number. From then on, a node belongs
to this thread only if it equals the known node with its number: same name, same next nodes, and
``grad_fn`` of the same tensor. Every other node is *foreign* and identified by its ``id()``, so it
must be kept alive until the run is over.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from torch import Tensor

from torchrecorder.capture.autograd.node_facts import name_of
from torchrecorder.capture.internals.access import next_node_number
from torchrecorder.capture.state.shared_patch import SharedPatch
from torchrecorder.capture.tape import Tape, thread_of_id
from torchrecorder.capture.tensors.describe import grad_fn_of, version_of
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import GradEdge, GradId, OpId, ScopeId, ValueId
from torchrecorder.graph.nodes import GradNode

number_of = operator.methodcaller("_sequence_nr")

LEAF = 2**64 - 1
"""The ``_sequence_nr`` of every ``AccumulateGrad`` node."""


class ThreadStartHook:
    """A context that calls *on_start* when the program starts a thread."""

    def __init__(self, tape: Tape, on_start: Callable[[], None]) -> None:
        self.tape = tape
        self.on_start = on_start

    def __enter__(self) -> ThreadStartHook:
        _started.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _started.remove(self)


@contextlib.contextmanager
def _profile_function() -> Iterator[None]:
    """A context in which new threads get a profile function that calls the hooks once, and then
    replaces itself by that of the program."""
    before: Any = threading.getprofile()

    def started(frame: Any, event: str, argument: Any) -> None:
        for item in _started.users:
            with item.tape.survives_errors("threads"):
                item.on_start()
        sys.setprofile(before)
        if before is not None:
            before(frame, event, argument)

    threading.setprofile(started)
    try:
        yield
    finally:
        if threading.getprofile() is started:
            threading.setprofile(before)


_started: SharedPatch[ThreadStartHook] = SharedPatch(_profile_function)


class Walk(Protocol):
    """The part of `AutogradWalk` that its helpers use."""

    tape: Tape
    values: TensorTable
    known: dict[int, GradId]
    leaves: dict[ValueId, GradId]
    passed: dict[int, GradEdge]
    made: dict[GradEdge, ValueId]
    owners: dict[GradId, OpId]

    def edge(
        self, node: Any, index: int, owner: OpId | None, scope: ScopeId | None = None
    ) -> GradEdge: ...
    def is_recent(self, number: int) -> bool: ...
    def may_recompute(self, number: int) -> bool: ...
    def known_as(self, node: Any) -> GradId | None: ...
    def knows(self, tensor: Tensor) -> bool: ...
    def expect_foreign_nodes(self) -> None: ...
    def find_foreign(self, node: Any) -> None: ...
    def made_in_pass(self, node: Any) -> bool: ...
    def following(self, parents: Any) -> tuple[GradEdge | None, ...] | None: ...


class ThreadNodes:
    """Assigns keys to autograd nodes: the number to nodes of this thread, a negative key to foreign
    nodes."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.held: dict[int, tuple[Any, int]] = {}
        self._found: dict[GradId, GradNode] = {}
        self._numbers: dict[GradId, int] = {}
        self._holders: dict[GradId, Entry | None] = {}
        self._events = 0

    def key(self, node: Any) -> int:
        """The key of *node*."""
        held = self.held.get(id(node))
        return int(node._sequence_nr()) if held is None else held[1]

    def find_foreign(self, node: Any) -> None:
        """Add the foreign nodes among *node* and the nodes behind it."""
        stack = [node]
        while stack:
            node = stack.pop()
            if id(node) not in self.held and self._is_foreign(node):
                self.add_foreign(node)
                stack.extend(parent for parent, _ in node.next_functions if parent is not None)

    def add_foreign(self, node: Any) -> int:
        """Add *node* as foreign, and keep it alive; returns its key."""
        self.held[id(node)] = node, -1 - len(self.held)
        return self.held[id(node)][1]

    def import_nodes(self, node: Any, other: Walk) -> None:
        """Add *node* and the nodes behind it that *other* has recorded, with their ids there.

        Only the first thread, which usually runs backward, goes further than *node*.
        """
        self.walk.expect_foreign_nodes()
        own, stack = self.walk.tape.number, [node]
        while stack:
            node = stack.pop()
            known = None if id(node) in self.held else other.known_as(node)
            if known is not None and thread_of_id(known) != own and not hasattr(node, "variable"):
                self.walk.known[self.add_foreign(node)] = known
                if own == 0:
                    stack.extend(item for item, _ in node.next_functions if item is not None)

    def check(self, node: Any) -> None:
        """Expect foreign nodes from now on if *node* shows that another thread creates nodes."""
        if self._shows_another(node):
            self.walk.expect_foreign_nodes()
            self.find_foreign(node)

    def _shows_another(self, node: Any) -> bool:
        """Whether *node*, or one behind it, has a number that this thread cannot have assigned."""
        known, stack, seen = self.walk.known, [node], {}
        while stack:
            node = stack.pop()
            number = int(node._sequence_nr())
            if number == LEAF or number in self.walk.passed or id(node) in seen:
                continue
            seen[id(node)] = node
            if number in known:
                if not self._is_same(node, number):
                    return True
                continue
            behind = [parent for parent, _ in node.next_functions if parent is not None]
            later = [item for item in map(number_of, behind) if number < item < LEAF]
            if number >= next_node_number() or not known.keys().isdisjoint(later):
                return True
            stack.extend(behind)
        return False

    def _is_foreign(self, node: Any) -> bool:
        number = int(node._sequence_nr())
        walk = self.walk
        if number == LEAF:
            return not hasattr(node, "variable")
        if number in walk.passed:
            return False
        if number not in walk.known:
            return not walk.is_recent(number)
        if not self._is_same(node, number):
            return True
        return walk.may_recompute(number) and self._holder(walk.known[number]) is None

    def numbers(self) -> dict[int, int]:
        """The numbers of foreign nodes in their threads, by key."""
        return {key: number_of(node) for node, key in self.held.values()}

    def clear(self) -> None:
        """Release all nodes."""
        self.held.clear()
        self._holders.clear()

    def _is_same(self, node: Any, number: int) -> bool:
        """Whether *node* equals the known node with this *number*."""
        self._catch_up()
        grad = self.walk.known[number]
        found = self._found.get(grad)
        parents = node.next_functions
        if found is None or len(parents) != len(found.next):
            return False
        if name_of(node) != found.name:
            return False
        if not all(map(self._leads, found.next, parents)):
            return False
        holder = self._holder(grad)
        return holder is None or grad_fn_of(holder) is node

    def _leads(self, edge: GradEdge | None, parent: tuple[Any, int]) -> bool:
        """Whether the recorded *edge* is *parent*, an item of ``next_functions``."""
        node, index = parent
        if edge is None or node is None:
            return edge is None and node is None
        walk = self.walk
        number = self.key(node)
        if number == LEAF:
            value = walk.values.peek(node.variable)
            return value is not None and walk.leaves.get(value) == edge.grad
        if number in walk.passed and walk.passed[number] == edge:
            return True
        return edge.index == index and self._numbers.get(edge.grad) == number

    def _holder(self, grad: GradId) -> Tensor | None:
        """A living tensor whose ``grad_fn`` is the node *grad*; None from the first time that there
        is none."""
        value = self.walk.made.get(GradEdge(grad, 0))
        if value is None:
            return None
        entry = self._holders.get(grad)
        tensor = None if entry is None else _tensor_of(entry, value)
        if tensor is None and (entry is not None or grad not in self._holders):
            for entry in list(self.walk.values.entries.values()):
                tensor = _tensor_of(entry, value)
                if tensor is not None:
                    break
            self._holders[grad] = None if tensor is None else entry
        return tensor

    def _catch_up(self) -> None:
        """Read the events since the last call."""
        events = self.walk.tape.events
        for position in range(self._events, len(events)):
            event = events[position]
            if isinstance(event, GradNode):
                self._found[event.id] = event
        self._events = len(events)
        known = self.walk.known
        for number, grad in itertools.islice(known.items(), len(self._numbers), None):
            self._numbers[grad] = number


def _tensor_of(entry: Entry, value: ValueId) -> Tensor | None:
    """The tensor of *entry*, if it exists and has this value; an entry under construction has none.
    """
    tensor = entry() if getattr(entry, "value", None) == value else None
    return tensor if tensor is not None and version_of(tensor) == entry.version else None
