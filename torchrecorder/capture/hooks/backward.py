"""BackwardRuns: hooks on grad nodes that record the backward pass as it runs.

When ``backward()`` or ``grad()`` is called, every node behind its roots gets a pre-hook and a
post-hook, which are removed when the call ends. A hook only keeps the id of its node, because a
reference to the node would keep the whole graph alive. Some nodes get only the pre-hook, and end
when the next node of their thread begins: accumulation nodes, and those of custom functions if a
post-hook changes their behaviour.

Nodes of a GPU run in a thread of the engine, and their hooks too, while the recorded thread waits.
That thread is recorded in its place. If nodes of several devices run at the same time, hooks and
recomputation are recorded in one of their threads only.

Of a pass that a node runs itself (a reentrant checkpoint), what it adds to leaves is recorded.
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

from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.hooks.failing_node import (
    EngineCall, NextNode, failed_call, home, node_of_check,
)  # fmt: skip
from torchrecorder.capture.autograd.node_facts import behind, creates_graph, roots, wanted
from torchrecorder.capture.internals.access import (
    ACCUMULATION, DisableTorchFunction, current_node, next_node_number, takes_post_hook,
)  # fmt: skip
from torchrecorder.capture.internals.engine import COMPILED_BACKWARD
from torchrecorder.capture.scope import Given
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import form_of
from torchrecorder.events import GradId, GradNodeMade, Gradient, OpId, ValueId
from torchrecorder.graph.nodes import BackwardRun, GradRun


class BackwardRuns:
    """Records every node of the backward passes that this thread starts."""

    def __init__(self, tape: Tape, autograd: AutogradWalk) -> None:
        self.tape = tape
        self.autograd = autograd
        self.running: list[RunningPass] = []
        self._makers: dict[int, list[tuple[int, GradId]]] = {}
        self._forms: dict[Any, Gradient] = {}
        self.left: Callable[[], None] = lambda: None

    def behind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """All nodes behind the roots of a call of ``backward()`` or ``grad()``."""
        with DisableTorchFunction():
            return [*behind(roots(args, kwargs))]

    def begin(
        self, op: OpId, nodes: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """A call of ``backward()`` or ``grad()`` begins: put hooks on all *nodes* behind its
        roots; none for a transformation of ``torch.func``, whose graph is behind wrappers."""
        number = next(self.tape.backward_runs)
        run = RunningPass(self, number, op, bool(creates_graph(args, kwargs)))
        if nodes:
            run.graph = roots(args, kwargs), wanted(args, kwargs)
        self.running.append(run)
        self.autograd.values.gradients.begin(op, self.tape.next_value.count)
        with DisableTorchFunction():
            for node in nodes:
                grad = self.autograd.grad_of(node)
                if grad is not None:
                    run.listen(grad, node)
                    for observer in self.tape.observers:
                        observer.node_met(grad, node)

    def fail(self, op: OpId, error: BaseException) -> None:
        """The call raised: record the node to which the failure belongs."""
        if not self.running or self.running[-1].op != op:
            return
        run = self.running[-1]
        with DisableTorchFunction():
            call = failed_call(error)
            run.failing = grad = run.failing_node(error, call)
        self.end(op, None)
        if grad is not None:
            owner, scope = home(grad, self.tape.events)
            self.tape.fail_backward(error, grad, owner, scope)
        elif call or self.tape.failed == (id(error), type(error)):  # in a hook between nodes
            self.tape.fail_backward(error, None, op, None)

    def end(self, op: OpId, seconds: float | None) -> None:
        """The call returned after so many *seconds*; None if it raised."""
        if self.running and self.running[-1].op == op:
            run, failed = self.running[-1], seconds is None
            run.leave()
            self.running.pop()
            if not self.running:
                self._leave_engine()
            self.autograd.values.gradients.end(op, self.tape.next_value.count)
            facts = run.number, op, seconds, run.create_graph, failed, tuple(run.taken)
            self.tape.write(BackwardRun(*facts))
            self.left()

    def abandon(self, op: OpId | None) -> None:
        """An instrument failed at the call *op*: stop recording its backward run."""
        if self.running and self.running[-1].op == op:
            self.running.pop().remove_hooks()
            self._leave_engine()

    def _leave_engine(self) -> None:
        """The recorded thread goes on, with numbers of its own."""
        self.tape.engine = None
        self.autograd.recomputes = False

    def finish(self) -> None:
        """The recording ends: record which nodes were created while others ran."""
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
        """The recorded grad node that this thread is running, or None."""
        node = current_node()
        return None if node is None else self.autograd.known_as(node)

    def last_started(self) -> GradId | None:
        """The recorded node that began last and has not ended."""
        return self.running[-1].last_started() if self.running else None

    def makes(self, grad: GradId | str) -> None:
        """Nodes that this thread numbers from now on are created by *grad*; empty for no recorded
        node."""
        makers = self._makers.setdefault(threading.get_ident(), [])
        makers.append((int(next_node_number()), GradId(grad)))

    def forms(self, gradients: Sequence[Tensor | None]) -> tuple[Gradient | None, ...]:
        """Shape, dtype and size of each of *gradients*."""
        return tuple([self._form(one) if isinstance(one, Tensor) else None for one in gradients])

    def _form(self, gradient: Tensor) -> Gradient:
        """Shape, dtype and size of a gradient; equal ones share an object."""
        try:
            key = gradient.shape, gradient.dtype, gradient.device, gradient.layout
            known = self._forms.get(key)
        except (RuntimeError, TypeError):  # a nested tensor, or symbolic sizes
            return form_of(gradient)
        if known is None:
            known = form_of(gradient)
            if gradient.layout is torch.strided:
                self._forms[key] = known
        return known


class RunningPass:
    """One backward pass while it runs."""

    def __init__(self, runs: BackwardRuns, number: int, op: OpId, create_graph: bool) -> None:
        self.runs = runs
        self.tape = runs.tape
        self.number = number
        self.op = op
        self.create_graph = create_graph
        self.compiled = False
        self.inner: list[int] = []  # the threads of passes that its nodes run, the inner ones last
        self.in_node = False  # one that may unpack saved tensors runs in a recorded thread
        self.order = 0
        self.open: dict[_NodeHooks, None] = {}  # started and not ended, in the order of starting
        self.latest: dict[int, _NodeHooks] = {}  # the last node that began, by thread
        self.graph: tuple[list[Any], list[Any]] = [], []  # its roots, and the nodes asked for
        self.failing: GradId | None = None
        self.taken: dict[ValueId, None] = {}
        self._handles: list[dict[GradId, list[RemovableHandle]]] = [{}]  # and of inner passes

    def listen(self, grad: GradId, node: Any) -> None:
        """Put hooks on *node*, once also if inner passes reach it."""
        if len(self._handles) == 1 or not any(grad in heard for heard in self._handles):
            self._handles[-1][grad] = self._put_hooks(_NodeHooks(self, grad), node)

    def _put_hooks(self, listener: _NodeHooks, node: Any) -> list[RemovableHandle]:
        handles = [node.register_prehook(listener.before)]
        name = node.name()
        self.compiled = self.compiled or name == COMPILED_BACKWARD
        if name == ACCUMULATION:
            listener.end_is_unseen = True
        elif takes_post_hook(node):
            handles.append(node.register_hook(listener.after))
            listener.unpacks = not isinstance(node, BackwardCFunction)
        else:
            listener.has_no_post_hook = listener.end_is_unseen = True
        return handles

    def enter_inner(self) -> None:
        """A node runs a pass of its own in this thread."""
        self.inner.append(threading.get_ident())
        self._handles.append({})

    def leave_inner(self) -> None:
        """This pass ended: a leaf has another node in the next one, if no graph holds this one."""
        self.inner.pop()
        self._remove(self._handles.pop())

    def _remove(self, handles: dict[GradId, list[RemovableHandle]]) -> None:
        for handle in itertools.chain(*handles.values()):
            handle.remove()
        handles.clear()

    def is_alone(self, here: int) -> bool:
        """Whether no node is running in another thread than *here*; ends of some are not seen."""
        return all(item.thread == here or item.has_no_post_hook for item in self.open)

    def is_in_node(self, here: int) -> bool:
        """Whether a node that is no accumulation is running in thread *here*."""
        mine = (item for item in self.open if item.thread == here)
        return any(item.has_no_post_hook or not item.end_is_unseen for item in mine)

    def enters(self, here: int) -> bool:
        """The engine runs in thread *here*: record this thread, if no other one runs a node."""
        if not self.tape.records(here) and self.is_alone(here):
            self.tape.engine = here
            self.runs.autograd.engine_start = next_node_number()
            if self.create_graph:
                self.runs.autograd.number_elsewhere()
        return self.tape.records(here)

    def meet(self, gradients: Given) -> None:
        """A node takes or gives *gradients*, which a hook may keep or may have replaced."""
        values = self.runs.autograd.values
        for item in gradients:
            if isinstance(item, Tensor):
                values.gradients.meet(item, self.op)
                entry = values.entries.get(id(item))
                if entry is not None and entry.producer != self.op:
                    self.taken[entry.value] = None

    def remove_hooks(self) -> None:
        """Take the hooks off the nodes again."""
        for handles in self._handles:
            self._remove(handles)
        self.graph = [], []

    def last_started(self) -> GradId | None:
        """The node that began last and has not ended."""
        return next((item.grad for item in reversed(self.open)), None)

    def failing_node(self, error: BaseException, call: EngineCall | None) -> GradId | None:
        """The node in which the pass failed with *error*, after which a check failed, or before
        which a hook did: the *call* of the engine."""
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
        """Remove the hooks; nodes that are still running failed, or are accumulations."""
        self.remove_hooks()
        now = self.tape.time()
        for listener in dict.fromkeys([*self.open, *self.latest.values()]):
            listener.close(listener.ended or now, failed=listener.grad == self.failing)
        if self.create_graph:
            self.runs.makes("")


@dataclass(eq=False, slots=True)
class _NodeHooks:
    """The two hooks on one node. They return None: other results would replace gradients.

    After a node, the engine adds its gradients to those of other nodes in the same thread; this is
    part of the node's time.
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

    def before(self, given: Given) -> None:
        """The node is about to run."""
        try:
            tape = self.run.tape
            here = self.thread = threading.get_ident()
            entered = tape.clock()
            recorded = self.run.enters(here)
            if recorded:
                tape.pause()
            self._begin(given, here, entered - tape.own, recorded)
            if recorded:
                tape.resume()
            else:
                tape.own += tape.clock() - entered
            self.started = tape.time()
        except Exception as error:
            self.run.tape.lose("backward", error)

    def _begin(self, given: Given, here: int, now: float, recorded: bool) -> None:
        run = self.run
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
        run.meet(given)
        with DisableTorchFunction():
            self.given = run.runs.forms(given)
            for observer in run.tape.observers:
                observer.node_begins(self.grad, run.number, given)
        if run.create_graph:
            run.runs.makes(self.grad)

    def _run_inside(self, given: Given) -> None:
        """The node, an accumulation, runs in a pass of another node, to which its time belongs."""
        run, tape = self.run, self.run.tape
        order, run.order = run.order, run.order + 1
        run.meet(given)
        with DisableTorchFunction():
            forms = run.runs.forms(given)
            for observer in tape.observers:
                observer.node_runs_inside(self.grad, run.number, given)
        tape.write(GradRun(self.grad, run.number, order, None, forms, (), False))

    def after(self, gave: Given, given: Given) -> None:
        """The node has run."""
        try:
            tape = self.run.tape
            here = threading.get_ident()
            self.ended = tape.time()
            entered = tape.clock()
            recorded = tape.records(here)
            if recorded:
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
                tape.own += tape.clock() - entered
        except Exception as error:
            self.run.tape.lose("backward", error)

    def _notify_end(self) -> None:
        for observer in reversed(self.run.tape.observers):
            observer.node_ended(self.grad, self.run.number)

    def _end(self, gave: Given) -> None:
        with DisableTorchFunction():
            self._notify_end()
            self.gave = self.run.runs.forms(gave)
        self.run.meet(gave)
        self.run.open.pop(self, None)

    def close(self, now: float, *, failed: bool = False) -> None:
        """Record the run of the node, which ends *now*."""
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
