"""BackwardRuns: hooks on autograd nodes that record the backward pass as it runs.

When ``backward()`` or ``grad()`` is called, every node that it reaches gets a pre-hook and a
post-hook, which are removed when the call ends. A hook keeps only the id of its node, because a
reference to the node would keep the whole graph alive. Some nodes get only the pre-hook, and end
when the next node of their thread begins: ``AccumulateGrad``, and nodes of custom functions where a
post-hook changes their behavior.

Nodes of a GPU and their hooks run in a thread of the engine, while the recorded thread waits. That
thread is recorded in its place. If nodes of several devices run at the same time, hooks and
recomputation are recorded in only one of their threads.

If a node runs a backward pass itself (a reentrant checkpoint), only the accumulation into leaves is
recorded.
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils.hooks import RemovableHandle

from torchrecorder.capture.autograd.node_facts import behind, is_frozen, roots, wanted
from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.hooks.cleared_gradients import HookedLeaves
from torchrecorder.capture.hooks.failing_node import (
    EngineCall, NextNode, failed_call, home, node_of_check,
)
from torchrecorder.capture.internals.access import (
    ACCUMULATION, DisableTorchFunction, current_node, next_node_number, takes_post_hook,
)
from torchrecorder.capture.internals.engine import COMPILED_BACKWARD
from torchrecorder.capture.scope import Gradients
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.sizes import gradient_facts
from torchrecorder.events import GradId, Gradient, GradNodeMade, OpId, ValueId
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun


class BackwardRuns:
    """Records the autograd nodes of the backward passes that this thread starts."""

    def __init__(self, tape: Tape, autograd: AutogradWalk) -> None:
        self.tape = tape
        self.autograd = autograd
        autograd.unpacks = lambda: any(run.in_node or run.inner for run in self.running[-1:])
        self.running: list[RunningPass] = []
        self._makers: dict[int, list[tuple[int, GradId]]] = {}
        self._forms: dict[Any, Gradient] = {}
        self.left: Callable[[], None] = lambda: None
        self.file: Callable[[str], str | None] = lambda filename: None

    def behind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """All nodes that a call of ``backward()`` or ``grad()`` runs, from its tensors on."""
        with DisableTorchFunction():
            return [node for node in behind(roots(args, kwargs)) if not is_frozen(node)]

    def begin(
        self, op: OpId, nodes: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """A call of ``backward()`` or ``grad()`` begins: install hooks on its *nodes*.

        There are none inside a transformation of ``torch.func``, whose graph is behind wrappers.
        """
        run = RunningPass(self, next(self.tape.backward_runs), op, bool(kwargs.get("create_graph")))
        if nodes:
            run.graph = roots(args, kwargs), wanted(args, kwargs)
        self.running.append(run)
        self.autograd.values.gradients.begin(op, self.tape.next_value.count)
        with DisableTorchFunction():
            for node in nodes:
                grad = self.autograd.grad_of(node)
                if grad is not None:
                    run.add_hooks(grad, node)
                    for observer in self.tape.observers:
                        observer.node_hooked(grad, node)

    def fail(self, op: OpId, error: BaseException) -> None:
        """The call raised *error*: record the node that failed."""
        if not self.running or self.running[-1].op != op:
            return
        run = self.running[-1]
        with DisableTorchFunction():
            call = failed_call(error)
            run.failing = grad = run.failing_node(error, call)
        self.end(op, None)
        if grad is not None:
            nodes = (event for event in self.tape.events if isinstance(event, GradNode))
            self.tape.fail_backward(error, grad, *home(grad, nodes))
        elif call or self.tape.failed == (id(error), type(error)):  # in a hook between nodes
            self.tape.fail_backward(error, None, op, None)

    def end(self, op: OpId, seconds: float | None) -> None:
        """The call returned after *seconds*; None if it raised."""
        if self.running and self.running[-1].op == op:
            run, failed = self.running[-1], seconds is None
            run.leave()
            self.running.pop()
            if not self.running:
                self._leave_engine()
            self.autograd.values.gradients.end(op, self.tape.next_value.count)
            facts = run.number, op, seconds, run.create_graph, failed, tuple(run.replacements)
            self.tape.write(BackwardRun(*facts, run.hooked.cleared(self.autograd.values.peek)))
            self.left()

    def abandon(self, op: OpId | None) -> None:
        """Remove the hooks of the call *op*, after an error of the recorder."""
        if self.running and self.running[-1].op == op:
            self.running.pop().remove_hooks()
            self._leave_engine()

    def _leave_engine(self) -> None:
        """The engine is done: the recorded thread continues, with its own node numbers."""
        self.tape.engine_thread = None
        self.autograd.recomputes = False

    def finish(self) -> None:
        """At the end of the run, write which nodes were created while another node ran."""
        for run in self.running:
            run.remove_hooks()
        if not self._makers:
            return
        foreign = self.autograd.foreign_nodes.numbers()
        for key, grad in self.autograd.known.items():
            for thread, makers in self._makers.items():
                number = key if thread == self.tape.thread else foreign.get(key, -1)
                place = bisect.bisect_right(makers, number, key=itemgetter(0)) - 1
                if place >= 0 and makers[place][1]:
                    self.tape.write(GradNodeMade(grad, makers[place][1]))
                    break

    def current(self) -> GradId | None:
        """The recorded node that this thread is running, or None."""
        node = current_node()
        return None if node is None else self.autograd.known_as(node)

    def last_started(self) -> GradId | None:
        """The running node that began last, or None."""
        return self.running[-1].last_started() if self.running else None

    def makes(self, grad: GradId | str) -> None:
        """The node *grad* creates the nodes that this thread numbers from now on; ``""``: none."""
        makers = self._makers.setdefault(threading.get_ident(), [])
        makers.append((int(next_node_number()), GradId(grad)))

    def describe(self, gradients: Sequence[Tensor | None]) -> tuple[Gradient | None, ...]:
        """Shape, dtype, device and bytes of each gradient."""
        return tuple([self._facts(one) if isinstance(one, Tensor) else None for one in gradients])

    def _facts(self, gradient: Tensor) -> Gradient:
        """The facts about a gradient; equal facts share an object."""
        try:
            key = gradient.shape, gradient.dtype, gradient.device, gradient.layout
            known = self._forms.get(key)
        except (RuntimeError, TypeError):  # a nested tensor, or symbolic sizes
            return gradient_facts(gradient)
        if known is None:
            known = gradient_facts(gradient)
            if gradient.layout is torch.strided:
                self._forms[key] = known
        return known


class RunningPass:
    """One backward pass while it runs."""

    def __init__(self, runs: BackwardRuns, number: int, op: OpId, create_graph: bool) -> None:
        self.runs = runs
        self.tape = runs.tape
        self.number, self.op = number, op
        self.create_graph = create_graph
        self.compiled, self.order = False, 0
        self.inner: list[int] = []  # threads of the passes that its nodes run, innermost last
        self.in_node = False  # a node that may unpack saved tensors runs in a recorded thread
        self.open: dict[_NodeHooks, None] = {}  # started and not ended, in the order of starting
        self.latest: dict[int, _NodeHooks] = {}  # the last node that began, by thread
        self.graph: tuple[list[Any], list[Any]] = [], []  # root nodes, and nodes of ``inputs``
        self.failing: GradId | None = None
        self.replacements: dict[ValueId, None] = {}
        self.hooked = HookedLeaves(runs.file)
        self._handles: list[dict[GradId, list[RemovableHandle]]] = [{}]  # and of inner passes

    def add_hooks(self, grad: GradId, node: Any) -> None:
        """Install the hooks of *node*; once, also if inner passes reach it."""
        if len(self._handles) == 1 or not any(grad in hooked for hooked in self._handles):
            self._handles[-1][grad] = self._install(_NodeHooks(self, grad), node)

    def _install(self, hooks: _NodeHooks, node: Any) -> list[RemovableHandle]:
        handles, name = [node.register_prehook(hooks.before)], node.name()
        self.compiled = self.compiled or name == COMPILED_BACKWARD
        if name == ACCUMULATION:
            hooks.end_is_unseen = True
            self.hooked.add(hooks.grad, node)
        elif takes_post_hook(node):
            handles.append(node.register_hook(hooks.after))
            hooks.unpacks = not isinstance(node, BackwardCFunction)
        else:
            hooks.has_no_post_hook = hooks.end_is_unseen = True
        return handles

    def enter_inner(self) -> None:
        """A node starts an inner backward pass in this thread."""
        self.inner.append(threading.get_ident())
        self._handles.append({})

    def leave_inner(self) -> None:
        """The inner pass ended: remove its hooks, as the next one may have other leaf nodes."""
        self.inner.pop()
        self._remove(self._handles.pop())

    def _remove(self, handles: dict[GradId, list[RemovableHandle]]) -> None:
        for handle in itertools.chain(*handles.values()):
            handle.remove()
        handles.clear()

    def is_alone(self, here: int) -> bool:
        """Whether no other thread than *here* runs a node, as far as ends of nodes are known."""
        return all(item.thread == here or item.has_no_post_hook for item in self.open)

    def is_in_node(self, here: int) -> bool:
        """Whether thread *here* runs a node other than ``AccumulateGrad``."""
        mine = (item for item in self.open if item.thread == here)
        return any(item.has_no_post_hook or not item.end_is_unseen for item in mine)

    def enters(self, here: int) -> bool:
        """The engine runs in thread *here*, which is recorded if no other thread runs a node."""
        if not self.tape.records(here) and self.is_alone(here):
            self.tape.engine_thread = here
            self.runs.autograd.engine_start = next_node_number()
            if self.create_graph:
                self.runs.autograd.number_elsewhere()
        return self.tape.records(here)

    def track_gradients(self, gradients: Gradients) -> None:
        """Store *gradients* of a node, which a hook may keep, or may have replaced."""
        values = self.runs.autograd.values
        for item in [item for item in gradients if isinstance(item, Tensor)]:
            values.gradients.track(item, self.op)
            entry = values.entries.get(id(item))
            if entry is not None and entry.producer != self.op:
                self.replacements[entry.value] = None

    def remove_hooks(self) -> None:
        """Remove the hooks from all nodes."""
        for handles in self._handles:
            self._remove(handles)
        self.graph = [], []

    def last_started(self) -> GradId | None:
        """The running node that began last, or None."""
        return next((item.grad for item in reversed(self.open)), None)

    def failing_node(self, error: BaseException, call: EngineCall | None) -> GradId | None:
        """The node that failed with *error*: the node itself, PyTorch's check of its gradients,
        or a hook before it, which is the *call* of the engine."""
        events, last = self.tape.events, next(reversed(self.open), None)
        met = {item.grad for item in (*self.open, *self.latest.values())}
        found = node_of_check(error, met, events)
        if found is not None or call is None:
            return found or self.last_started()
        if last is not None and (call.is_in_node or not last.end_is_unseen):
            return last.grad
        runs = (item for item in events if isinstance(item, GradRun))
        met |= {item.grad for item in runs if item.run == self.number}
        following = NextNode(*self.graph, self.runs.autograd.known_as, met)
        return following.with_hook(call, self.last_started())

    def leave(self) -> None:
        """Remove the hooks, and close the nodes that are still open."""
        self.remove_hooks()
        now = self.tape.time()
        for hooks in dict.fromkeys([*self.open, *self.latest.values()]):
            hooks.close(hooks.ended or now, failed=hooks.grad == self.failing)
        if self.create_graph:
            self.runs.makes("")


@dataclass(eq=False, slots=True)
class _NodeHooks:
    """The pre-hook and post-hook of a node. Both return None: a result would replace gradients.

    The time of a node includes that in which the engine then adds its gradients to others.
    """

    run: RunningPass
    grad: GradId
    has_no_post_hook: bool = False
    end_is_unseen: bool = False
    unpacks: bool = False
    thread: int = 0
    order: int = 0
    started: float = 0.0
    ended: float = 0.0
    given: tuple[Gradient | None, ...] = ()
    gave: tuple[Gradient | None, ...] = ()
    done: bool = False

    def before(self, given: Gradients) -> None:
        """The pre-hook: the node is about to run, on the gradients *given*."""
        try:
            tape = self.run.tape
            here = self.thread = threading.get_ident()
            entered = tape.clock()
            if recorded := self.run.enters(here):
                tape.pause()
            self._begin(given, here, entered - tape.overhead, recorded)
            if recorded:
                tape.resume()
            else:
                tape.overhead += tape.clock() - entered
            self.started = tape.time()
        except Exception as error:
            self.run.tape.record_error("backward", error)

    def _begin(self, given: Gradients, here: int, now: float, recorded: bool) -> None:
        run = self.run
        run.hooked.ran.add(self.grad)
        if here in run.inner:
            self._run_inside(given)
            return
        if recorded:
            run.in_node = self.unpacks
        if here in run.latest:
            run.latest[here].close(now)
        run.latest[here] = self
        self.order, run.order = run.order, run.order + 1
        run.open[self] = None
        run.track_gradients(given)
        with DisableTorchFunction():
            self.given = run.runs.describe(given)
            for observer in run.tape.observers:
                observer.node_begins(self.grad, run.number, given)
        if run.create_graph:
            run.runs.makes(self.grad)

    def _run_inside(self, given: Gradients) -> None:
        """Record ``AccumulateGrad`` in an inner pass; its time is that of the node around it."""
        run, tape = self.run, self.run.tape
        order, run.order = run.order, run.order + 1
        run.track_gradients(given)
        with DisableTorchFunction():
            facts = run.runs.describe(given)
            for observer in tape.observers:
                observer.node_runs_inside(self.grad, run.number, given)
        tape.write(GradRun(self.grad, run.number, order, None, facts, (), False))

    def after(self, gave: Gradients, given: Gradients) -> None:
        """The post-hook: the node has computed the gradients *gave*."""
        try:
            tape = self.run.tape
            here = threading.get_ident()
            self.ended = tape.time()
            entered = tape.clock()
            if recorded := tape.records(here):
                tape.pause()
                self.run.in_node = False
            self._end(gave)
            if here != tape.thread:
                self.close(self.ended)  # the engine waits between nodes
                if self.run.create_graph:
                    self.run.runs.makes("")
            if recorded:
                tape.resume()
            else:
                tape.overhead += tape.clock() - entered
        except Exception as error:
            self.run.tape.record_error("backward", error)

    def _notify_end(self) -> None:
        for observer in reversed(self.run.tape.observers):
            observer.node_ended(self.grad, self.run.number)

    def _end(self, gave: Gradients) -> None:
        with DisableTorchFunction():
            self._notify_end()
            self.gave = self.run.runs.describe(gave)
        self.run.track_gradients(gave)
        self.run.open.pop(self, None)

    def close(self, now: float, *, failed: bool = False) -> None:
        """Write the run of the node, which ended at the time *now*, once."""
        self.run.open.pop(self, None)
        if self.done:
            return
        self.done = True
        if self.has_no_post_hook:
            self._notify_end()
        seconds = None if failed else max(0.0, now - self.started)
        run = self.run
        ran = GradRun(self.grad, run.number, self.order, seconds, self.given, self.gave, failed)
        run.tape.write(ran)
