"""Sent: the communications of one process, stored in columns; their ranks and places as text.

A thousand processes run a million collectives. Names, sizes and modules, which are the same in many
processes, are stored once; each process stores only numbers.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from torchrecorder.annotations.amounts import ranges
from torchrecorder.annotations.communication import size
from torchrecorder.errors import InvalidRecording
from torchrecorder.events import POINT_TO_POINT, Communication, Rank, RankGroup

RANK_COLUMNS = ("group", "order", "peer", "seconds", "blocked_seconds")
"""The fields of a communication that differ between ranks that ran the same operations."""


class Sent(NamedTuple):
    """One communication of a process, with the part of the run that it ran in.

    Attributes:
        communication: The recorded communication.
        path: Dotted path of the module it ran in; empty for the root module.
        line: The source line, ``"train.py:12"``; empty in backward.
        when: ``"forward"`` in a call of a module, ``"backward"``, ``"optimizer"`` or
            ``"clipping"``; empty elsewhere.
    """

    communication: Communication
    path: str
    line: str
    when: str = ""


class CommunicationColumns(NamedTuple):
    """The communications of one process, in run order; what differs by rank is in columns."""

    kinds: tuple[Sent, ...]  # without these fields
    names: tuple[str, ...]  # of the process groups of this process
    group: array[int]  # the index in *names*
    order: array[int]  # the number in the group
    peer: array[int]  # the rank it communicates with; -1 without one
    seconds: array[float]  # its duration; NaN if unknown
    blocked: array[float]  # the time that it blocked the program; NaN if unknown

    @staticmethod
    def from_columns(
        kinds: tuple[Sent, ...], rank: Rank, *columns: Sequence[Any]
    ) -> CommunicationColumns:
        """The communications of *rank*; raises InvalidRecording if the *columns* do not fit."""
        if {len(column) for column in columns} != {len(kinds)}:
            raise InvalidRecording("communications: its columns differ in length")
        places = {group.name: place for place, group in enumerate(rank.groups)}
        group, order, peer, seconds, blocked = columns
        try:
            return CommunicationColumns(
                kinds,
                tuple(places),
                array("i", map(places.__getitem__, group)),
                array("i", order),
                array("i", peer),
                array("d", [math.nan if number is None else number for number in seconds]),
                array("d", [math.nan if number is None else number for number in blocked]),
            )
        except (KeyError, OverflowError) as error:
            raise InvalidRecording(
                f"communications of rank {rank.rank} are not in its groups: {error}"
            ) from None

    def at(self, place: int) -> Sent:
        """The communication at index *place*."""
        kind = self.kinds[place]
        communication = kind.communication._replace(
            group=self.names[self.group[place]],
            order=self.order[place],
            peer=self.peer[place],
            seconds=_known(self.seconds[place]),
            blocked_seconds=_known(self.blocked[place]),
        )
        return kind._replace(communication=communication)

    def total_bytes(self) -> int:
        """The total size of all communications, in bytes."""
        return sum(size(kind.communication) for kind in self.kinds)

    def messages(self) -> Counter[tuple[str, int, int]]:
        """How many sends and receives there are, by operation, index of the group and rank."""
        return Counter(
            (kind.communication.name, place, peer)
            for kind, place, peer in zip(self.kinds, self.group, self.peer)
            if kind.communication.name in POINT_TO_POINT
        )


def distance(group: RankGroup, rank: int, peer: int) -> int:
    """How many places further than *rank* its *peer* is in *group*, which goes round."""
    return (group.ranks.index(peer) - group.ranks.index(rank)) % len(group.ranks)


def without_rank(sent: Sent) -> Sent:
    """*sent* without its rank-specific fields."""
    return sent._replace(
        communication=sent.communication._replace(
            group="", order=0, peer=-1, seconds=None, blocked_seconds=None
        )
    )


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def ranks_text(ranks: Iterable[int]) -> str:
    """``"ranks 0–3, 8"``."""
    text = ranges(ranks, "–")
    return f"{'rank' if text.isdecimal() else 'ranks'} {text}"


def group_text(group: RankGroup) -> str:
    """A group as text: its description or its name, and its ranks."""
    name = group.purpose.removeprefix("mesh_") if group.purpose else group.name
    return f"group {name} ({ranks_text(group.ranks)})"


def place_text(kind: Sent) -> str:
    """``" in layers.1 at train.py:12"``: where a communication ran."""
    where = f" in {kind.path}" if kind.path else ""
    if kind.communication.backward:
        return f"{where} in backward"
    return f"{where} at {kind.line}" if kind.line else where
