"""TensorsKept: copies of what chosen scopes gave, and of its gradients.

Copies, because what the model made may be written in place a moment later. What a collective
still writes is copied when the program has waited for it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import DisableTorchFunction
from torchrecorder.capture.observer import Given, Observer
from torchrecorder.capture.probes.statistics import Choice, chooses
from torchrecorder.events import GradEdge, GradId
from torchrecorder.graph.retained_tensors import Tensors

if TYPE_CHECKING:
    from torchrecorder.capture.autograd.walk import AutogradWalk
    from torchrecorder.capture.scope import OpenScope

_Call = dict[str, Any]


class TensorsKept(Observer):
    """Keeps what the scopes of a choice give."""

    def __init__(self, autograd: AutogradWalk, choice: Choice) -> None:
        self.autograd = autograd
        self.choice = choice
        self._made: dict[str, list[_Call]] = {}
        self._flowed: dict[str, list[_Call]] = {}
        self._wanted: dict[GradEdge, list[tuple[_Call, str]]] = {}

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        """Copy the results, and remember which gradients to wait for."""
        path = scope.event.path or ("" if scope.event.parent is not None else scope.event.name)
        if not outputs or not path or not chooses(self.choice, [path]):
            return
        made: _Call = {name: None for name, _ in outputs}
        for name, tensor in outputs:
            keep = functools.partial(_keep, made, name)
            self.autograd.values.storages.when_arrived(tensor, keep)
        flowed: _Call = {name: None for name, _ in outputs}
        self._made.setdefault(path, []).append(made)
        self._flowed.setdefault(path, []).append(flowed)
        for name, tensor in outputs:
            edge = self.autograd.edge_behind(tensor)
            if edge is not None:
                self._wanted.setdefault(edge, []).append((flowed, name))

    def node_begins(self, grad: GradId, run: int, given: Given) -> None:
        """Copy the gradients that were waited for."""
        for index, gradient in enumerate(given):
            for flowed, name in self._wanted.get(GradEdge(grad, index), ()):
                flowed[name] = None
                if isinstance(gradient, Tensor):
                    keep = functools.partial(_keep, flowed, name)
                    self.autograd.values.storages.when_arrived(gradient, keep)

    @property
    def activations(self) -> Tensors:
        """What the scopes gave."""
        return Tensors(_single(self._made))

    @property
    def gradients(self) -> Tensors:
        """The gradients of what the scopes gave; None where none arrived."""
        return Tensors(_single(self._flowed))


def _keep(made: _Call, name: str, tensor: Tensor) -> None:
    made[name] = _copy(tensor)


def _copy(tensor: Tensor) -> Tensor:
    with DisableTorchFunction(), torch.no_grad():
        return tensor.detach().clone()


def _single(found: dict[str, list[_Call]]) -> dict[str, list[Any]]:
    """A call that gave one unnamed tensor stands for that tensor."""
    return {
        path: [call[""] if list(call) == [""] else call for call in calls]
        for path, calls in found.items()
    }
