"""Join: the parts that processes had in each collective, put together.

A collective is known by the ranks of its group, the group's name and its number there; a send and
its receive by group, sender, receiver, tag and number. What does not fit is a problem, in words.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import isnan
from typing import NamedTuple

from torchrecorder.events import TO_ONE, RankGroup
from torchrecorder.graph.gc_pause import uncollected
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import Sent, size_of

UNEVEN = ("all_to_all", "gather", "scatter", "barrier", "reduce")
"""Collectives to which members may rightly give different amounts."""


class Part(NamedTuple):
    """What one process had to do with a collective.

    Attributes:
        rank: The process.
        place: Which of its communications it was, counted from 0.
        sent: The communication, as it ran it.
        waited: Seconds that it took longer than the one that came last; None if not known.
    """

    rank: int
    place: int
    sent: Sent
    waited: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Collective:
    """A collective, or a send with its receive, and all who took part.

    Attributes:
        name: ``"all_reduce"``; ``"send"`` for a send and its receive.
        group: The process group.
        order: Its number in the group, or among those of the same sender, receiver and tag.
        bytes: The most that went in, or came out, at one member.
        backward: Whether it ran in a backward pass.
        last: The rank that came last; None if times do not tell.
        waited: The longest that one of them waited for that one, in seconds; None the same.
        members: The processes that took part, the sender before the receiver.
        places: Which of the communications of each it was.
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
        """Who took part."""
        return tuple([member.rank.rank for member in self.members])

    @property
    def path(self) -> str:
        """The module in which the first part ran."""
        return self.members[0].sent.kinds[self.places[0]].path

    @property
    def parts(self) -> tuple[Part, ...]:
        """What each had to do with it, the sender before the receiver."""
        return tuple([
            Part(member.rank.rank, place, member.sent.at(place), waited)
            for member, place, waited in zip(self.members, self.places, self.waits())
        ])

    def waits(self) -> list[float | None]:
        """How long each member waited for the one that came last; None if times do not tell."""
        return _waits(self.members, self.places, _seconds(self.members, self.places))


_Places = Sequence[int]
"""Of communications among those of one process."""

_Pairs = dict[tuple[RankGroup, int, int, int], tuple[list[int], list[int]]]
"""The places of sends and receives by group, sender, receiver and tag."""


@uncollected()
def join(
    digests: Sequence[Digest], expected: Iterable[int]
) -> tuple[list[Collective], list[str]]:
    """All collectives, in an order in which they may have run, and what does not fit.

    Args:
        digests: Of the processes that are known.
        expected: The ranks that should be known.
    """
    groups: dict[RankGroup, dict[int, _Places]] = {}
    pairs: _Pairs = {}
    for entry in digests:
        _sort(entry, groups, pairs)
    _find_senders(pairs)
    recorded = {digest.rank.rank: digest for digest in digests}
    found: list[Collective] = []
    problems = list(_absent(digests, {*expected} - {*recorded}))
    for group, places in groups.items():
        members = tuple([recorded[rank] for rank in group.ranks if rank in recorded])
        found += _in_group(group, members, places, problems)
    for (group, source, target, tag), places_of in pairs.items():
        found += _sent_and_received(group, source, target, tag, places_of, problems, recorded)
    found.sort(key=lambda item: (min(item.places), item.members[0].rank.rank))
    return found, problems


def _sort(
    found: Digest, groups: dict[RankGroup, dict[int, _Places]], pairs: _Pairs
) -> None:
    """Put what one process sent where it belongs."""
    rank, sent = found.rank.rank, found.sent
    places = [array("i") for _ in found.rank.groups]
    for place, (kind, group, peer) in enumerate(zip(sent.kinds, sent.group, sent.peer)):
        name = kind.told.name
        if name in TO_ONE:
            ends = (rank, peer) if name == "send" else (peer, rank)
            key = (found.rank.groups[group], *ends, kind.told.tag)
            pairs.setdefault(key, ([], []))[name != "send"].append(place)
        else:
            places[group].append(place)
    for entry, own in zip(found.rank.groups, places):  # also of a member that sent nothing in it
        groups.setdefault(entry, {})[rank] = own


def _find_senders(pairs: _Pairs) -> None:
    """Give receives from anybody to the senders that lack one, in turn."""
    for group, source, target, tag in [key for key in pairs if key[1] < 0]:
        _, waiting = pairs.pop((group, source, target, tag))
        for (other, _, to, under), (sends, receives) in pairs.items():
            if (other, to, under) == (group, target, tag):
                lacking = len(sends) - len(receives)
                receives += waiting[:lacking]
                del waiting[:lacking]


