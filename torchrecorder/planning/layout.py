"""Layout: which rank is where in a mesh of processes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

Coordinate = tuple[int, ...]
"""The place of a process along each dimension of a mesh."""


class Layout(NamedTuple):
    """A mesh of processes that are numbered row by row, as ``init_device_mesh`` does.

    Attributes:
        names: Of its dimensions, ``("dp", "tp")``.
        sizes: How many processes lie along each.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def of(mesh: Mapping[str, int]) -> Layout:
        """The layout of a mesh, by the sizes of its dimensions."""
        return Layout(tuple(mesh), tuple(mesh.values()))

    @property
    def world(self) -> int:
        """How many processes there are."""
        return prod(self.sizes)

    def place(self, rank: int) -> Coordinate:
        """Where a process is."""
        found = []
        for size in reversed(self.sizes):
            rank, index = divmod(rank, size)
            found.append(index)
        return tuple(reversed(found))

    def rank(self, place: Coordinate) -> int | None:
        """Which process is there; None if that is outside of the mesh."""
        found = 0
        for index, size in zip(place, self.sizes):
            if not 0 <= index < size:
                return None
            found = found * size + index
        return found

    def text(self, rank: int) -> str:
        """``"rank 9 (dp=1, tp=1)"``."""
        place = zip(self.names, self.place(rank))
        return f"rank {rank} ({', '.join(f'{name}={index}' for name, index in place)})"
