"""Join: match the collectives of all ranks, and sends with receives.

Collectives are matched by the ranks of the group, its name and the number of the collective in it;
sends and receives by group, sender, receiver, tag and number. Each mismatch is reported as text.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import isnan
from typing import NamedTuple

from torchrecorder.events import POINT_TO_POINT, RankGroup
from torchrecorder.graph.gc_pause import uncollected
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import Sent, size_of

UNEVEN = ("all_to_all", "gather", "scatter", "barrier", "reduce")
"""Collectives whose members may pass different sizes."""


class Part(NamedTuple):
    """The part of one rank in a collective.

    Attributes:
        rank: The rank.
        place: The index among the communications of this rank.
        sent: The communication as this rank recorded it.
        waited: How long it waited for the slowest rank, in seconds; None if unknown.
    """

    rank: int
    place: int
    sent: Sent
    waited: float | None


@dataclass(frozen=True, eq=False, repr=False)
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

    __slots__ = (
        "name", "group", "order", "bytes", "backward", "last", "waited", "members", "places"
    )

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
    def parts(self) -> tuple[Part, ...]:
        """The part of each rank; for a message, of the sender and of the receiver."""
        return tuple([
            Part(member.rank.rank, place, member.sent.at(place), waited)
            for member, place, waited in zip(self.members, self.places, self.waits())
        ])

    def waits(self) -> list[float | None]:
        """How long each rank waited for the last one, in seconds; None if unknown."""
        return _waits(self.members, self.places, _seconds(self.members, self.places))


_Places = Sequence[int]
"""Indices into the communications of one rank."""

_Pairs = dict[tuple[RankGroup, int, int, int], tuple[list[int], list[int]]]
"""The indices of sends and receives by group, sender, receiver and tag."""


@uncollected()
def join(
    digests: Sequence[Digest], expected: Iterable[int]
) -> tuple[list[Collective], list[str]]:
    """All collectives, in a possible run order, and the problems.

    Args:
        digests: The digests of the recorded ranks.
        expected: The ranks that should have a recording.
    """
    groups: dict[RankGroup, dict[int, _Places]] = {}
    pairs: _Pairs = {}
    for entry in digests:
        _collect(entry, groups, pairs)
    _match_any_source(pairs)
    recorded = {digest.rank.rank: digest for digest in digests}
    found: list[Collective] = []
    problems = list(_missing_ranks(digests, {*expected} - {*recorded}))
    for group, places in groups.items():
        members = tuple([recorded[rank] for rank in group.ranks if rank in recorded])
        found += _in_group(group, members, places, problems)
    for (group, source, target, tag), places_of in pairs.items():
        found += _sent_and_received(group, source, target, tag, places_of, problems, recorded)
    found.sort(key=lambda item: (min(item.places), item.members[0].rank.rank))
    return found, problems


def _collect(
    found: Digest, groups: dict[RankGroup, dict[int, _Places]], pairs: _Pairs
) -> None:
    """Add the communications of one rank to *groups* and *pairs*."""
    rank, sent = found.rank.rank, found.sent
    places = [array("i") for _ in found.rank.groups]
    for place, (kind, group, peer) in enumerate(zip(sent.kinds, sent.group, sent.peer)):
        name = kind.told.name
        if name in POINT_TO_POINT:
            ends = (rank, peer) if name == "send" else (peer, rank)
            key = (found.rank.groups[group], *ends, kind.told.tag)
            pairs.setdefault(key, ([], []))[name != "send"].append(place)
        else:
            places[group].append(place)
    for entry, own in zip(found.rank.groups, places):  # also if it ran no collective in the group
        groups.setdefault(entry, {})[rank] = own


def _match_any_source(pairs: _Pairs) -> None:
    """Assign receives without a source to senders with too few receives, in order."""
    for group, source, target, tag in [key for key in pairs if key[1] < 0]:
        _, waiting = pairs.pop((group, source, target, tag))
        for (other, _, to, under), (sends, receives) in pairs.items():
            if (other, to, under) == (group, target, tag):
                lacking = len(sends) - len(receives)
                receives += waiting[:lacking]
                del waiting[:lacking]


def _missing_ranks(digests: Sequence[Digest], missing: Collection[int]) -> Iterator[str]:
    """The ranks without a recording, and those that failed."""
    if missing:
        yield f"no recording of {ranks_text(missing)}"
    for item in digests:
        if item.failure:
            yield f"rank {item.rank.rank} failed with {item.failure}"


# Collectives of a group -----------------------------------------------------------------


def _in_group(
    group: RankGroup,
    members: tuple[Digest, ...],
    places: Mapping[int, _Places],
    problems: list[str],
) -> Iterator[Collective]:
    """The collectives of one group, up to the first mismatch."""
    queues = [places.get(member.rank.rank, ()) for member in members]
    for order in range(max(map(len, queues), default=0)):
        parts = [
            (member, queue[order]) for member, queue in zip(members, queues) if order < len(queue)
        ]
        problem = _mismatch(group, order, members, queues, parts)
        if problem:
            problems.append(problem)
            return
        yield _collective(group, order, members, array("i", [place for _, place in parts]))


def _mismatch(
    group: RankGroup,
    order: int,
    members: Sequence[Digest],
    queues: Sequence[_Places],
    parts: Sequence[tuple[Digest, int]],
) -> str:
    """The mismatch in one collective as text; empty if there is none."""
    kinds: dict[tuple[object, ...], list[tuple[Digest, int]]] = {}
    for member, place in parts:
        sent = member.sent.kinds[place].told
        size = 0 if sent.name in UNEVEN else sent.given
        kinds.setdefault((sent.name, sent.reduction, size), []).append((member, place))
    if len(kinds) < 2 and len(parts) == len(members):
        return ""
    absent = {member.rank.rank for member in members}
    absent.difference_update(member.rank.rank for member, _ in parts)
    text = "; ".join(map(_describe, kinds.values()))
    if absent:
        text += f"; {ranks_text(absent)} ran no collective"
    more = max(map(len, queues)) - order - 1
    after = f" (later collectives, not compared: {more})" if more else ""
    return f"no. {order + 1} of {group_text(group)}: {text}{after}"


def _describe(parts: Sequence[tuple[Digest, int]]) -> str:
    """``"rank 2 ran all_reduce of 48 B in layers.1 at train.py:12"``."""
    first, place = parts[0]
    sent, path, line = first.sent.kinds[place]
    where = f" in {path}" if path else ""
    at = " in backward" if sent.backward else f" at {line}" if line else ""
    ranks = ranks_text(member.rank.rank for member, _ in parts)
    return f"{ranks} ran {sent.name} of {sent.given:,} B{where}{at}"


def _collective(
    group: RankGroup, order: int, members: tuple[Digest, ...], places: array[int]
) -> Collective:
    kinds = [member.sent.kinds[place] for member, place in zip(members, places)]
    known = _seconds(members, places)
    last = None if known is None else members[known.index(min(known))].rank.rank
    waits = _waits(members, places, known)
    return Collective(
        kinds[0].told.name,
        group,
        order,
        max(map(size_of, kinds)),
        kinds[0].told.backward,
        last,
        max(filter(None, waits), default=None if known is None else 0.0),
        members,
        places,
    )


def _seconds(members: Sequence[Digest], places: _Places) -> list[float] | None:
    """The duration of each part; None if one of them is unknown.

    For a message, it is how long each program was blocked: a send may complete long before.
    """
    message = members[0].sent.kinds[places[0]].told.name in POINT_TO_POINT
    found = [
        (member.sent.blocked if message else member.sent.seconds)[place]
        for member, place in zip(members, places)
    ]
    return found if len(found) > 1 and not any(map(isnan, found)) else None


def _waits(
    members: Sequence[Digest], places: _Places, known: list[float] | None
) -> list[float | None]:
    """How long each rank waited for the others; at most the time that it was blocked."""
    if known is None:
        return [None for _ in members]
    shortest = min(known)
    blocked = [member.sent.blocked[place] for member, place in zip(members, places)]
    return [
        seconds - shortest if isnan(limit) else min(seconds - shortest, limit)
        for seconds, limit in zip(known, blocked)
    ]


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
    for order, pair in enumerate(zip_longest(*places)):
        kinds = [
            member.sent.kinds[place]
            for member, place in zip(members, pair) if place is not None
        ]
        if len(kinds) == 2:
            yield replace(_collective(group, order, members, array("i", pair)), name="send")
            if kinds[0].told.given != kinds[1].told.received:
                problems.append(
                    f"rank {source} sent {kinds[0].told.given:,} B, but rank {target} received "
                    f"{kinds[1].told.received:,} B{_at(kinds[0])}"
                )
        else:
            fault = "was sent but not received" if pair[0] is not None \
                else "was to be received but not sent"
            problems.append(
                f"message no. {order + 1} with tag {tag} from rank {source} to rank {target} "
                f"{fault}{_at(kinds[0])}"
            )


def _at(sent: Sent) -> str:
    where = f" in {sent.path}" if sent.path else ""
    return f"{where} at {sent.line}" if sent.line else where


# Text -----------------------------------------------------------------------------------


def ranks_text(ranks: Iterable[int]) -> str:
    """``"ranks 0–3, 8"``."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][-1] + 1:
            spans[-1][1:] = [rank]
        else:
            spans.append([rank])
    text = ", ".join(
        str(span[0]) if len(span) == 1 else f"{span[0]}–{span[1]}" for span in spans
    )
    single = len(spans) == 1 and len(spans[0]) == 1
    return f"{'rank' if single else 'ranks'} {text}"


def group_text(group: RankGroup) -> str:
    """A group as text: its description or its name, and its ranks."""
    name = group.purpose.removeprefix("mesh_") if group.purpose else group.name
    return f"group {name} ({ranks_text(group.ranks)})"
