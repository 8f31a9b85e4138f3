"""Ended: how the run of each rank ended, as text, and the ranks that a blocked one waits for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import networkx as nx

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
    """One sentence for the ranks without a recording, for all that ended in the same way, apart
    from numbers in the error, such as ports, and for each circle of ranks that wait for each other.

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
    yield from _circles(recorded, places)


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
    """The ranks that have not called it, and those that called another collective in its place."""
    name = kind.communication.name
    missing = _awaited(item, recorded, places)
    if missing:
        verb = {"send": "receive", "recv": "send"}.get(name, "call")
        yield f"{ranks_text(missing)} did not {verb} it"
    if name in POINT_TO_POINT:
        return
    group, order = _group(item), item.sent.order[_place(item)]
    others = dict[str, list[int]]()
    for rank in group.ranks:
        if rank in recorded and rank not in missing:
            called = recorded[rank].sent.kinds[places[group][rank][order]].communication.name
            if called != name:
                others.setdefault(called, []).append(rank)
    for called, ranks in others.items():
        yield f"{ranks_text(ranks)} called {called}"


def _awaited(
    item: Digest, recorded: Mapping[int, Digest], places: CollectiveIndices
) -> dict[int, None]:
    """The ranks that have not called what *item* waits in: its collective, or the other end of its
    message."""
    communication, group = item.sent.kinds[_place(item)].communication, _group(item)
    if communication.name not in POINT_TO_POINT:
        order, queues = item.sent.order[_place(item)], places[group]
        return dict.fromkeys(
            rank for rank in group.ranks if rank in recorded and order >= len(queues.get(rank, ()))
        )
    peer, tag = item.sent.peer[_place(item)], communication.tag
    if peer not in recorded:
        return {}
    own, other = ("send", "recv") if communication.name == "send" else ("recv", "send")
    begun = _messages(item, own, group, tag, (peer,))
    # a receive from any rank may be that of this message
    matched = _messages(recorded[peer], other, group, tag, (item.rank.rank, -1))
    return {peer: None} if begun > matched else {}


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


_INTERRUPTED = {UNFINISHED, "KeyboardInterrupt"}
"""The endings of a run that tell that a communication in which it ended was still waiting: other
errors may be those of a call that failed at once."""


def _circles(recorded: Mapping[int, Digest], places: CollectiveIndices) -> Iterator[str]:
    """For ranks that wait for each other, the shortest circle that the first of them is in."""
    waits = nx.DiGraph()
    for rank, item in recorded.items():
        if item.waits_in is not None and _error(item) in _INTERRUPTED:
            waits.add_edges_from((rank, other) for other in _awaited(item, recorded, places))
    for ranks in sorted(nx.strongly_connected_components(waits), key=min):
        if len(ranks) > 1:
            first = min(ranks)
            paths = nx.single_source_shortest_path(waits.subgraph(ranks), first)
            last = min(ranks & {*waits.pred[first]}, key=lambda rank: (len(paths[rank]), rank))
            circle = [*paths[last], first]
            still = all(_error(recorded[rank]) == UNFINISHED for rank in circle)
            text = " → ".join(map(str, circle))
            yield f"ranks {text} {'wait' if still else 'waited'} for each other"


def _error(item: Digest) -> str:
    """The class of the error, without the line that raised it."""
    return item.failure.partition(": ")[0].partition(" at ")[0]
