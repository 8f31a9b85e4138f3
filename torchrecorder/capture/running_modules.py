"""RunningModules: the modules that are running, in forward or backward.

In forward, these are the scopes on the stack of the tape. In backward, autograd knows the node that
the current thread runs, also during hooks of the user, and each node has the scope of its forward.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from torchrecorder.build import Event
from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.internals.access import current_graph_task
from torchrecorder.capture.scope import scopes_around
from torchrecorder.capture.tape import Tape
from torchrecorder.events import GradEdge, GradId, ScopeId
from torchrecorder.graph.call_paths import CallPaths
from torchrecorder.graph.nodes import GradNode, GradRun, Module, Scope


class RunningModules:
    """Finds the running modules."""

    def __init__(self, tape: Tape, backward: BackwardRuns) -> None:
        self.tape = tape
        self.backward = backward
        self._read = 0
        self._reading = threading.RLock()
        self._entered: dict[ScopeId, Scope] = {}
        self._call_paths = CallPaths()
        self._homes: dict[GradId, ScopeId | None] = {}
        self._next: dict[GradId, tuple[GradEdge | None, ...]] = {}
        self._feeders: dict[GradId, ScopeId | None] = {}  # scope of a node before it

    @property
    def is_backward(self) -> bool:
        """Whether this thread runs a backward pass."""
        return current_graph_task() != -1

    @property
    def scopes(self) -> tuple[str, ...]:
        """Dotted paths of the running module calls, outermost first.

        A thread that runs no backward pass gets those of the recorded thread.
        """
        stack = self.tape.stack
        recomputes = bool(stack) and stack[-1].event.recompute  # a checkpointed call
        if self.is_backward and not recomputes:
            return self.paths(self.home(self.backward.current() or self.backward.last_started()))
        return self.paths(self.tape.scope)

    def paths_of_call(self, call: Scope) -> Sequence[str]:
        """The paths of *call*, several if its module is shared; none for a region without a path.
        """
        self._catch_up()
        if call.path:
            return self._call_paths[call.id]
        return (call.name,) if call.parent is None and call.name else ()

    def home(self, grad: GradId | None) -> ScopeId | None:
        """The scope in which the forward of the node *grad* ran; if unknown, that of a node before
        it in backward."""
        if grad is None:
            return None
        self._catch_up()
        home = self._homes.get(grad)
        return home if home is not None else self._feeders.get(grad)

    def paths(self, scope: ScopeId | None) -> tuple[str, ...]:
        """Paths of *scope* and the modules around it, outermost first."""
        return tuple([path for path, *_ in reversed(self._paths_around(scope))])

    def all_paths(self, scope: ScopeId | None) -> list[str]:
        """All paths of *scope* and of the modules around it, also those of shared modules."""
        return [path for paths in self._paths_around(scope) for path in paths]

    def _paths_around(self, scope: ScopeId | None) -> list[Sequence[str]]:
        """The paths of *scope*, and of each of the modules around it, innermost first."""
        self._catch_up()
        found = map(self.paths_of_call, scopes_around(self._entered, scope))
        return [paths for paths in found if paths]

    def _catch_up(self) -> None:
        """Read the events since the last call."""
        with self._reading:  # may be called from other threads
            events = self.tape.events
            while self._read < len(events):
                self._take(events[self._read])
                self._read += 1

    def _take(self, event: Event) -> None:
        if isinstance(event, (Module, Scope)):
            self._call_paths.add(event)
        if isinstance(event, Scope):
            self._entered[event.id] = event
        elif isinstance(event, GradNode):
            self._homes[event.id], self._next[event.id] = event.scope, event.next
            for edge in event.next:
                if edge is not None:
                    self._feeders.setdefault(edge.grad, event.scope)
        elif isinstance(event, GradRun):
            for edge in self._next.get(event.grad, ()):
                if edge is not None:
                    self._feeders[edge.grad] = self._homes[event.grad]
