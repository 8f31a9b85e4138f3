"""Moved: what a process would tell, had it done at its place in a mesh what another did.

Groups and peers are those at the same place relative to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection

from torchrecorder.events import TO_ONE, Mesh, RankGroup
from torchrecorder.planning.layout import Coordinate, Layout
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import SentByRank

Known = dict[tuple[tuple[int, ...], str], list[RankGroup]]
"""Groups that a process was really a member of, by members and purpose."""


def known_groups(digests: Collection[Digest]) -> Known:
    """The groups of processes that were run, each once and in the order they were made."""
    found: dict[tuple[tuple[int, ...], str], set[RankGroup]] = {}
    for digest in digests:
        for group in digest.rank.groups:
            found.setdefault((group.ranks, group.purpose), set()).add(group)
    return {key: sorted(groups, key=_made) for key, groups in found.items()}


def _made(group: RankGroup) -> tuple[int, str]:
    """PyTorch counts the groups that it makes, and names most after the number."""
    return len(group.name), group.name


def moved(digest: Digest, rank: int, layout: Layout, known: Known) -> Digest | None:
    """What *rank* would tell, had it done the same; None if it cannot have done the same.

    Args:
        digest: Of the process that was run.
        rank: The other one.
        layout: Where both are.
        known: Groups whose names are known.
    """
    move = _Move(layout, digest.rank.rank, rank)
    groups = [move.group(group, digest, known) for group in digest.rank.groups]
    sent = digest.sent
    peers = [
        peer if peer < 0 else move.peer(peer, digest.rank.groups[group], kind.told.name in TO_ONE)
        for kind, group, peer in zip(sent.kinds, sent.group, sent.peer)
    ]
    if None in groups or None in peers:
        return None
    there = [group for group in groups if group is not None]
    meshes = tuple(map(move.mesh, digest.rank.meshes))
    own = sent._replace(
        names=tuple(group.name for group in there),
        peer=array("i", [peer for peer in peers if peer is not None]),
    )
    facts = digest.rank._replace(rank=rank, groups=tuple(there), meshes=meshes)
    return digest._replace(rank=facts, sent=own)


def did_the_same(one: Digest, other: Digest) -> bool:
    """Whether two digests of one rank tell the same: what was sent where, and sizes."""
    return (
        one.exact == other.exact
        and one.parameter_bytes == other.parameter_bytes
        and one.failure == other.failure
        and one.rank.groups == other.rank.groups
        and _without_times(one.sent) == _without_times(other.sent)
    )


def _without_times(sent: SentByRank) -> SentByRank:
    return sent._replace(seconds=array("d"), blocked=array("d"))


class _Move:
    """From the place of one process to that of another."""

    def __init__(self, layout: Layout, source: int, target: int) -> None:
        self.layout = layout
        self.source = layout.place(source)
        self.target = layout.place(target)
        self.rank = target

    def group(self, group: RankGroup, digest: Digest, known: Known) -> RankGroup | None:
        """The group with the same purpose over there; None if there is none."""
        fixed = self._fixed(group)
        places = [self.layout.place(member) for member in group.ranks]
        ranks = tuple([self.layout.rank(self._at(place, fixed)) or 0 for place in places])
        if self.rank not in ranks:
            return None
        alike = [
            other for other in digest.rank.groups
            if (other.ranks, other.purpose) == (group.ranks, group.purpose)
        ]
        number = sorted(alike, key=_made).index(group)
        there = known.get((ranks, group.purpose), [])
        return there[number] if number < len(there) else group._replace(ranks=ranks)

    def peer(self, peer: int, group: RankGroup, is_message: bool) -> int | None:
        """The process at the other end over there; None if there is none."""
        place = self.layout.place(peer)
        if not is_message:
            return self.layout.rank(self._at(place, self._fixed(group)))
        steps = zip(place, self.source, self.target)
        return self.layout.rank(tuple([there + to - here for to, here, there in steps]))

    def mesh(self, mesh: Mesh) -> Mesh:
        """The same dimensions, with the place over there."""
        places = dict(zip(self.layout.names, self.target))
        known = all(name in places for name in mesh.names)
        return mesh._replace(place=tuple([places[name] for name in mesh.names])) if known else mesh

    def _fixed(self, group: RankGroup) -> tuple[bool, ...]:
        """Along which dimensions all members of a group are at the same place."""
        places = [self.layout.place(member) for member in group.ranks]
        return tuple([len(set(along)) == 1 for along in zip(*places)])

    def _at(self, place: Coordinate, fixed: tuple[bool, ...]) -> Coordinate:
        """A place as it is over there: along dimensions that are fixed, that of the target."""
        return tuple([
            there if stays else index
            for index, there, stays in zip(place, self.target, fixed)
        ])
