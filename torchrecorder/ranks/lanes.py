"""Lanes: ranks that ran the same operations, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.events import UNFINISHED
from torchrecorder.graph.mappings import grouped
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import distance, ranks_text
from torchrecorder.recording import Recording


class Lane(NamedTuple):
    """Ranks that ran the same operations.

    Attributes:
        ranks: The ranks.
        recording: The recording of the first of them.
        differs: The differences between them, such as sizes; empty without any.
        slowest: The rank that ran longest; None if no times are known.
        seconds: The run time of the slowest rank.
        parameter_bytes: The minimum and maximum size of the parameters of a rank.
        sent_bytes: The minimum and maximum number of bytes that a rank communicated.
        assumed: The number of ranks that were not run, but are assumed to be equal to the others.
    """

    ranks: tuple[int, ...]
    recording: Recording
    differs: tuple[str, ...]
    slowest: int | None
    seconds: float | None
    parameter_bytes: tuple[int, int]
    sent_bytes: tuple[int, int]
    assumed: int

    @property
    def ended(self) -> str:
        """How the run of the first rank ended, ``"waits in all_reduce"``; empty if it ran to its
        end."""
        failure = self.recording.run.failure
        if failure is None:
            return ""
        place = failure.communication
        where = "" if place is None else f" in {self.recording.communications[place].name}"
        if failure.error != UNFINISHED:
            return f"failed{where} with {failure.error}"
        return f"waits{where}" if where else "did not end"

    @property
    def name(self) -> str:
        """``"ranks 0–3"``."""
        return ranks_text(self.ranks)


def first_ranks(digests: Sequence[Digest]) -> list[int]:
    """The ranks whose recordings represent all: the first of each group of equal ones."""
    return [members[0].rank.rank for members in group_equal_ranks(digests)]


def group_equal_ranks(digests: Sequence[Digest]) -> list[list[Digest]]:
    """Group the ranks that ran the same operations, apart from sizes; each group sorted by rank.

    Ranks that send messages to different groups are in different groups: pipeline stages with the
    same operations are distinguished by their distance from the ends of the pipeline. A ring has no
    ends.
    """
    ordered = sorted(digests, key=lambda digest: digest.rank.rank)
    kinds: dict[int, object] = {
        item.rank.rank: (item.similar, bool(item.failure)) for item in ordered
    }
    peers = _neighbors(ordered)
    number = len(set(kinds.values()))
    while True:
        finer = {
            rank: (kind, frozenset((name, kinds.get(peer)) for name, peer in peers[rank]))
            for rank, kind in kinds.items()
        }
        numbers = {kind: place for place, kind in enumerate(dict.fromkeys(finer.values()))}
        kinds = {rank: numbers[kind] for rank, kind in finer.items()}
        if len(numbers) == number:
            break
        number = len(numbers)
    return list(grouped((kinds[entry.rank.rank], entry) for entry in ordered).values())


def _neighbors(digests: Sequence[Digest]) -> dict[int, frozenset[tuple[str, int]]]:
    """The operation and rank of each send and receive of each rank, without those of rings, in
    which all ranks of a group send as often to the one that is as many further.
    """
    found = {item.rank.rank: [*_messages(item)] for item in digests}
    alike = Counter(relative for messages in found.values() for _, relative in messages)
    return {
        rank: frozenset(
            message for message, relative in messages if alike[relative] < len(relative.ranks)
        )
        for rank, messages in found.items()
    }


class _Relative(NamedTuple):
    """The messages of a rank to or from one other, by the distance in their group."""

    name: str
    ranks: tuple[int, ...]
    distance: int
    number: int


def _messages(item: Digest) -> Iterator[tuple[tuple[str, int], _Relative]]:
    rank, groups = item.rank.rank, item.rank.groups
    for (name, place, peer), number in item.sent.messages().items():
        group = groups[place]
        if rank in group.ranks and peer in group.ranks:  # not from any rank
            relative = _Relative(name, group.ranks, distance(group, rank, peer), number)
            yield (name, peer), relative


def lane(members: Sequence[Digest], recording: Recording, assumed: Collection[int]) -> Lane:
    """The lane of equal ranks; *recording* is that of the first."""
    timed = [item for item in members if item.seconds is not None]
    slowest = max(timed, key=lambda item: item.seconds or 0.0, default=None)
    held = [item.parameter_bytes for item in members]
    sent = [item.sent.total_bytes() for item in members]
    return Lane(
        tuple(item.rank.rank for item in members),
        recording,
        tuple(_differences(members, {"bytes of parameters": held, "bytes sent": sent})),
        None if slowest is None else slowest.rank.rank,
        None if slowest is None else slowest.seconds,
        (min(held), max(held)),
        (min(sent), max(sent)),
        len({item.rank.rank for item in members} & {*assumed}),
    )


def _differences(members: Sequence[Digest], amounts: Mapping[str, list[int]]) -> list[str]:
    """The differences between equal ranks."""
    if len({item.exact for item in members}) < 2:
        return []
    found = [name for name, amount in amounts.items() if len(set(amount)) > 1]
    return found or ["shapes of tensors"]
