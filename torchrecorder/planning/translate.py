"""Translate: translates the digest of one rank of a mesh to another rank.

The result is the digest of the other rank if it runs the same operations: its groups and peers have
the same relative coordinates.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from itertools import compress
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

    def rank(self, place: Coordinate) -> int:
        """The rank at a coordinate."""
        found = 0
        for index, size in zip(place, self.sizes):
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


class _RecordedGroup(NamedTuple):
    """A group of a recorded rank."""

    group: RankGroup
    places: list[Coordinate]  # of its members
    fixed: tuple[bool, ...]  # for each dimension, whether all members have one coordinate in it
    number: int  # among the groups of the rank with these members and this purpose


class Translator:
    """Translates digests of recorded ranks to other ranks.

    Ranks with equal coordinates in the fixed dimensions of a group share one translation of it, so
    that the work does not grow with the square of a mesh dimension.
    """

    def __init__(self, layout: MeshLayout, known: KnownGroups) -> None:
        self.layout = layout
        self.known = known
        # by rank and id of the group, which they keep alive
        self._sources: dict[tuple[int, int], _RecordedGroup] = {}
        self._found: dict[tuple[int, int, Coordinate], tuple[RankGroup, frozenset[int]]] = {}

    def digest(self, digest: Digest, rank: int) -> Digest | None:
        """*digest* translated to *rank*; None if *rank* cannot run the same operations."""
        source, target = self.layout.place(digest.rank.rank), self.layout.place(rank)
        of = [self._source(group, digest) for group in digest.rank.groups]
        groups = [self._group(group, rank, target) for group in of]
        sent = digest.sent
        peers = [
            peer if peer < 0 else self._moved(peer, source, target)
            if kind.communication.name in POINT_TO_POINT
            else self.layout.rank(_target_of(self.layout.place(peer), target, of[group].fixed))
            for kind, group, peer in zip(sent.kinds, sent.group, sent.peer)
        ]
        new_groups = tuple([group for group in groups if group is not None])
        if len(new_groups) < len(groups):
            return None
        meshes = tuple([self._mesh(mesh, target) for mesh in digest.rank.meshes])
        new_sent = sent._replace(
            names=tuple(group.name for group in new_groups),
            peer=array("i", peers),
        )
        new_rank = digest.rank._replace(rank=rank, groups=new_groups, meshes=meshes)
        return digest._replace(rank=new_rank, sent=new_sent)

    def _source(self, group: RankGroup, digest: Digest) -> _RecordedGroup:
        key = digest.rank.rank, id(group)
        if key not in self._sources:
            places = [self.layout.place(member) for member in group.ranks]
            fixed = tuple([len(set(along)) == 1 for along in zip(*places)])
            equal = [
                other for other in digest.rank.groups
                if (other.ranks, other.purpose) == (group.ranks, group.purpose)
            ]
            number = sorted(equal, key=_creation_order).index(group)
            self._sources[key] = _RecordedGroup(group, places, fixed, number)
        return self._sources[key]

    def _group(self, source: _RecordedGroup, rank: int, target: Coordinate) -> RankGroup | None:
        """The corresponding group of *rank*, which is at *target*; None if it has none."""
        group = source.group
        key = id(group), source.number, tuple(compress(target, source.fixed))
        if key not in self._found:
            places = (_target_of(place, target, source.fixed) for place in source.places)
            ranks = tuple([self.layout.rank(place) for place in places])
            known = self.known.get((ranks, group.purpose), [])
            is_known = source.number < len(known)
            found = known[source.number] if is_known else group._replace(ranks=ranks)
            self._found[key] = found, frozenset(ranks)
        found, members = self._found[key]
        return found if rank in members else None

    def _moved(self, peer: int, source: Coordinate, target: Coordinate) -> int:
        """The peer of a message of the rank at *target*: as far away along each dimension, which
        continues at its start as a ring does."""
        offsets = zip(self.layout.place(peer), source, target, self.layout.sizes)
        return self.layout.rank(
            tuple([(there + index - here) % size for index, here, there, size in offsets])
        )

    def _mesh(self, mesh: Mesh, target: Coordinate) -> Mesh:
        """The same mesh with the coordinate of *target*."""
        places = dict(zip(self.layout.names, target))
        known = all(name in places for name in mesh.names)
        return mesh._replace(place=tuple([places[name] for name in mesh.names])) if known else mesh


def _target_of(place: Coordinate, target: Coordinate, fixed: tuple[bool, ...]) -> Coordinate:
    """*place* with the coordinates of *target* in the *fixed* dimensions."""
    return tuple([there if is_fixed else index
                  for index, there, is_fixed in zip(place, target, fixed)])


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
