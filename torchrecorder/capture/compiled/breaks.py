"""Breaks: where a graph ends and the model goes on in Python, and what PyTorch says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torchrecorder.capture.compiled.match import Matched
from torchrecorder.capture.compiled.traced import Stop, Traced
from torchrecorder.events import Event, GraphBreak, OpId, ScopeEntered, ScopeId, SourceLine

_PARTS = re.compile(r"^ *(Explanation|Hint|Developer debug context): ?", re.MULTILINE)
_LINK = re.compile(r"https?://\S+")
_MORE = re.compile(r"^ *For more details about this graph break.*$", re.MULTILINE)

PLAIN = {"generic_jump": "branch on the value of a tensor"}
"""Reasons that older versions of PyTorch give as the name of a function of theirs."""


class Said(NamedTuple):
    """The parts of what PyTorch says about a break."""

    reason: str
    explanation: str
    hints: tuple[str, ...]
    link: str


def read(text: str) -> Said:
    """The parts of a reason, which is one text: a title, and lines that begin with a word."""
    links = _LINK.findall("".join(_MORE.findall(text)))
    pieces = _PARTS.split(_MORE.sub("", text))
    told = [(kind, " ".join(said.split())) for kind, said in zip(pieces[1::2], pieces[2::2])]
    title = " ".join(pieces[0].split())
    known = PLAIN.get(title.partition(" ")[0])
    return Said(
        f"{known} ({title.partition(' ')[0]})" if known else title,
        " ".join(said for kind, said in told if kind == "Explanation"),
        tuple(said for kind, said in told if kind == "Hint"),
        links[0] if links else "",
    )


def breaks(traced: Traced, matched: Matched, events: Sequence[Event]) -> Iterator[GraphBreak]:
    """The breaks, in the order of the graphs that they end."""
    sources = {
        event.scope: event.source for event in events if isinstance(event, ScopeEntered)
    }
    parents = {event.scope: event.parent for event in events if isinstance(event, ScopeEntered)}
    places = _Places(matched, sources, parents)
    for number, graph in enumerate(traced.graphs):
        stop = graph.stop
        if stop is not None and stop.is_break:
            op, scope = places.of(number, stop)
            source = stop.lines[0] if stop.lines else None
            yield GraphBreak(number + 1, *read(stop.reason), source, op, scope)


class _Places:
    """Where in the recording a graph breaks."""

    def __init__(
        self,
        matched: Matched,
        sources: dict[ScopeId, SourceLine | None],
        parents: dict[ScopeId, ScopeId | None],
    ) -> None:
        self.matched = matched
        self.sources = sources
        self.parents = parents

    def of(self, number: int, stop: Stop) -> tuple[OpId | None, ScopeId | None]:
        """The op and the scope at which a graph stops, as far as they can be found."""
        begin, end = self._between(number)
        line = stop.lines[0] if stop.lines else None
        candidates = self.matched.candidates
        for op, _ in candidates[begin:end] if line is not None else ():
            if op.source is not None and op.source[:2] == line[:2]:
                return op.op, op.scope
        near = [each.op for each in (*candidates[max(begin - 1, 0):end], *candidates[end:end + 1])]
        for op in near:
            if line is not None and op.source is not None and _same_function(op.source, line):
                return None, op.scope
        around = candidates[begin - 1].op.scope if begin else None
        return None, self._common(around, stop)

    def _between(self, number: int) -> tuple[int, int]:
        """The candidates after the first run of a graph and before the next run of another."""
        spans = self.matched.spans
        for place, span in enumerate(spans):
            if span.graph == number:
                after = spans[place + 1].first if place + 1 < len(spans) else None
                total = len(self.matched.candidates)
                return span.last + 1, total if after is None else max(after, span.last + 1)
        return 0, 0

    def _common(self, scope: ScopeId | None, stop: Stop) -> ScopeId | None:
        """The scope around the last op of a graph in which the stack of the break lies."""
        outer = {line[:2] for line in stop.lines[1:]}
        while scope is not None:
            source = self.sources.get(scope)
            if source is None or source[:2] in outer or self.parents.get(scope) is None:
                return scope
            scope = self.parents.get(scope)
        return None


def _same_function(one: SourceLine, other: SourceLine) -> bool:
    return (one.file, one.function) == (other.file, other.function)
