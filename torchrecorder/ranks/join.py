"""Join: the parts that processes had in each collective, put together.

A collective is known by the ranks of its group, the group's name and its number there; a send and
its receive by group, sender, receiver, tag and number. What does not fit is a problem, in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.events import TO_ONE, RankGroup
from torchrecorder.graph.gc_pause import uncollected
from torchrecorder.ranks.digest import Digest, Sent

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


class Collective(NamedTuple):
    """A collective, or a send with its receive, and all who took part.

    Attributes:
        name: ``"all_reduce"``; ``"send"`` for a send and its receive.
        group: The process group.
        order: Its number in the group, or among those of the same sender, receiver and tag.
        bytes: The most that went in, or came out, at one member.
        backward: Whether it ran in a backward pass.
        parts: Who took part, by rank; the sender before the receiver.
        last: The rank that came last; None if times do not tell.
    """

    name: str
    group: RankGroup
    order: int
    bytes: int
    backward: bool
    parts: tuple[Part, ...]
    last: int | None

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return (
            f"<{self.name} no. {self.order + 1} of {group_text(self.group)}{where}: "
            f"{self.bytes:,} B, {ranks_text(part.rank for part in self.parts)}>"
        )

    @property
    def path(self) -> str:
        """The module in which the first part ran."""
        return self.parts[0].sent.path

    @property
    def waited(self) -> float | None:
        """The longest that one of them waited for the one that came last, in seconds."""
        return max((part.waited for part in self.parts if part.waited is not None), default=None)


_Queue = list[tuple[int, Sent]]
"""Communications of one process: their places, and what they are."""

_Pairs = dict[tuple[RankGroup, int, int, int], tuple[_Queue, _Queue]]
"""Sends and receives by group, sender, receiver and tag."""


@uncollected()
def join(digests: Sequence[Digest]) -> tuple[list[Collective], list[str]]:
    """All collectives, in an order in which they may have run, and what does not fit."""
    groups: dict[RankGroup, dict[int, _Queue]] = {}
    pairs: _Pairs = {}
    for entry in digests:
        _sort(entry, groups, pairs)
    _find_senders(pairs)
    recorded = {digest.rank.rank for digest in digests}
    found: list[Collective] = []
    problems = list(_absent(digests, recorded))
    for group, queues in groups.items():
        found += _in_group(group, queues, problems, recorded)
    for (group, source, target, tag), queues_of in pairs.items():
        found += _sent_and_received(group, source, target, tag, queues_of, problems, recorded)
    found.sort(key=lambda item: (min(part.place for part in item.parts), item.parts[0].rank))
    return found, problems


def _sort(
    found: Digest, groups: dict[RankGroup, dict[int, _Queue]], pairs: _Pairs
) -> None:
    """Put what one process sent where it belongs."""
    rank = found.rank.rank
    queues: dict[str, _Queue] = {}
    named = {group.name: group for group in found.rank.groups}
    for place, sent in enumerate(found.sent):
        told = sent.told
        if told.name in TO_ONE:
            ends = (rank, told.peer) if told.name == "send" else (told.peer, rank)
            key = (named[told.group], *ends, told.tag)
            pairs.setdefault(key, ([], []))[told.name != "send"].append((place, sent))
        else:
            queues.setdefault(told.group, []).append((place, sent))
    for name, group in named.items():  # also of a member that sent nothing in it
        groups.setdefault(group, {})[rank] = queues.get(name, [])


def _find_senders(pairs: _Pairs) -> None:
    """Give receives from anybody to the senders that lack one, in turn."""
    for group, source, target, tag in [key for key in pairs if key[1] < 0]:
        _, waiting = pairs.pop((group, source, target, tag))
        for (other, _, to, under), (sends, receives) in pairs.items():
            if (other, to, under) == (group, target, tag):
                lacking = len(sends) - len(receives)
                receives += waiting[:lacking]
                del waiting[:lacking]


def _absent(digests: Sequence[Digest], recorded: Iterable[int]) -> Iterator[str]:
    """Processes that gave no recording, or did not come to the end."""
    world = max((digest.rank.world for digest in digests), default=0)
    missing = sorted(set(range(world)) - set(recorded))
    if missing:
        yield f"there is no recording of {ranks_text(missing)}"
    for item in digests:
        if item.failure:
            yield f"rank {item.rank.rank} ended with {item.failure}"


# Collectives of a group -----------------------------------------------------------------


def _in_group(
    group: RankGroup, queues: Mapping[int, _Queue], problems: list[str], recorded: set[int]
) -> Iterator[Collective]:
    """Those of one group, up to where its members do not agree any more."""
    members = {rank: queues.get(rank, []) for rank in group.ranks if rank in recorded}
    for order in range(max(map(len, members.values()), default=0)):
        parts = {rank: queue[order] for rank, queue in members.items() if order < len(queue)}
        problem = _disagreement(group, order, members, parts)
        if problem:
            problems.append(problem)
            return
        yield _collective(group, order, parts)


def _disagreement(
    group: RankGroup,
    order: int,
    members: Mapping[int, _Queue],
    parts: Mapping[int, tuple[int, Sent]],
) -> str:
    """What is wrong with one collective, in words; empty if nothing is."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for rank, (_, sent) in parts.items():
        told = sent.told
        size = 0 if told.name in UNEVEN else told.given
        kinds.setdefault((told.name, told.reduction, size), []).append(rank)
    alone = [rank for rank in members if rank not in parts]
    if len(kinds) < 2 and not alone:
        return ""
    text = "; ".join(_did(ranks, parts[ranks[0]][1]) for ranks in kinds.values())
    if alone:
        text += f"; {ranks_text(alone)} ran none"
    more = max(map(len, members.values())) - order - 1
    after = f" ({more} more after it are not compared)" if more else ""
    return f"no. {order + 1} of {group_text(group)}: {text}{after}"


