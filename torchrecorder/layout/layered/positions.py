"""Positions: the positions of an open scope and of everything in it.

Positions are measured across the flow and along it, from the corner where the scope begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.constants import PAD

PlanePoint = tuple[float, float]


class Frame(NamedTuple):
    """The position and size of a child.

    Attributes:
        across: Its near side, across the flow.
        along: Its near side, along the flow.
        width: Its size across the flow.
        height: Its size along the flow.
    """

    across: float
    along: float
    width: float
    height: float

    @property
    def end(self) -> float:
        """Its far side, along the flow."""
        return self.along + self.height


class BranchPath(NamedTuple):
    """The corners of a branch of a trunk, each across and along the flow."""

    trunk: int
    branch: int
    points: tuple[PlanePoint, ...]


class PlacedScope(NamedTuple):
    """An open scope.

    Attributes:
        width: Its size across the flow.
        height: Its size along the flow.
        entries: The positions across the flow at which tensors enter.
        exits: The positions at which tensors leave.
        frames: The positions of its children.
        paths: The edges between them.
        inner: The composed scopes of the open children, by the child's number.
        up: Whether its flow runs against that around it.
    """

    width: float
    height: float
    entries: tuple[float, ...]
    exits: tuple[float, ...]
    frames: tuple[Frame, ...]
    paths: tuple[BranchPath, ...]
    inner: Mapping[int, PlacedScope]
    up: bool = False

    @property
    def anchor(self) -> float:
        """The position across the flow that is aligned with the middle of the closed box."""
        return self.entries[0] if self.entries else self.width / 2


class HeaderSpace(NamedTuple):
    """The space that is kept free for the header, the text in the corner of an open scope.

    Attributes:
        before: Along the flow, before the first row.
        beside: Across the flow, at the near side.
        least: The minimum width of the scope across the flow.
        length: The minimum height of the scope along the flow.
        clear: The width across the flow in which no tensor may enter.
    """

    before: float = 0.0
    beside: float = 0.0
    least: float = 0.0
    length: float = 0.0
    clear: float = 0.0

    def offset(self, begin: float, entries: Sequence[float]) -> float:
        """The shift across the flow that moves everything, entries included, out of the header.

        Args:
            begin: The smallest position of boxes and edges.
            entries: The positions at which tensors enter.
        """
        first = min(entries, default=begin + self.clear)
        return max(PAD + self.beside - begin, self.clear - first)
