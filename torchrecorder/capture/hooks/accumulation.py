"""Accumulation: which backward pass wrote ``x.grad``, and which gradients a pass adds to.

No Python call adds to ``x.grad``: the accumulation nodes are found behind the roots of the pass
before it runs. If ``x.grad`` exists from an earlier pass or op of the run, the pass reads it, and
writes it in place if PyTorch does.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge

from torchrecorder.capture.internals.access import ACCUMULATION
from torchrecorder.capture.tensors.tensor_table import Values
from torchrecorder.events import GRAD_SUFFIX, OpId, ValueId

Gradients = list[tuple[str, "weakref.ref[Tensor]"]]
"""Weak references to the gradients that a pass adds to, with their names."""


class Accumulation:
    """The gradients of leaves behind one call of ``backward``: of all, or *only* of these."""

    def __init__(self, values: Values, nodes: Iterable[Any], only: Any) -> None:
        self.values = values
        self.leaves: list[ValueId] = []
        self.gradients: list[tuple[str, Tensor]] = []
        wanted = None if only is None else _leaves(only)
        for node in nodes:
            if node.name() == ACCUMULATION:
                variable = node.variable
                if wanted is None or any(variable is item for item in wanted):
                    self._add(variable)

    def _add(self, variable: Tensor) -> None:
        of = self.values.peek(variable)
        if of is None:
            return
        self.leaves.append(of)
        gradient = variable.grad
        if gradient is not None and self.values.gradients.last is not None:
            self.values.read_gradient(gradient, of)
            if self.values.entries[id(gradient)].producer is not None:
                self.gradients.append((f"{of}{GRAD_SUFFIX}", gradient))

    def left_by(self, op: OpId) -> Gradients:
        """Note that the pass is *op*, which accumulates; return the gradients before it."""
        self.values.gradients.left.update(dict.fromkeys(self.leaves, op))
        return [(name, weakref.ref(gradient)) for name, gradient in self.gradients]


def _leaves(only: Any) -> list[Any]:
    """The leaves in the argument ``inputs`` of a pass."""
    listed = [only] if isinstance(only, (Tensor, GradientEdge)) else list(only)
    return [getattr(item.node, "variable", None) if isinstance(item, GradientEdge) else item
            for item in listed]
