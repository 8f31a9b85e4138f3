"""Sent: what one process sent and received, in columns.

A thousand processes run a million collectives. What they have in common, such as names, sizes
and modules, is kept once; of each process there are numbers only.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from torchrecorder.events import TO_ONE, Communication, Rank


class Sent(NamedTuple):
    """One communication of a process, with its place in words.

    Attributes:
        told: What the process recorded.
        path: Dotted path of the module it ran in; empty for the model itself.
        line: The line of the program, ``"train.py:12"``; empty in backward.
    """

    told: Communication
    path: str
    line: str


class SentByRank(NamedTuple):
    """What one process sent and received, in order.

    Attributes:
        kinds: Each communication without what only this process knows of it.
        names: The names of the groups of this process.
        group: Of each, the place of its group among the names.
        order: Of each, its number in the group.
        peer: Of each, the rank at the other end; -1 if there is none.
        seconds: Of each, how long it took; not a number where that is not known.
        blocked: Of each, how long the program waited for it; the same.
    """

    kinds: tuple[Sent, ...]
    names: tuple[str, ...]
    group: array[int]
    order: array[int]
    peer: array[int]
    seconds: array[float]
    blocked: array[float]

    @staticmethod
    def of(sent: Sequence[Sent], rank: Rank) -> SentByRank:
        """In columns."""
        places = {group.name: place for place, group in enumerate(rank.groups)}
        told = [item.told for item in sent]
        return SentByRank(
            tuple(map(_kind, sent)),
            tuple(places),
            array("i", [places[item.group] for item in told]),
            array("i", [item.order for item in told]),
            array("i", [item.peer for item in told]),
            array("d", [_number(item.seconds) for item in told]),
            array("d", [_number(item.blocked_seconds) for item in told]),
        )

    def at(self, place: int) -> Sent:
        """One of them."""
        kind = self.kinds[place]
        told = kind.told._replace(
            group=self.names[self.group[place]],
            order=self.order[place],
            peer=self.peer[place],
            seconds=_known(self.seconds[place]),
            blocked_seconds=_known(self.blocked[place]),
        )
        return kind._replace(told=told)

    def total_bytes(self) -> int:
        """How much went in, or came out, in all."""
        return sum(map(size_of, self.kinds))

    def peers(self) -> frozenset[tuple[str, int]]:
        """Whom it sends to, and whom it receives from."""
        return frozenset(
            (kind.told.name, peer)
            for kind, peer in zip(self.kinds, self.peer) if kind.told.name in TO_ONE
        )


def size_of(kind: Sent) -> int:
    """The bytes that went in, or came out."""
    return max(kind.told.given, kind.told.received)


def _kind(sent: Sent) -> Sent:
    return sent._replace(
        told=sent.told._replace(group="", order=0, peer=-1, seconds=None, blocked_seconds=None)
    )


def _number(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number
