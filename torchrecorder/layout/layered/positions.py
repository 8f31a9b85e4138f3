"""Composed: an open scope with everything in it in its place.

Everything is measured across the flow and along it, from the corner where the scope begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.constants import PAD

Point = tuple[float, float]


class Frame(NamedTuple):
    """Where a child is.

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


class Path(NamedTuple):
    """A branch of a trunk: corners of its way, across and along."""

    trunk: int
    branch: int
    points: tuple[Point, ...]


class Composed(NamedTuple):
    """An open scope.

    Attributes:
        width: Its size across the flow.
        height: Its size along the flow.
        entries: Where tensors come in, across the flow.
        exits: Where they leave.
        frames: Where its children are.
        paths: The lines between them.
        inner: The composed scopes of the open children, by the child's number.
        through: The entry and the exit of what runs through it.
        up: Whether its flow runs against that around it.
    """

    width: float
    height: float
    entries: tuple[float, ...]
    exits: tuple[float, ...]
    frames: tuple[Frame, ...]
    paths: tuple[Path, ...]
    inner: Mapping[int, Composed]
    through: tuple[int, int] | None
    up: bool = False

    @property
    def anchor(self) -> float:
        """The place that stays where the closed box had its middle."""
        return self.entries[0] if self.entries else self.width / 2


class Room(NamedTuple):
    """What is kept free for the text in the corner of a scope.

    Attributes:
        before: Along the flow, before the first row.
        beside: Across the flow, at the near side.
        least: Width across that the whole scope needs at least.
        length: Height along that the whole scope needs at least.
        clear: Across the flow, up to where no tensor comes in.
    """

    before: float = 0.0
    beside: float = 0.0
    least: float = 0.0
    length: float = 0.0
    clear: float = 0.0

    def offset(self, begin: float, entries: Sequence[float]) -> float:
        """How far what is in a scope moves across, to begin beside the text, with no entry in it.

        Args:
            begin: Where boxes and lines begin.
            entries: Where tensors come in.
        """
        first = min(entries, default=begin + self.clear)
        return max(PAD + self.beside - begin, self.clear - first)
