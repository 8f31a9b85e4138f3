"""Retained tensors: outputs and gradients kept after the run, and autograd nodes to run again.

Tensors are copied, because outputs may be written in place later. The result of a running
collective is copied after the program has waited for it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.internals.access import DisableTorchFunction, without_dispatch_modes
from torchrecorder.capture.running_modules import RunningModules
from torchrecorder.capture.scope import Choice, Gradients, Observer, OpenScope, chosen, patterns_of
from torchrecorder.capture.state.restore import without_modes
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import (
    innermost, is_transformed, on_inside, order_inside,
)
from torchrecorder.checks import plural
from torchrecorder.errors import InvalidArgument, NotKept
from torchrecorder.events import GradEdge, GradId, OpId, ValueId
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.retained_tensors import Tensors

_CallTensors = dict[str, Any]


class TensorKeeper(Observer):
    """Keeps copies of outputs, and of their gradients, for chosen scopes and operations."""

    def __init__(
        self, tape: Tape, autograd: AutogradWalk, running: RunningModules, choice: Choice
    ) -> None:
        self.tape = tape
        self.autograd = autograd
        self.running = running
        self.choice = choice
        self.ops = [item for item in patterns_of(choice) if ": " in item]  # "layer1.0: relu"
        self._ends = [re.split(r"[*?\]]", item)[-1] for item in self.ops]  # without wildcards
        self._made: dict[str, list[_CallTensors]] = {}
        self._flowed: dict[str, list[_CallTensors]] = {}
        self._wanted: dict[GradEdge, list[_GradientPlace]] = {}

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        """Copy the outputs, and store the autograd nodes that receive their gradients."""
        if outputs:
            self._keep(chosen(self.choice, self.running.paths_of_call(scope.event)), outputs)

    def op_made(self, op: OpId, name: str, made: list[tuple[ValueId, Tensor]]) -> None:
        """Copy the results of a chosen operation."""
        if made and any(end.endswith(name) or name.endswith(end) for end in self._ends):
            around = [item.event for item in reversed(self.tape.stack)]
            places = op_places(around, self.running.paths_of_call)
            paths = chosen(self.ops, [f"{place}: {name}" for place in places])
            several = len(made) > 1
            given = [(str(at) if several else "", item) for at, (_, item) in enumerate(made)]
            self._keep([path if places[0] else name for path in paths], given)

    def _keep(self, paths: Sequence[str], outputs: list[tuple[str, Tensor]]) -> None:
        """Copy *outputs*, to find them by each of these *paths*."""
        if not paths:
            return
        made: _CallTensors = {name: None for name, _ in outputs}
        for name, tensor in outputs:
            copy = functools.partial(_copy_into, made, name, None)
            self.autograd.values.storages.when_arrived(tensor, copy)
        flowed: _CallTensors = {name: None for name, _ in outputs}
        for path in paths:
            self._made.setdefault(path, []).append(made)
            self._flowed.setdefault(path, []).append(flowed)
        for name, tensor in outputs:
            edge = self.autograd.edge_behind(innermost(tensor))
            if edge is not None:
                wanted = _GradientPlace(flowed, name, order_inside(tensor))
                self._wanted.setdefault(edge, []).append(wanted)

    def node_begins(self, grad: GradId, run: int, given: Gradients) -> None:
        """Copy the gradients of kept outputs."""
        for index, gradient in enumerate(given):
            for wanted in self._wanted.get(GradEdge(grad, index), ()):
                wanted.call[wanted.name] = None
                if isinstance(gradient, Tensor):
                    keep = functools.partial(_copy_into, *wanted)
                    self.autograd.values.storages.when_arrived(gradient, keep)

    @property
    def activations(self) -> Tensors:
        """The outputs, by scope or operation."""
        return Tensors(_single(self._made))

    @property
    def gradients(self) -> Tensors:
        """The gradients of the outputs, or None."""
        return Tensors(_single(self._flowed))


class _GradientPlace(NamedTuple):
    """The place for a gradient, and the order of its dimensions if `vmap` hid some of the result's.
    """

    call: _CallTensors
    name: str
    order: tuple[int, ...] | None


def _copy_into(
    made: _CallTensors, name: str, order: tuple[int, ...] | None, tensor: Tensor
) -> None:
    with DisableTorchFunction(), torch.no_grad(), without_dispatch_modes():
        if order is not None and not is_transformed(tensor):
            tensor = tensor.permute(order)
        made[name] = on_inside(_copied, tensor)


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def op_places(around: Iterable[Scope], paths: Callable[[Scope], Sequence[str]]) -> list[str]:
    """The paths of an operation, the first as in `Recording.top`; *around*: its scopes, innermost
    first."""
    inner: list[str] = []
    for scope in around:
        if scope.path:
            return [" > ".join((path, *reversed(inner))) for path in paths(scope)]
        inner.append(scope.name)
    return [" > ".join(reversed(inner))]


def _single(found: dict[str, list[_CallTensors]]) -> dict[str, list[Any]]:
    """*found*, with the dict of a single unnamed tensor replaced by the tensor."""
    return {
        path: [call[""] if list(call) == [""] else call for call in calls]
        for path, calls in found.items()
    }


class ReplayProbe(Observer):
    """Keeps the autograd nodes of a run, and the gradients that they received last.

    A node keeps the graph behind it and all its saved tensors alive.
    """

    def __init__(self) -> None:
        self._nodes: dict[GradId, Any] = {}
        self._given: dict[GradId, Gradients] = {}
        self._batched: set[GradId] = set()  # nodes that received a batch of gradients

    def node_hooked(self, grad: GradId, node: Any) -> None:
        self._nodes[grad] = node

    def node_begins(self, grad: GradId, run: int, given: Gradients) -> None:
        received = [item for item in given if isinstance(item, Tensor)]
        if any(map(is_transformed, received)):
            self._given.pop(grad, None)
            self._batched.add(grad)
            return
        with without_modes():
            self._given[grad] = tuple(
                [item.detach() if isinstance(item, Tensor) else item for item in given]
            )

    def given(self, grad: GradId) -> tuple[Any, ...]:
        """The gradients that the node *grad* received (``grad_outputs``).

        Raises:
            NotKept: The node did not run.
        """
        if grad not in self._given and grad in self._batched:
            raise NotKept(f"grad node {grad!r} received a batch of gradients at once, by vmap")
        if grad not in self._given:
            ran = f"{len(self._given)} did: Recording.grad_runs lists them"
            raise NotKept(f"grad node {grad!r} did not run while the recorder listened; {ran}")
        return self._given[grad]

    def run(self, grad: GradId, given: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """Run the node *grad* again, on the gradients that it received, or on those *given*.

        Raises:
            NotKept: The node did not run, or its saved tensors were freed.
            InvalidArgument: The number of gradients is wrong.
            Exception: Any exception of the node itself.
        """
        received, node = self.given(grad), self._nodes[grad]
        given = received if given is None else given
        if len(given) != len(received):
            taken = plural(len(received), "gradient")
            raise InvalidArgument(f"{node.name()} ({grad}) takes {taken}, not {len(given)}")
        if not node.next_functions:
            return given  # AccumulateGrad would change the gradient
        try:
            with torch.no_grad():
                result = node.apply(*given) if isinstance(node, BackwardCFunction) else node(*given)
        except RuntimeError as error:
            if "backward through the graph a second time" not in str(error):
                raise
            raise NotKept(
                f"the saved tensors of {node.name()} ({grad}) were freed when it ran: use "
                "retain_graph=True in backward(), or record(..., backward=True, replay=True)"
            ) from error
        return result if isinstance(result, tuple) else (result,)