def _absent(digests: Sequence[Digest], missing: Collection[int]) -> Iterator[str]:
    """Processes that gave no recording, or did not come to the end."""
    if missing:
        yield f"there is no recording of {ranks_text(missing)}"
    for item in digests:
        if item.failure:
            yield f"rank {item.rank.rank} ended with {item.failure}"


# Collectives of a group -----------------------------------------------------------------


def _in_group(
    group: RankGroup,
    members: tuple[Digest, ...],
    places: Mapping[int, _Places],
    problems: list[str],
) -> Iterator[Collective]:
    """Those of one group, up to where its members do not agree any more."""
    queues = [places.get(member.rank.rank, ()) for member in members]
    for order in range(max(map(len, queues), default=0)):
        took_part = [
            (member, queue[order]) for member, queue in zip(members, queues) if order < len(queue)
        ]
        problem = _disagreement(group, order, members, queues, took_part)
        if problem:
            problems.append(problem)
            return
        yield _collective(group, order, members, array("i", [place for _, place in took_part]))


def _disagreement(
    group: RankGroup,
    order: int,
    members: Sequence[Digest],
    queues: Sequence[_Places],
    took_part: Sequence[tuple[Digest, int]],
) -> str:
    """What is wrong with one collective, in words; empty if nothing is."""
    kinds: dict[tuple[object, ...], list[tuple[Digest, int]]] = {}
    for member, place in took_part:
        told = member.sent.kinds[place].told
        size = 0 if told.name in UNEVEN else told.given
        kinds.setdefault((told.name, told.reduction, size), []).append((member, place))
    if len(kinds) < 2 and len(took_part) == len(members):
        return ""
    alone = {member.rank.rank for member in members}
    alone.difference_update(member.rank.rank for member, _ in took_part)
    text = "; ".join(map(_did, kinds.values()))
    if alone:
        text += f"; {ranks_text(alone)} ran none"
    more = max(map(len, queues)) - order - 1
    after = f" ({more} more after it are not compared)" if more else ""
    return f"no. {order + 1} of {group_text(group)}: {text}{after}"


def _did(parts: Sequence[tuple[Digest, int]]) -> str:
    """``"rank 2 ran all_reduce of 48 B in layers.1 at train.py:12"``."""
    first, place = parts[0]
    told, path, line = first.sent.kinds[place]
    where = f" in {path}" if path else ""
    at = " in backward" if told.backward else f" at {line}" if line else ""
    ranks = ranks_text(member.rank.rank for member, _ in parts)
    return f"{ranks} ran {told.name} of {told.given:,} B{where}{at}"


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
    """How long each took; None if not known of all.

    Of a message it is how long each did nothing else: a send may be done long before.
    """
    message = members[0].sent.kinds[places[0]].told.name in TO_ONE
    found = [
        (member.sent.blocked if message else member.sent.seconds)[place]
        for member, place in zip(members, places)
    ]
    return found if len(found) > 1 and not any(map(isnan, found)) else None


def _waits(
    members: Sequence[Digest], places: _Places, known: list[float] | None
) -> list[float | None]:
    """How long each waited for the others: not longer than it did nothing else."""
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
                    f"rank {source} sent {kinds[0].told.given:,} B, and rank {target} received "
                    f"{kinds[1].told.received:,} B{_at(kinds[0])}"
                )
        else:
            did = "was sent and not received" if pair[0] is not None \
                else "was waited for and not sent"
            problems.append(
                f"message no. {order + 1} with tag {tag} from rank {source} to rank {target} "
                f"{did}{_at(kinds[0])}"
            )


def _at(sent: Sent) -> str:
    where = f" in {sent.path}" if sent.path else ""
    return f"{where} at {sent.line}" if sent.line else where


# Words ----------------------------------------------------------------------------------


def ranks_text(ranks: Iterable[int]) -> str:
    """``"ranks 0–3, 8"``."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][-1] + 1:
            spans[-1][1:] = [rank]
        else:
            spans.append([rank])
    told = ", ".join(
        str(span[0]) if len(span) == 1 else f"{span[0]}–{span[1]}" for span in spans
    )
    single = len(spans) == 1 and len(spans[0]) == 1
    return f"{'rank' if single else 'ranks'} {told}"


def group_text(group: RankGroup) -> str:
    """What to call a group: its purpose or its name, and who is in it."""
    name = group.purpose.removeprefix("mesh_") if group.purpose else group.name
    return f"group {name} ({ranks_text(group.ranks)})"
