"""Communications: captions of communication on the boxes of modules and ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from torchrecorder.annotations.amounts import of_bytes, of_seconds
from torchrecorder.annotations.communication import size
from torchrecorder.events import CALLED, Communication, ScopeId
from torchrecorder.views.view import Cluster, View

SHORTEST = 1e-4
"""Waits shorter than this, in seconds, are not shown."""

MAX_LINES = 4
"""The maximum number of lines on a box."""


class CommunicationCaptions:
    """Captions of communication in one view."""

    def __init__(self, view: View) -> None:
        self.recording = recording = view.recording
        rank = recording.run.rank
        groups = rank.groups if rank is not None else ()
        self.purposes = {group.name: group.purpose for group in groups}
        self._inside: dict[ScopeId, list[Communication]] = {}
        self._own: dict[ScopeId, list[Communication]] = {}
        self._of: dict[str, list[Communication]] = {}
        for communication in recording.communications:
            op = recording.ops.get(communication.op) if communication.op is not None else None
            place = communication.scope if op is None else op.scope  # may be a function
            around = recording.within(place)
            for scope in around:
                self._inside.setdefault(scope, []).append(communication)
            calls = (outer for outer in around if recording.scopes[outer].kind in CALLED)
            called = next(calls, None)
            if communication.op is not None and communication.op in view.box_of:
                self._of.setdefault(communication.op, []).append(communication)
            elif called is not None and place not in view.box_of:
                self._own.setdefault(called, []).append(communication)

    def closed(self, members: Iterable[str]) -> list[str]:
        """The communication in the outermost scopes of a box's *members*, one for each repeat."""
        if not self._inside:
            return []
        found = [ScopeId(member) for member in members if member in self.recording.scopes]
        inside = set(found)
        outermost = [
            scope for scope in found if self.recording.scopes[scope].parent not in inside
        ]
        return self._usual(self._inside, outermost)

    def open(self, cluster: Cluster) -> list[str]:
        """Communication directly in an open scope, and all folded with it, outside of ops."""
        return self._usual(self._own, [*map(ScopeId, cluster.calls or (cluster.id,))])

    def _usual(
        self, sent: Mapping[ScopeId, list[Communication]], scopes: Sequence[ScopeId]
    ) -> list[str]:
        """The messages of most *scopes* that send any, and how many scopes send each kind."""
        if sent.keys().isdisjoint(scopes):
            return []
        kinds = [_by_kind(sent.get(scope, ()), self.purposes) for scope in scopes]
        lines = [tuple(_lines(each)) for each in kinds]
        ((usual, _),) = Counter(filter(None, lines)).most_common(1)
        shown = kinds[lines.index(usual)]
        senders = {kind: sum(kind in each for each in kinds) for kind in shown}
        shares = {
            kind: f"in {some} of {len(lines)} calls" if some < len(lines) else ""
            for kind, some in senders.items()
        }
        if len({*shares.values()}) > 1:
            return _lines(shown, shares)
        return [*usual, *filter(None, {*shares.values()})]

    def op(self, op: str) -> list[str]:
        """The time that an op waited for other ranks, as text."""
        return [text for text in [_waited(self._of.get(op, ()))] if text]


_SentKind = tuple[bool, str, str]
"""Whether it ran in backward, the name of a communication, and its mesh dimension."""


def _by_kind(
    sent: Iterable[Communication], purposes: dict[str, str]
) -> dict[_SentKind, list[Communication]]:
    found: dict[_SentKind, list[Communication]] = {}
    for communication in sent:
        purpose = purposes.get(communication.group, "")
        place = purpose.removeprefix("mesh_") if purpose.startswith("mesh_") else ""
        kind = communication.backward, communication.name, place
        found.setdefault(kind, []).append(communication)
    return found


def _lines(
    found: Mapping[_SentKind, list[Communication]], shares: Mapping[_SentKind, str] = {}
) -> list[str]:
    """The lines about each kind, with its share if *shares* has one; those of forward first."""
    lines = list(_texts(sorted(found.items(), key=lambda item: item[0][0]), shares))
    more = len(lines) - MAX_LINES
    return lines if more <= 0 else [*lines[: MAX_LINES - 1], f"{more + 1} more"]


def _texts(
    found: Iterable[tuple[_SentKind, list[Communication]]], shares: Mapping[_SentKind, str]
) -> Iterator[str]:
    for kind, sent in found:
        backward, name, place = kind
        times = f" ×{len(sent)}" if len(sent) > 1 else ""
        amount = sum(map(size, sent))
        line = f"{name}{times}{' ' + place if place else ''}"
        line += f", {of_bytes(amount)}" if amount else ""
        line += f", {shares[kind]}" if shares.get(kind) else ""
        yield f"backward: {line}" if backward else line
        waited = _waited(sent)
        if waited:
            yield waited


def _waited(sent: Iterable[Communication]) -> str:
    """The longest wait and its rank; empty if it is short."""
    waits = [(item.waited_seconds or 0.0, item.last) for item in sent]
    seconds, rank = max(waits, key=itemgetter(0), default=(0.0, -1))
    return f"waited {of_seconds(seconds)} for rank {rank}" if seconds >= SHORTEST else ""
