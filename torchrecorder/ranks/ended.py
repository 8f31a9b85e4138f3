"""Ended: how the run of each rank ended, as text, and the ranks that a blocked one waits for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.events import POINT_TO_POINT, UNFINISHED, RankGroup
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import Sent
from torchrecorder.ranks.text import group_text, place_text, ranks_text

CollectiveIndices = Mapping[RankGroup, Mapping[int, Sequence[int]]]
"""For each group and rank, the indices of its collectives among its communications."""


class _Ending(NamedTuple):
    """The end of the runs of some ranks as text: what they did, and the rest of the sentence."""

    one: str  # "waits"
    several: str  # "wait"
    rest: str


def endings(
    digests: Sequence[Digest], missing: Collection[int], places: CollectiveIndices
) -> Iterator[str]:
    """One sentence for the ranks without a recording, and for all that ended in the same way, apart
    from numbers in the error, such as ports.

    Ranks that ran to their end are only named if another rank waits in vain.
    """
    if missing:
        yield f"no recording of {ranks_text(missing)}"
    recorded = {digest.rank.rank: digest for digest in digests}
    found: dict[_Ending, list[int]] = {}
    first: dict[str, _Ending] = {}
    for item in digests:
        if item.failure:
            ending = _ending(item, recorded, places)
            error, _, message = item.failure.partition(": ")
            same = ending.rest.removesuffix(item.failure) + error + re.sub(r"\d+", "", message)
            ending = first.setdefault(f"{ending.one}{same}", ending)
            found.setdefault(ending, []).append(item.rank.rank)
    complete = [item.rank.rank for item in digests if not item.failure]
    if complete and any(item.waits_in is not None for item in digests):
        found[_Ending("ran to its end", "ran to their end", "")] = complete
    for (one, several, rest), ranks in sorted(found.items(), key=lambda item: min(item[1])):
        yield f"{ranks_text(ranks)} {one if len(ranks) == 1 else several}{rest}"


def _ending(item: Digest, recorded: Mapping[int, Digest], places: CollectiveIndices) -> _Ending:
    where, others = "", ""
    if item.waits_in is not None:
        kind = item.sent.kinds[item.waits_in]
        where = f" in {_communication(item, kind)}"
        others = "".join(f"; {text}" for text in _others(item, kind, recorded, places))
    error, _, message = item.failure.partition(": ")
    if error != UNFINISHED:
        rest = f"{where}{others}: {item.failure}" if where else f" with {item.failure}"
        return _Ending("failed", "failed", rest)
    if item.waits_in is None:
        return _Ending("did not end", "did not end", f": {message}")
    place = place_text(kind)
    reason = message.removesuffix(place) if place else message
    return _Ending("waits", "wait", f"{where} ({reason}){others}")


def _communication(item: Digest, kind: Sent) -> str:
    """``"no. 4 of group default_pg (ranks 0–1), all_reduce of 32 B in fc at train.py:12"``."""
    sent, group = kind.communication, _group(item)
    if sent.name in POINT_TO_POINT:
        to = "to" if sent.name == "send" else "from"
        peer = item.sent.peer[_place(item)]
        whom = f"rank {peer}" if peer >= 0 else "any rank"
        size = f"{max(sent.given, sent.received):,} B"
        text = f"{sent.name} of {size} {to} {whom} with tag {sent.tag}"
        return f"{text} in {group_text(group)},{place_text(kind)}".rstrip(",")
    order = item.sent.order[_place(item)] + 1
    call = f"{sent.name} of {max(sent.given, sent.received):,} B{place_text(kind)}"
    return f"no. {order} of {group_text(group)}, {call}"


def _place(item: Digest) -> int:
    assert item.waits_in is not None
    return item.waits_in


def _group(item: Digest) -> RankGroup:
    return item.rank.groups[item.sent.group[_place(item)]]


def _others(
    item: Digest, kind: Sent, recorded: Mapping[int, Digest], places: CollectiveIndices
) -> Iterator[str]:
    """The members of the group that have not called the collective, or called another one."""
    if kind.communication.name in POINT_TO_POINT:
        yield from _peer(item, kind, recorded)
        return
    group, order = _group(item), item.sent.order[_place(item)]
    absent, others = [], dict[str, list[int]]()
    for rank in group.ranks:
        queue = places[group].get(rank, ())
        if rank not in recorded:
            continue
        if order >= len(queue):
            absent.append(rank)
        else:
            name = recorded[rank].sent.kinds[queue[order]].communication.name
            if name != kind.communication.name:
                others.setdefault(name, []).append(rank)
    if absent:
        yield f"{ranks_text(absent)} did not call it"
    for name, ranks in others.items():
        yield f"{ranks_text(ranks)} called {name}"


def _peer(item: Digest, kind: Sent, recorded: Mapping[int, Digest]) -> Iterator[str]:
    """The peer of a message, if it has not sent or received it."""
    peer = item.sent.peer[_place(item)]
    if peer not in recorded:
        return
    sends = kind.communication.name == "send"
    own, other = ("send", "recv") if sends else ("recv", "send")
    group, tag = _group(item), kind.communication.tag
    begun = _messages(item, own, group, tag, (peer,))
    # a receive from any rank may be that of this message
    matched = _messages(recorded[peer], other, group, tag, (item.rank.rank, -1))
    if begun > matched:
        yield f"rank {peer} did not {'receive' if sends else 'send'} it"


def _messages(
    item: Digest, name: str, group: RankGroup, tag: int, peers: Collection[int]
) -> int:
    """How many sends or receives, as *name* says, with one of *peers* a rank has begun."""
    sent = item.sent
    return sum(
        (kind.communication.name == "send") == (name == "send")
        and kind.communication.name in POINT_TO_POINT
        and kind.communication.tag == tag
        and peer in peers
        and item.rank.groups[index] == group
        for kind, peer, index in zip(sent.kinds, sent.peer, sent.group)
    )
