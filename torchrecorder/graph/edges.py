"""Flow, GradFlow: the edges of the recorded graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flow:
    """A value is the input or output of an op.

    Attributes:
        slot: The name of the argument (``"weight"``, ``"0"``), or the index of the result.
        in_place: Whether the op wrote it in place.
    """

    slot: str
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class GradFlow:
    """A gradient goes from one grad node to the next.

    Attributes:
        source: Which input of the forward this gradient belongs to.
        index: Which output of the next node's forward it is the gradient of.
    """

    source: int
    index: int