def _did(ranks: Sequence[int], sent: Sent) -> str:
    """``"rank 2 ran all_reduce of 48 B in layers.1 at train.py:12"``."""
    told = sent.told
    where = f" in {sent.path}" if sent.path else ""
    line = " in backward" if told.backward else f" at {sent.line}" if sent.line else ""
    return f"{ranks_text(ranks)} ran {told.name} of {told.given:,} B{where}{line}"


def _collective(
    group: RankGroup, order: int, parts: Mapping[int, tuple[int, Sent]]
) -> Collective:
    times = {rank: sent.told.seconds for rank, (_, sent) in parts.items()}
    known = {rank: seconds for rank, seconds in times.items() if seconds is not None}
    shortest = min(known.values()) if len(known) == len(parts) > 1 else None
    first = next(iter(parts.values()))[1].told
    return Collective(
        first.name,
        group,
        order,
        max(max(sent.told.given, sent.told.received) for _, sent in parts.values()),
        first.backward,
        tuple(
            Part(rank, place, sent, _waited(sent, known.get(rank), shortest))
            for rank, (place, sent) in parts.items()
        ),
        None if shortest is None else min(known, key=known.__getitem__),
    )


def _waited(sent: Sent, seconds: float | None, shortest: float | None) -> float | None:
    """How long a process waited for others: not longer than it did nothing else."""
    if seconds is None or shortest is None:
        return None
    blocked = sent.told.blocked_seconds
    longer = seconds - shortest
    return longer if blocked is None else min(longer, blocked)


# Sends and receives ---------------------------------------------------------------------


def _sent_and_received(
    group: RankGroup,
    source: int,
    target: int,
    tag: int,
    queues: tuple[_Queue, _Queue],
    problems: list[str],
    recorded: set[int],
) -> Iterator[Collective]:
    """Each send with its receive."""
    sends, receives = queues
    for order in range(max(map(len, queues))):
        send = sends[order] if order < len(sends) else None
        receive = receives[order] if order < len(receives) else None
        if send is not None and receive is not None:
            yield _message(_collective(group, order, {source: send, target: receive}))
            if send[1].told.given != receive[1].told.received:
                problems.append(
                    f"rank {source} sent {send[1].told.given:,} B, and rank {target} received "
                    f"{receive[1].told.received:,} B{_at(send[1])}"
                )
        elif source in recorded and target in recorded:
            sent = (send or receive or sends[0])[1]
            did = "was sent and not received" if send is not None else "was waited for and not sent"
            problems.append(
                f"message no. {order + 1} with tag {tag} from rank {source} to rank {target} "
                f"{did}{_at(sent)}"
            )


def _message(pair: Collective) -> Collective:
    """A send with its receive: who does nothing but wait in it, waits for the other one."""
    blocked = [part.sent.told.blocked_seconds for part in pair.parts]
    known = [seconds for seconds in blocked if seconds is not None]
    if len(known) < len(blocked):
        return pair._replace(name="send")
    shortest = min(known)
    parts = [
        part._replace(waited=seconds - shortest) for part, seconds in zip(pair.parts, known)
    ]
    last = pair.parts[known.index(shortest)].rank
    return pair._replace(name="send", parts=tuple(parts), last=last)


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
