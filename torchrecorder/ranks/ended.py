"""Ended: how the run of each rank ended, as text, and the ranks that a blocked one waits for."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import networkx as nx

from torchrecorder.events import POINT_TO_POINT, UNFINISHED, RankGroup
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import Sent, group_text, place_text, ranks_text

CollectiveIndices = Mapping[RankGroup, Mapping[int, Sequence[int]]]
"""For each group and rank, the indices of its collectives among its communications."""


class _Blocked:
    """What the recorded ranks wait for."""

    def __init__(self, digests: Sequence[Digest], places: CollectiveIndices) -> None:
        self.recorded = {digest.rank.rank: digest for digest in digests}
        self._places = places
        self._callers: dict[tuple[RankGroup, int], dict[str, tuple[int, ...]]] = {}
        self.group_text = functools.cache(group_text)
        self.ranks_text = functools.cache(ranks_text)

    def callers(self, item: Digest) -> dict[str, tuple[int, ...]]:
        """The recorded ranks of the group by the name of what they called in the place of the
        collective that *item* waits in, or by "" if they called nothing.

        It is found once for each collective, as all ranks may wait in the same.
        """
        group, order = _group(item), item.sent.order[_place(item)]
        if (group, order) not in self._callers:
            found: dict[str, list[int]] = {}
            for rank in group.ranks:
                if rank in self.recorded:
                    queue = self._places[group].get(rank, ())
                    kinds = self.recorded[rank].sent.kinds
                    called = kinds[queue[order]].communication.name if order < len(queue) else ""
                    found.setdefault(called, []).append(rank)
            self._callers[group, order] = {name: tuple(ranks) for name, ranks in found.items()}
        return self._callers[group, order]

    def awaited(self, item: Digest) -> tuple[int, ...]:
        """The ranks that have not called what *item* waits in: its collective, or the other end of
        its message."""
        communication, group = item.sent.kinds[_place(item)].communication, _group(item)
        if communication.name not in POINT_TO_POINT:
            return self.callers(item).get("", ())
        peer, tag = item.sent.peer[_place(item)], communication.tag
        if peer not in self.recorded:
            return ()
        own, other = ("send", "recv") if communication.name == "send" else ("recv", "send")
        begun = _messages(item, own, group, tag, (peer,))
        # a receive from any rank may be that of this message
        matched = _messages(self.recorded[peer], other, group, tag, (item.rank.rank, -1))
        return (peer,) if begun > matched else ()


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
    blocked = _Blocked(digests, places)
    found: dict[_Ending, list[int]] = {}
    first: dict[str, _Ending] = {}
    for item in digests:
        if item.failure:
            ending = _ending(item, blocked)
            error, _, message = item.failure.partition(": ")
            same = ending.rest.removesuffix(item.failure) + error + re.sub(r"\d+", "", message)
            ending = first.setdefault(f"{ending.one}{same}", ending)
            found.setdefault(ending, []).append(item.rank.rank)
    complete = [item.rank.rank for item in digests if not item.failure]
    if complete and any(item.waits_in is not None for item in digests):
        found[_Ending("ran to its end", "ran to their end", "")] = complete
    for (one, several, rest), ranks in sorted(found.items(), key=lambda item: min(item[1])):
        yield f"{ranks_text(ranks)} {one if len(ranks) == 1 else several}{rest}"
    yield from _circles(blocked)


def _ending(item: Digest, blocked: _Blocked) -> _Ending:
    where, others = "", ""
    if item.waits_in is not None:
        kind = item.sent.kinds[item.waits_in]
        where = f" in {_communication(item, kind, blocked)}"
        others = "".join(f"; {text}" for text in _others(item, kind, blocked))
    error, _, message = item.failure.partition(": ")
    if error != UNFINISHED:
        rest = f"{where}{others}: {item.failure}" if where else f" with {item.failure}"
        return _Ending("failed", "failed", rest)
    if item.waits_in is None:
        return _Ending("did not end", "did not end", f": {message}")
    place = place_text(kind)
    reason = message.removesuffix(place) if place else message
    return _Ending("waits", "wait", f"{where} ({reason}){others}")


def _communication(item: Digest, kind: Sent, blocked: _Blocked) -> str:
    """``"no. 4 of group default_pg (ranks 0–1), all_reduce of 32 B in fc at train.py:12"``."""
    sent, group = kind.communication, blocked.group_text(_group(item))
    if sent.name in POINT_TO_POINT:
        to = "to" if sent.name == "send" else "from"
        peer = item.sent.peer[_place(item)]
        whom = f"rank {peer}" if peer >= 0 else "any rank"
        size = f"{max(sent.given, sent.received):,} B"
        text = f"{sent.name} of {size} {to} {whom} with tag {sent.tag}"
        return f"{text} in {group},{place_text(kind)}".rstrip(",")
    order = item.sent.order[_place(item)] + 1
    call = f"{sent.name} of {max(sent.given, sent.received):,} B{place_text(kind)}"
    return f"no. {order} of {group}, {call}"


def _place(item: Digest) -> int:
    assert item.waits_in is not None
    return item.waits_in


def _group(item: Digest) -> RankGroup:
    return item.rank.groups[item.sent.group[_place(item)]]


def _others(item: Digest, kind: Sent, blocked: _Blocked) -> Iterator[str]:
    """The ranks that have not called it, and those that called another collective in its place."""
    name = kind.communication.name
    if missing := blocked.awaited(item):
        verb = {"send": "receive", "recv": "send"}.get(name, "call")
        yield f"{blocked.ranks_text(missing)} did not {verb} it"
    for called, ranks in blocked.callers(item).items() if name not in POINT_TO_POINT else ():
        if called not in ("", name):
            yield f"{blocked.ranks_text(ranks)} called {called}"


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


def _circles(blocked: _Blocked) -> Iterator[str]:
    """For ranks that wait for each other, the shortest circle that the first of them is in."""
    recorded, waits = blocked.recorded, nx.DiGraph()
    for rank, item in recorded.items():
        if item.waits_in is not None and _error(item) in _INTERRUPTED:
            # all ranks that wait for the same ones share a node: there is no edge for each pair
            awaited = blocked.awaited(item)
            if awaited not in waits:
                waits.add_edges_from((awaited, other) for other in awaited)
            waits.add_edge(rank, awaited)
    found = [nodes for nodes in nx.strongly_connected_components(waits) if len(nodes) > 2]
    for first, nodes in sorted((min(recorded.keys() & nodes), nodes) for nodes in found):
        paths = nx.single_source_shortest_path(waits.subgraph(nodes), first)
        before = {rank for awaited in waits.pred[first] for rank in waits.pred[awaited]}
        last = min(before & nodes, key=lambda rank: (len(paths[rank]), rank))
        circle = [*paths[last][::2], first]
        still = all(_error(recorded[rank]) == UNFINISHED for rank in circle)
        text = " → ".join(map(str, circle))
        yield f"ranks {text} {'wait' if still else 'waited'} for each other"


def _error(item: Digest) -> str:
    """The class of the error, without the line that raised it."""
    return item.failure.partition(": ")[0].partition(" at ")[0]
