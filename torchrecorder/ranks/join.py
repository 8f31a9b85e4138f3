"""Join: match the collectives of all ranks, and sends with receives.

Collectives are matched by the ranks of the group, its name and the number of the collective in it;
sends and receives by group, sender, receiver, tag and number. Each mismatch is reported as text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

from torchrecorder.annotations.communication import size
from torchrecorder.events import POINT_TO_POINT, RankGroup
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.ended import endings
from torchrecorder.ranks.sent import CommunicationColumns, Sent, group_text, place_text, ranks_text

VARIABLE_SIZE = ("all_to_all", "gather", "scatter", "barrier", "reduce")
"""Collectives in which ranks may pass tensors of different sizes."""


class Part(NamedTuple):
    """The part of one rank in a collective.

    Attributes:
        rank: The rank.
        place: The index among the communications of this rank.
        sent: The communication as this rank recorded it.
        waited: The time that it waited for the slowest rank, in seconds; None if unknown.
    """

    rank: int
    place: int
    sent: Sent
    waited: float | None


@dataclass(frozen=True, eq=False, slots=True)
class Collective:
    """A collective, or a send with its receive, and the ranks in it.

    Attributes:
        name: ``"all_reduce"``; ``"send"`` for a send and its receive.
        group: The process group.
        order: Its number in the group, or among those of the same sender, receiver and tag.
        bytes: The maximum size of the input or output of a rank.
        backward: Whether it ran in a backward pass.
        last: The rank that started it last; None if unknown.
        waited: The longest time that a rank waited for the last one, in seconds; None if unknown.
        members: The digests of the ranks in it; for a message, sender and receiver.
        places: Its index among the communications of each rank.
    """

    name: str
    group: RankGroup
    order: int
    bytes: int
    backward: bool
    last: int | None
    waited: float | None
    members: tuple[Digest, ...]
    places: array[int]

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return (
            f"<{self.name} no. {self.order + 1} of {group_text(self.group)}{where}: "
            f"{self.bytes:,} B, {ranks_text(self.ranks)}>"
        )

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks in it."""
        return tuple([member.rank.rank for member in self.members])

    @property
    def path(self) -> str:
        """The module in which the first rank ran it."""
        return self.members[0].sent.kinds[self.places[0]].path

    @property
    def when(self) -> str:
        """The part of the run in which the first rank ran it: ``"forward"`` in a call of a module,
        ``"backward"``, ``"optimizer"`` or ``"clipping"``; empty elsewhere."""
        return self.members[0].sent.kinds[self.places[0]].when

    @property
    def parts(self) -> tuple[Part, ...]:
        """The part of each rank; for a message, of the sender and of the receiver."""
        return tuple([
            Part(member.rank.rank, place, member.sent.at(place), waited)
            for member, place, waited in zip(self.members, self.places, self.waits())
        ])

    def waits(self) -> list[float | None]:
        """The time that each rank waited for the last one, in seconds; None if unknown."""
        row = _MatchedRow.at([member.sent for member in self.members], self.places)
        seconds = row.durations()
        return [None for _ in self.members] if seconds is None else row.waits(min(seconds))


_Indices = Sequence[int]
"""Indices into the communications of one rank."""

_MessageIndices = dict[tuple[RankGroup, int, int, int], tuple[list[int], list[int]]]
"""The indices of sends and receives by group, sender, receiver and tag."""


@without_gc()
def join(digests: Sequence[Digest], expected: Iterable[int]) -> tuple[list[Collective], list[str]]:
    """All collectives, in a possible run order, and the problems, such as missing ranks."""
    groups: dict[RankGroup, dict[int, _Indices]] = {}
    pairs: _MessageIndices = {}
    known: dict[object, _Positions] = {}
    for entry in digests:
        _collect(entry, groups, pairs, known)
    _match_any_source(pairs)
    recorded = {digest.rank.rank: digest for digest in digests}
    found: list[Collective] = []
    problems = list(endings(digests, {*expected} - {*recorded}, groups))
    for group, places in groups.items():
        members = tuple([recorded[rank] for rank in group.ranks if rank in recorded])
        found += _in_group(group, members, places, problems)
    for (group, source, target, tag), places_of in pairs.items():
        found += _sent_and_received(group, source, target, tag, places_of, problems, recorded)
    found.sort(key=lambda item: (min(item.places), item.members[0].rank.rank))
    return found, problems


