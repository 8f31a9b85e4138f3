"""GradSource: what the table of values asks of the walk over the autograd graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from torch import Tensor

from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.events import GradEdge, OpId, ValueId


class GradSource(Protocol):
    """Knows which grad node is behind a tensor; `AutogradWalk` does."""

    made: dict[GradEdge, ValueId]

    def begin(self) -> None:
        """An op begins: grad nodes made from here on are its own."""

    def open_box(self, made: Iterable[Tensor]) -> None:
        """A call whose ops are not seen made these tensors."""

    def clear(self) -> None:
        """Forget every grad node."""

    def custom_backward(self) -> str | None:
        """The name of the custom function whose backward runs in this thread, if one does."""

    def is_older(self, node: Any) -> bool:
        """Whether *node* was there before the run."""

    def knows(self, tensor: Tensor) -> bool:
        """Whether the grad node behind *tensor* has been met."""

    def uncover(self, tensor: Tensor) -> ValueId:
        """The value of a tensor that an op made unseen."""

    def regrade(self, tensor: Tensor, entry: Entry) -> None:
        """State the value of *tensor* with the grad node that it has now."""

    def edge_of(self, tensor: Tensor, producer: OpId) -> GradEdge | None:
        """The grad node behind what *producer* made."""

    def stand_for(self, alias: Tensor, tensor: Tensor) -> None:
        """Let the grad node of *alias* stand for that of *tensor*."""
