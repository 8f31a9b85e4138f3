"""GradSource: the interface between the table of values and the walk over the autograd graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from torch import Tensor

from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.events import GradEdge, OpId, ValueId


class GradSource(Protocol):
    """Finds the grad node behind a tensor; implemented by `AutogradWalk`."""

    made: dict[GradEdge, ValueId]

    def adopt(self, node: Any, other: Any) -> None:
        """Take over the grad nodes from *node* on, which *other* recorded in its thread."""

    def begin(self) -> None:
        """An op begins, which owns the grad nodes created from now on."""

    def expect_unrecorded(self, made: Iterable[Tensor]) -> None:
        """These tensors come from a call whose ops are not recorded."""

    def custom_backward(self) -> str | None:
        """The name of the custom function whose backward runs in this thread, or None."""

    def is_older(self, node: Any) -> bool:
        """Whether *node* existed before the run."""

    def knows(self, tensor: Tensor) -> bool:
        """Whether the grad node behind *tensor* is known."""

    def record_hidden(self, tensor: Tensor) -> ValueId:
        """The value of a tensor from an op that was not recorded."""

    def update_grad_node(self, tensor: Tensor, entry: Entry) -> None:
        """Record the value of *tensor* again, with its current grad node."""

    def edge_of(self, tensor: Tensor, producer: OpId) -> GradEdge | None:
        """The grad node behind *tensor*, an output of *producer*."""

    def map_alias(self, alias: Tensor, tensor: Tensor) -> None:
        """Map the grad node of *alias* to that of *tensor*."""