class _Positions(NamedTuple):
    """The indices of the collectives in each group of a rank, and of its messages."""

    groups: list[array[int]]
    messages: array[int]

    @staticmethod
    def from_digest(digest: Digest) -> _Positions:
        """The positions of one rank."""
        positions = _Positions([array("i") for _ in digest.rank.groups], array("i"))
        for place, (kind, group) in enumerate(zip(digest.sent.kinds, digest.sent.group)):
            is_message = kind.communication.name in POINT_TO_POINT
            (positions.messages if is_message else positions.groups[group]).append(place)
        return positions


def _collect(
    digest: Digest,
    groups: dict[RankGroup, dict[int, _Indices]],
    pairs: _MessageIndices,
    known: dict[object, _Positions],
) -> None:
    """Add the communications of a rank to *groups* and *pairs*; *known*: those of equal ones."""
    rank, sent = digest.rank.rank, digest.sent
    key = id(sent.kinds), sent.group.tobytes(), len(digest.rank.groups)
    if key not in known:
        known[key] = _Positions.from_digest(digest)
    for place in known[key].messages:
        communication, peer = sent.kinds[place].communication, sent.peer[place]
        ends = (rank, peer) if communication.name == "send" else (peer, rank)
        message = (digest.rank.groups[sent.group[place]], *ends, communication.tag)
        pairs.setdefault(message, ([], []))[communication.name != "send"].append(place)
    for entry, own in zip(digest.rank.groups, known[key].groups):
        groups.setdefault(entry, {})[rank] = own  # also if it ran no collective in the group


def _match_any_source(pairs: _MessageIndices) -> None:
    """Assign receives without a source to senders with too few receives, in order."""
    for group, source, target, tag in [key for key in pairs if key[1] < 0]:
        _, waiting = pairs.pop((group, source, target, tag))
        for (other, _, to, under), (sends, receives) in pairs.items():
            if (other, to, under) == (group, target, tag):
                lacking = len(sends) - len(receives)
                receives += waiting[:lacking]
                del waiting[:lacking]


# Collectives of a group -----------------------------------------------------------------


class _MatchedRow(NamedTuple):
    """One collective or message, with an entry for each member."""

    places: tuple[int, ...]
    kinds: tuple[Sent, ...]
    seconds: tuple[float, ...]
    blocked: tuple[float, ...]

    @staticmethod
    def at(members: Sequence[CommunicationColumns], places: Iterable[int]) -> _MatchedRow:
        """The row of the communications at *places*, one of each member."""
        parts = [*zip(members, places)]
        return _MatchedRow(
            tuple(places),
            tuple([sent.kinds[place] for sent, place in parts]),
            tuple([sent.seconds[place] for sent, place in parts]),
            tuple([sent.blocked[place] for sent, place in parts]),
        )

    def distinct(self) -> tuple[Sent, ...]:
        """The kinds; only the first if all are equal."""
        return self.kinds[:1] if self.kinds.count(self.kinds[0]) == len(self.kinds) else self.kinds

    def durations(self) -> tuple[float, ...] | None:
        """The duration of each, of messages as long as they blocked; None if one is unknown."""
        message = self.kinds[0].communication.name in POINT_TO_POINT
        found = self.blocked if message else self.seconds
        return None if len(found) < 2 or isnan(sum(found)) else found

    def waits(self, shortest: float) -> list[float | None]:
        """How long each member waited, at most as long as it blocked, for the *shortest* one."""
        longer = [seconds - shortest for seconds in self.durations() or ()]
        return [*map(min, longer, self.blocked)]  # min returns its first argument for NaN


def _rows(members: Sequence[Digest], queues: Sequence[_Indices]) -> Iterator[_MatchedRow]:
    """The collectives or messages at the same position in all *queues*, up to the shortest."""
    sent = [member.sent for member in members]
    return (_MatchedRow.at(sent, places) for places in zip(*queues))


