"""Flow, GradFlow: what an edge of the recorded graph carries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flow:
    """A value goes into an op, or comes out of one.

    Attributes:
        slot: The argument it goes in as (``"weight"``, ``"0"``), or the number of the
            result it comes out as.
        in_place: The op wrote it in place.
    """

    slot: str
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class GradFlow:
    """A gradient goes from one grad node to the next, against the forward run.

    Attributes:
        source: Which input of the forward this gradient belongs to.
        index: Which output of the next node's forward it is the gradient of.
    """

    source: int
    index: int
