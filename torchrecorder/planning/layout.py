"""Layout: the coordinates of ranks in a device mesh."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

Coordinate = tuple[int, ...]
"""The coordinate of a rank along each dimension of a mesh."""


class MeshLayout(NamedTuple):
    """A mesh whose ranks are numbered in row-major order, as by ``init_device_mesh``."""

    names: tuple[str, ...]  # of its dimensions, ("dp", "tp")
    sizes: tuple[int, ...]

    @staticmethod
    def from_sizes(mesh: Mapping[str, int]) -> MeshLayout:
        """The layout of a mesh with these names and sizes of dimensions."""
        return MeshLayout(tuple(mesh), tuple(mesh.values()))

    @property
    def world(self) -> int:
        """The number of ranks."""
        return prod(self.sizes)

    def place(self, rank: int) -> Coordinate:
        """The coordinate of a rank."""
        found = []
        for size in reversed(self.sizes):
            rank, index = divmod(rank, size)
            found.append(index)
        return tuple(reversed(found))

    def rank(self, place: Coordinate) -> int | None:
        """The rank at a coordinate; None if the coordinate is outside of the mesh."""
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