def _in_group(
    group: RankGroup,
    members: tuple[Digest, ...],
    places: Mapping[int, _Indices],
    problems: list[str],
) -> Iterator[Collective]:
    """The collectives of one group, up to the first mismatch."""
    queues = [places.get(member.rank.rank, ()) for member in members]
    order = 0
    for row in _rows(members, queues):
        if len({*map(_signature, row.distinct())}) > 1:
            break
        yield _collective(group, order, members, row)
        order += 1
    if order < max(map(len, queues), default=0):
        ran = [(m, q[order]) for m, q in zip(members, queues) if order < len(q)]
        differ = len({_signature(member.sent.kinds[place]) for member, place in ran}) > 1
        if differ or all(member.waits_in != place for member, place in ran):
            # else the end of a rank that waits in it says which ranks did not call it
            problems.append(_mismatch(group, order, members, queues))


def _signature(kind: Sent) -> tuple[object, ...]:
    """The facts that are equal for all members of a collective."""
    sent = kind.communication
    return sent.name, sent.reduction, 0 if sent.name in VARIABLE_SIZE else sent.given


def _mismatch(
    group: RankGroup, order: int, members: Sequence[Digest], queues: Sequence[_Indices]
) -> str:
    """The mismatch in one collective as text."""
    kinds: dict[tuple[object, ...], list[tuple[int, Sent]]] = {}
    absent = []
    for member, queue in zip(members, queues):
        if order < len(queue):
            kind = member.sent.kinds[queue[order]]
            kinds.setdefault(_signature(kind), []).append((member.rank.rank, kind))
        else:
            absent.append(member.rank.rank)
    text = "; ".join(map(_describe, kinds.values()))
    if absent:
        text += f"; {ranks_text(absent)} ran no collective"
    more = max(map(len, queues)) - order - 1
    after = f" (later collectives, not compared: {more})" if more else ""
    return f"no. {order + 1} of {group_text(group)}: {text}{after}"


def _describe(parts: Sequence[tuple[int, Sent]]) -> str:
    """``"rank 2 ran all_reduce of 48 B in layers.1 at train.py:12"``."""
    _, first = parts[0]
    sent = first.communication
    ranks = ranks_text(rank for rank, _ in parts)
    return f"{ranks} ran {sent.name} of {sent.given:,} B{place_text(first)}"


def _collective(
    group: RankGroup, order: int, members: tuple[Digest, ...], row: _MatchedRow
) -> Collective:
    first = row.kinds[0].communication
    last, waited = None, None
    durations = row.durations()
    if durations is not None:
        shortest = min(durations)
        last = members[durations.index(shortest)].rank.rank
        waited = max(filter(None, row.waits(shortest)), default=0.0)
    return Collective(
        "send" if first.name in POINT_TO_POINT else first.name,
        group,
        order,
        max(size(kind.communication) for kind in row.distinct()),
        first.backward,
        last,
        waited,
        members,
        array("i", row.places),
    )


# Sends and receives ---------------------------------------------------------------------


def _sent_and_received(
    group: RankGroup,
    source: int,
    target: int,
    tag: int,
    places: tuple[Sequence[int], Sequence[int]],
    problems: list[str],
    recorded: Mapping[int, Digest],
) -> Iterator[Collective]:
    """Each send with its receive."""
    if source not in recorded or target not in recorded:
        return
    members = recorded[source], recorded[target]
    for order, row in enumerate(_rows(members, places)):
        yield _collective(group, order, members, row)
        send, receive = (kind.communication for kind in row.kinds)
        if send.given != receive.received:
            problems.append(
                f"rank {source} sent {send.given:,} B, but rank {target} received "
                f"{receive.received:,} B{place_text(row.kinds[0])}"
            )
    paired = min(map(len, places))
    faults = "was sent but not received", "was to be received but not sent"
    for member, queue, fault in zip(members, places, faults):
        for order, place in enumerate(queue[paired:], start=paired):
            if place == member.waits_in:  # the end of its run says it
                continue
            problems.append(
                f"message no. {order + 1} with tag {tag} from rank {source} to rank {target} "
                f"{fault}{place_text(member.sent.kinds[place])}"
            )
