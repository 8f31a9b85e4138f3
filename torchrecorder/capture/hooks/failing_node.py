"""Failing node: the autograd node that made a backward pass fail.

Usually this is the node that is running. But PyTorch checks the gradients of a node after the node
has run: their shapes and, in anomaly mode, NaN. And it calls the hooks of a tensor before the node
that receives the gradient begins: this is the next node in the order of the engine.
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
    """A Python function that the engine called: a hook, or the backward of a custom function."""

    code: CodeType  # the code object of the function
    # the number of its arguments that are tuples; two: gradients before and after a node
    tuples: int
    shapes: frozenset[tuple[int, ...]]  # the shapes of the gradients in its arguments

    @property
    def is_in_node(self) -> bool:
        """Whether it ran in or after a node: it is no hook of a gradient before the node."""
        return self.code is _CUSTOM_BACKWARD or self.tuples > 1

    def is_among(self, hooks: Mapping[int, Any] | None) -> bool:
        """Whether it may be a call of one of *hooks*."""
        return any(_code_of(hook) in (None, self.code) for hook in (hooks or {}).values())


def failed_call(error: BaseException) -> EngineCall | None:
    """The Python function that the engine called and that raised *error*, or None."""
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
    """The code object of a function, method, ``partial`` or callable object, or None."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    code = getattr(getattr(hook, "__func__", hook), "__code__", None)
    return code or getattr(getattr(type(hook), "__call__", None), "__code__", None)


_CHECKED = re.compile(r"Function '?([\w:]+)'? returned ")
"""The beginning of PyTorch's message about the gradients of a node."""


def node_of_check(
    error: BaseException, latest: Iterable[GradId], events: Sequence[Event]
) -> GradId | None:
    """The node among *latest* whose gradients failed the check that *error* reports, or None."""
    message = _CHECKED.match(str(error))
    if message is None:
        return None
    name, found = message[1].rpartition("::")[2], {*latest}
    named = (
        event.id for event in events
        if isinstance(event, GradNode) and event.id in found and event.name == name
    )
    return next(named, None)


def home(grad: GradId, nodes: Iterable[GradNode]) -> tuple[OpId | None, ScopeId | None]:
    """The op and scope that created *grad*; for an accumulation, those of its first source."""
    source: tuple[OpId | None, ScopeId | None] = (None, None)
    for node in nodes:
        if node.id == grad and node.owner is not None:
            return node.owner, node.scope
        if source[0] is None and any(edge and edge.grad == grad for edge in node.next):
            source = (node.owner, node.scope)
    return source


class NextNode:
    """Finds the node that the engine was about to run.

    Among the nodes that have received all gradients, the engine runs the one that was created last,
    and ``AccumulateGrad`` before all others.

    Args:
        roots: The nodes at which the pass started.
        wanted: The nodes of the argument ``inputs``; empty for all.
        grad_of: Returns the id of a node; None for one that the recorder created.
        begun: The nodes that have run or are running.
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
        """The node before which the engine called *hook*; the *last* node, if it called the hook
        after accumulating, or if no other node fits."""
        latest = (node for node in self.nodes if self.grad_of(node) == last)
        if any(_is_post_accumulate(node, hook) for node in latest):
            return last
        fitting = [
            node for node in self.nodes
            if self._is_next(node) and _may_have(node, hook) and self._is_wanted(node)
        ]
        found = max(fitting, key=lambda node: int(node._sequence_nr()), default=None)
        return self.grad_of(found) if found is not None else last

    def _is_next(self, node: Any) -> bool:
        """Whether *node* has not run, and all nodes whose gradients it receives have."""
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


def _is_post_accumulate(node: Any, hook: EngineCall) -> bool:
    """Whether *hook* may be a post-accumulate-grad hook of the leaf of *node*."""
    leaf = getattr(node, "variable", None)
    return leaf is not None and hook.is_among(leaf._post_accumulate_grad_hooks)


def _may_have(node: Any, hook: EngineCall) -> bool:
    """Whether *node* may have *hook*, by the shape of the gradient and the hooks of its leaf."""
    leaf = getattr(node, "variable", None)
    if leaf is not None and not hook.is_among(leaf._backward_hooks):
        return False
    shapes = {shape for shape, *_ in output_facts(node)}
    return not (shapes and hook.shapes) or not shapes.isdisjoint(hook.shapes)
