"""Failing node: the grad node to which the failure of a backward pass belongs.

Mostly it is the node that is running. But PyTorch checks the gradients of a node after it has
run: their sizes, and in anomaly mode whether they are NaN. And it calls the hooks of a tensor
before the node that takes the gradient of the tensor begins: this is the next node in the order of
the engine.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from torchrecorder.build import Event
from torchrecorder.capture.autograd.node_facts import behind, output_facts
from torchrecorder.capture.internals.engine import ENGINE_CODE
from torchrecorder.capture.tensors.describe import shape_of
from torchrecorder.events import GradId, OpId, ScopeId
from torchrecorder.graph.nodes import GradNode

_CUSTOM_BACKWARD = getattr(BackwardCFunction.apply, "__code__", None)


class EngineCall(NamedTuple):
    """A function in Python that the engine called: a hook, or the backward of a custom function.

    Attributes:
        code: That of the function.
        tuples: How many tuples it was given: two are the gradients before and after a node.
        shapes: The sizes of the gradients that it was given.
    """

    code: CodeType
    tuples: int
    shapes: frozenset[tuple[int, ...]]

    @property
    def is_in_node(self) -> bool:
        """Whether a node was running, or had run: it is no hook of a gradient before it."""
        return self.code is _CUSTOM_BACKWARD or self.tuples > 1

    def is_among(self, hooks: Mapping[int, Any] | None) -> bool:
        """Whether this may be a call of one of *hooks*."""
        return any(_code_of(hook) in (None, self.code) for hook in (hooks or {}).values())


def failed_call(error: BaseException) -> EngineCall | None:
    """The function that the engine called, and that raised *error*; None if it raised itself."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code is not ENGINE_CODE:
        traceback = traceback.tb_next
    if traceback is None or traceback.tb_next is None:
        return None
    return _call_in(traceback.tb_next.tb_frame)


def _call_in(frame: FrameType) -> EngineCall:
    names, rest, _, held = inspect.getargvalues(frame)
    given = [held.get(name) for name in names] + [*held.get(rest or "", ())]
    tuples = [item for item in given if isinstance(item, tuple)]
    gradients = [item for item in (*given[:2], *sum(tuples, ())) if isinstance(item, Tensor)]
    return EngineCall(frame.f_code, len(tuples), frozenset(map(shape_of, gradients)))


def _code_of(hook: Any) -> CodeType | None:
    """The code of a function, method, partial function or object that is called."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    code = getattr(getattr(hook, "__func__", hook), "__code__", None)
    return code or getattr(getattr(type(hook), "__call__", None), "__code__", None)


_CHECKED = re.compile(r"Function '?([\w:]+)'? returned ")
"""The beginning of a message about the gradients that a node gave."""


def node_of_check(
    error: BaseException, latest: Iterable[GradId], events: Sequence[Event]
) -> GradId | None:
    """The node that gave the gradients which *error* is about, if it is among the *latest* ones."""
    message = _CHECKED.match(str(error))
    if message is None:
        return None
    name, found = message[1].rpartition("::")[2], {*latest}
    named = (
        event.id for event in events
        if isinstance(event, GradNode) and event.id in found and event.name == name
    )
    return next(named, None)


def home(grad: GradId, events: Sequence[Event]) -> tuple[OpId | None, ScopeId | None]:
    """The op and scope that created *grad*; for an accumulation, those of its first source."""
    source: tuple[OpId | None, ScopeId | None] = (None, None)
    for event in events:
        if not isinstance(event, GradNode):
            continue
        if event.id == grad and event.owner is not None:
            return event.owner, event.scope
        if source[0] is None and any(edge and edge.grad == grad for edge in event.next):
            source = (event.owner, event.scope)
    return source


class NextNode:
    """Finds the node that the engine was about to run in a pass.

    Of the nodes that have all their gradients, the engine takes the one that was created last, and
    accumulations before all others.

    Attributes:
        roots: The nodes from which the pass started.
        wanted: The nodes whose gradients were asked for; empty for all.
        grad_of: The id of a node; None for one that the recorder made.
        begun: The nodes that have run, or are running.
    """

    def __init__(
        self,
        roots: Sequence[Any],
        wanted: Sequence[Any],
        grad_of: Callable[[Any], GradId | None],
        begun: Iterable[GradId],
    ) -> None:
        self.nodes = [*behind(roots)]
        self.wanted = {*wanted}
        self.grad_of, self.begun = grad_of, {*begun}
        self.before: dict[Any, list[Any]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for parent, _ in node.next_functions:
                if parent is not None:
                    self.before[parent].append(node)

    def with_hook(self, hook: EngineCall, last: GradId | None) -> GradId | None:
        """The node before which the engine called *hook*, or the *last* one, if it did so after
        this had added to a gradient; None if no node fits."""
        if any(self.grad_of(node) == last and _left(node, hook) for node in self.nodes):
            return last
        fitting = [
            node for node in self.nodes
            if self._is_next(node) and _takes(node, hook) and self._is_wanted(node)
        ]
        found = max(fitting, key=lambda node: int(node._sequence_nr()), default=None)
        return self.grad_of(found) if found is not None else last

    def _is_next(self, node: Any) -> bool:
        """Whether *node* has not run, but all nodes that give it a gradient have."""
        grad = self.grad_of(node)
        if grad is None or grad in self.begun:
            return False
        return all(self._has_run(giver) for giver in self.before[node])

    def _has_run(self, node: Any) -> bool:
        grad = self.grad_of(node)
        if grad is None:
            return all(map(self._has_run, self.before[node]))
        return grad in self.begun

    def _is_wanted(self, node: Any) -> bool:
        return not self.wanted or any(item in self.wanted for item in behind([node]))


def _left(node: Any, hook: EngineCall) -> bool:
    """Whether *hook* is called after *node* has added to the gradient of a leaf."""
    leaf = getattr(node, "variable", None)
    return leaf is not None and hook.is_among(leaf._post_accumulate_grad_hooks)


def _takes(node: Any, hook: EngineCall) -> bool:
    """Whether *hook* may be one of *node*: by its gradient, and of a leaf by its function."""
    leaf = getattr(node, "variable", None)
    if leaf is not None and not hook.is_among(leaf._backward_hooks):
        return False
    shapes = {shape for shape, *_ in output_facts(node)}
    return not (shapes and hook.shapes) or not shapes.isdisjoint(hook.shapes)
