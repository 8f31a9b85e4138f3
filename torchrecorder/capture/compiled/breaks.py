"""Graph breaks: the op or scope at which a graph ends, with PyTorch's explanation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torchrecorder.build import Event
from torchrecorder.capture.compiled.match import Matched
from torchrecorder.capture.compiled.traced import Stop, Traced
from torchrecorder.capture.scope import scopes_around
from torchrecorder.events import GraphBreak, OpId, ScopeId, SourceLine
from torchrecorder.graph.nodes import Scope

_PARTS = re.compile(r"^ *(Explanation|Hint|Developer debug context): ?", re.MULTILINE)
_LINK = re.compile(r"https?://\S+")
_MORE = re.compile(r"^ *For more details about this graph break.*$", re.MULTILINE)

PLAIN = {
    "generic_jump": "branch on the value of a tensor",
    "step_unsupported": "a statement that cannot be in a graph",
}
"""Reasons by the name of the internal function that older versions of PyTorch report instead."""


class BreakMessage(NamedTuple):
    """PyTorch's message about a graph break, parsed."""

    reason: str
    explanation: str
    hints: tuple[str, ...]
    link: str


def parse(text: str) -> BreakMessage:
    """Parse a message of PyTorch: a title, and lines that begin with a keyword."""
    links = _LINK.findall("".join(_MORE.findall(text)))
    pieces = _PARTS.split(_MORE.sub("", text))
    parts = [(kind, " ".join(message.split())) for kind, message in zip(pieces[1::2], pieces[2::2])]
    title = " ".join(pieces[0].split())
    known = PLAIN.get(title.partition(" ")[0])
    return BreakMessage(
        f"{known} ({title.partition(' ')[0]})" if known else title,
        " ".join(message for kind, message in parts if kind == "Explanation"),
        tuple(message for kind, message in parts if kind == "Hint"),
        links[0] if links else "",
    )


def breaks(traced: Traced, matched: Matched, events: Sequence[Event]) -> Iterator[GraphBreak]:
    """The graph breaks, in the order of the graphs that they end."""
    places = _BreakLocator(matched, events)
    for number, graph in enumerate(traced.graphs):
        stop = graph.stop
        if stop is not None and stop.is_break:
            op, scope = places.of(number, stop)
            source = stop.lines[0] if stop.lines else None
            yield GraphBreak(number + 1, *parse(stop.reason), source, op, scope)


class _BreakLocator:
    """Finds the op or scope of each graph break."""

    def __init__(self, matched: Matched, events: Sequence[Event]) -> None:
        self.matched = matched
        self.spans = {
            span.graph: place for place, span in reversed([*enumerate(matched.spans)])
        }
        entered = [event for event in events if isinstance(event, Scope)]
        self.scopes = {event.id: event for event in entered}
        self.children: dict[ScopeId | None, list[Scope]] = {}
        for event in entered:
            self.children.setdefault(event.parent, []).append(event)

    def of(self, number: int, stop: Stop) -> tuple[OpId | None, ScopeId | None]:
        """The op and scope at which graph *number* ends; None for what is not found."""
        begin, end = self._between(number)
        line = stop.lines[0] if stop.lines else None
        for op, *_ in self.matched.candidates[begin:end]:
            if _same_line(op.source, line):
                return op.id, op.scope
        return None, self._inner(self._frame(number), stop, begin)

    def _between(self, number: int) -> tuple[int, int]:
        """The range of ops between the first run of a graph and the next run of any graph."""
        place, spans = self.spans.get(number), self.matched.spans
        if place is None:
            return 0, 0
        last = place + 1 == len(spans)
        after = len(self.matched.candidates) if last else spans[place + 1].first
        return spans[place].last + 1, after

    def _frame(self, number: int) -> ScopeId | None:
        """The scope of the compiled function of graph *number*."""
        for call, place in self.matched.found.get(number, ()):
            scope = self.matched.candidates[place].op.scope
            if call.lines and scope is not None:
                around = list(scopes_around(self.scopes, scope))
                called = [outer for outer in around if _same_line(outer.source, call.lines[-1])]
                return called[-1].parent if called else scope
        return None

    def _inner(self, scope: ScopeId | None, stop: Stop, begin: int) -> ScopeId | None:
        """The innermost scope inside *scope* that is on the stack of the break."""
        now = self.matched.candidates[begin - 1].op.index if begin else 0
        for line in reversed(stop.lines[1:]):
            called = [
                child for child in self.children.get(scope, ()) if _same_line(child.source, line)
            ]
            later = [item for item in called if item.index > now]
            if called:
                scope = (later or called[-1:])[0].id
        return scope


def _same_line(one: SourceLine | None, other: SourceLine | None) -> bool:
    """Whether both lines are known and equal."""
    return one is not None and other is not None and one[:2] == other[:2]
