"""Translate: translates the digest of one rank of a mesh to another rank.

The result is the digest of the other rank if it runs the same operations: its groups and peers have
the same relative coordinates.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from math import prod
from typing import NamedTuple

from torchrecorder.events import POINT_TO_POINT, Mesh, RankGroup
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import CommunicationColumns

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


KnownGroups = dict[tuple[tuple[int, ...], str], list[RankGroup]]
"""The groups of recorded ranks, by members and purpose."""


def known_groups(digests: Collection[Digest]) -> KnownGroups:
    """The distinct groups of recorded ranks, in the order of their creation."""
    found: dict[tuple[tuple[int, ...], str], set[RankGroup]] = {}
    for digest in digests:
        for group in digest.rank.groups:
            found.setdefault((group.ranks, group.purpose), set()).add(group)
    return {key: sorted(groups, key=_creation_order) for key, groups in found.items()}


def _creation_order(group: RankGroup) -> tuple[int, str]:
    """A sort key for groups: PyTorch numbers them, and most names are that number."""
    return len(group.name), group.name


def translated(digest: Digest, rank: int, layout: MeshLayout, known: KnownGroups) -> Digest | None:
    """*digest* translated to *rank*; None if *rank* cannot run the same operations."""
    translation = _Translation(layout, digest.rank.rank, rank)
    groups = [translation.group(group, digest, known) for group in digest.rank.groups]
    sent = digest.sent
    peers = [
        peer if peer < 0 else translation.peer(
            peer, digest.rank.groups[group], kind.communication.name in POINT_TO_POINT
        )
        for kind, group, peer in zip(sent.kinds, sent.group, sent.peer)
    ]
    if None in groups or None in peers:
        return None
    new_groups = tuple([group for group in groups if group is not None])
    meshes = tuple(map(translation.mesh, digest.rank.meshes))
    new_sent = sent._replace(
        names=tuple(group.name for group in new_groups),
        peer=array("i", [peer for peer in peers if peer is not None]),
    )
    new_rank = digest.rank._replace(rank=rank, groups=new_groups, meshes=meshes)
    return digest._replace(rank=new_rank, sent=new_sent)


def is_equal(one: Digest, other: Digest) -> bool:
    """Whether two digests of one rank have equal operations, sizes and communications."""
    return (
        one.exact == other.exact
        and one.parameter_bytes == other.parameter_bytes
        and one.failure == other.failure
        and one.rank.groups == other.rank.groups
        and _without_times(one.sent) == _without_times(other.sent)
    )


def _without_times(sent: CommunicationColumns) -> CommunicationColumns:
    return sent._replace(seconds=array("d"), blocked=array("d"))


class _Translation:
    """The translation from the coordinate of one rank to that of another."""

    def __init__(self, layout: MeshLayout, source: int, target: int) -> None:
        self.layout = layout
        self.source = layout.place(source)
        self.target = layout.place(target)
        self.rank = target

    def group(self, group: RankGroup, digest: Digest, groups: KnownGroups) -> RankGroup | None:
        """The corresponding group of the target; None if it has none."""
        fixed = self._fixed(group)
        places = [self.layout.place(member) for member in group.ranks]
        ranks = tuple([self.layout.rank(self._target_of(place, fixed)) or 0 for place in places])
        if self.rank not in ranks:
            return None
        equal = [
            other for other in digest.rank.groups
            if (other.ranks, other.purpose) == (group.ranks, group.purpose)
        ]
        number = sorted(equal, key=_creation_order).index(group)
        found = groups.get((ranks, group.purpose), [])
        return found[number] if number < len(found) else group._replace(ranks=ranks)

    def peer(self, peer: int, group: RankGroup, is_message: bool) -> int | None:
        """The corresponding peer of the target; None if it has none."""
        place = self.layout.place(peer)
        if not is_message:
            return self.layout.rank(self._target_of(place, self._fixed(group)))
        offsets = zip(place, self.source, self.target)
        return self.layout.rank(
            tuple([target + index - source for index, source, target in offsets])
        )

    def mesh(self, mesh: Mesh) -> Mesh:
        """The same mesh with the coordinate of the target."""
        places = dict(zip(self.layout.names, self.target))
        known = all(name in places for name in mesh.names)
        return mesh._replace(place=tuple([places[name] for name in mesh.names])) if known else mesh

    def _fixed(self, group: RankGroup) -> tuple[bool, ...]:
        """For each dimension, whether all members of a group have the same coordinate in it."""
        places = [self.layout.place(member) for member in group.ranks]
        return tuple([len(set(along)) == 1 for along in zip(*places)])

    def _target_of(self, place: Coordinate, fixed: tuple[bool, ...]) -> Coordinate:
        """*place* with the coordinates of the target in the *fixed* dimensions."""
        return tuple([
            target if is_fixed else index
            for index, target, is_fixed in zip(place, self.target, fixed)
        ])
