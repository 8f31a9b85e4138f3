"""NodesKept: keep grad nodes and their gradients, to run single nodes again.

Only on request, because a node keeps the graph behind it and all saved tensors alive.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from torchrecorder.capture.observer import Given, Observer
from torchrecorder.errors import InvalidArgument, NotKept
from torchrecorder.events import GradId


class NodesKept(Observer):
    """Keeps the nodes of a run and the gradients of their last backward run."""

    def __init__(self) -> None:
        self._nodes: dict[GradId, Any] = {}
        self._given: dict[GradId, Given] = {}

    def node_met(self, grad: GradId, node: Any) -> None:
        self._nodes[grad] = node

    def node_begins(self, grad: GradId, run: int, given: Given) -> None:
        self._given[grad] = tuple(
            [item.detach() if isinstance(item, Tensor) else item for item in given]
        )

    def given(self, grad: GradId) -> tuple[Any, ...]:
        """The gradients that one grad node received.

        Raises:
            NotKept: It did not run.
        """
        if grad not in self._given:
            ran = f"{len(self._given)} did: Recording.grad_runs lists them"
            raise NotKept(f"grad node {grad!r} did not run while the recorder listened; {ran}")
        return self._given[grad]

    def run(self, grad: GradId, given: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """Run one grad node again on the gradients it received, or on others.

        Raises:
            NotKept: It did not run, or its saved tensors were freed.
            InvalidArgument: The number of gradients is wrong.
            Exception: Any exception of the node itself.
        """
        received, node = self.given(grad), self._nodes[grad]
        given = received if given is None else given
        if len(given) != len(received):
            raise InvalidArgument(
                f"{node.name()} ({grad}) takes {len(received)} gradients, not {len(given)}"
            )
        if not node.next_functions:
            return given  # an accumulation would add to the gradient once more
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
