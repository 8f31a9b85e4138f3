"""Lanes: processes that did the same, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchrecorder.events import TO_ONE
from torchrecorder.ranks.digest import Digest, Sent
from torchrecorder.ranks.join import ranks_text
from torchrecorder.recording import Recording


class Lane(NamedTuple):
    """Processes that did the same.

    Attributes:
        ranks: Who they are.
        recording: What the first of them recorded.
        differs: In what they are not quite equal; empty where they are.
        slowest: The one that ran longest; None if times do not tell.
        seconds: How long that was.
        parameter_bytes: The least and the most bytes of weights that one of them held.
        sent_bytes: The least and the most bytes that one of them sent or received.
    """

    ranks: tuple[int, ...]
    recording: Recording
    differs: tuple[str, ...]
    slowest: int | None
    seconds: float | None
    parameter_bytes: tuple[int, int]
    sent_bytes: tuple[int, int]

    @property
    def name(self) -> str:
        """``"ranks 0–3"``."""
        return ranks_text(self.ranks)


def kind_of(found: Digest) -> tuple[str, bool]:
    """Equal for processes that did the same but for sizes."""
    return found.similar, bool(found.failure)


def sort_alike(digests: Sequence[Digest]) -> list[list[Digest]]:
    """Processes that did the same but for sizes, each group in order of rank.

    Those that send messages to different kinds of processes are not alike: the stages of a
    pipeline are told apart by how far they are from its ends.
    """
    ordered = sorted(digests, key=lambda digest: digest.rank.rank)
    kinds: dict[int, object] = {item.rank.rank: kind_of(item) for item in ordered}
    peers = {item.rank.rank: _peers(item) for item in ordered}
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
    found: dict[object, list[Digest]] = {}
    for entry in ordered:
        found.setdefault(kinds[entry.rank.rank], []).append(entry)
    return list(found.values())


def _peers(found: Digest) -> frozenset[tuple[str, int]]:
    """Whom it sends to, and whom it receives from."""
    return frozenset(
        (sent.told.name, sent.told.peer) for sent in found.sent if sent.told.name in TO_ONE
    )


def lane(alike: Sequence[Digest], recording: Recording) -> Lane:
    """The lane of processes that are *alike*; *recording* is that of the first."""
    timed = [item for item in alike if item.seconds is not None]
    slowest = max(timed, key=lambda item: item.seconds or 0.0, default=None)
    held = [item.parameter_bytes for item in alike]
    sent = [sum(_size(item) for item in digest.sent) for digest in alike]
    return Lane(
        tuple(item.rank.rank for item in alike),
        recording,
        tuple(_differences(alike, {"bytes of weights": held, "bytes sent": sent})),
        None if slowest is None else slowest.rank.rank,
        None if slowest is None else slowest.seconds,
        (min(held), max(held)),
        (min(sent), max(sent)),
    )


def _size(sent: Sent) -> int:
    told = sent.told
    return max(told.given, told.received)


def _differences(alike: Sequence[Digest], amounts: Mapping[str, list[int]]) -> list[str]:
    """In what they differ."""
    if len({item.exact for item in alike}) < 2:
        return []
    found = [what for what, amount in amounts.items() if len(set(amount)) > 1]
    return found or ["shapes of tensors"]
