"""Match recorded ops with the calls in compiled graphs.

Both come in run order: the ops from the eager run, the calls from the graphs in the order in
which they ran. They match if the function, the user's line, and the module (as far as the compiler
knows it) are the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torchrecorder.capture.compiled.traced import Traced, TracedGraph, TracedOp, canonical
from torchrecorder.events import ModuleId, OpCalled, OpId, OpKind


_Key = tuple[Any, ...]


class Candidate(NamedTuple):
    """An op that may be in a graph, and the module that called it."""

    op: OpCalled
    module: ModuleId | None


class Span(NamedTuple):
    """One run of a graph: from the first to the last of its ops."""

    graph: int
    first: int
    last: int


class Matched:
    """The ops of each graph.

    Args:
        traced: The graphs of the model.
        candidates: The ops that ran in it, in run order.
        modules: The modules of the recording by the ids of the objects.

    Attributes:
        graphs: For each op that is in a graph, the number of the graph.
        spans: For each run of a graph, where its ops lie among the candidates.
        unmatched: For each graph, the names of its calls that are no op.
        found: For each graph, its calls that are ops in its first run, and where these lie.
    """

    def __init__(
        self,
        traced: Traced,
        candidates: Sequence[Candidate],
        modules: Mapping[int, ModuleId],
    ) -> None:
        self.candidates = candidates
        self.modules = modules
        self.graphs: dict[OpId, int] = {}
        self.spans: list[Span] = []
        self.unmatched: dict[int, list[str]] = {}
        self.found: dict[int, list[tuple[TracedOp, int]]] = {}
        self._places = self._index()  # of those of a name, and of those of a name on a line
        self._used: set[int] = set()
        self._next = 0
        for number in traced.runs:
            self._take(number, traced.graphs[number])

    def in_python(self) -> Iterator[OpId]:
        """The ops that ran between two graphs, before the first, or after the last.

        Ops that a graph left out as irrelevant lie among its ops and are not listed. Neither are
        ops next
        to a graph that may be one of its unmatched calls.
        """
        inside = 0
        for place, (op, _) in enumerate(self.candidates):
            while inside < len(self.spans) and self.spans[inside].last < place:
                inside += 1
            before = self.spans[inside - 1].graph if inside else None
            after = self.spans[inside] if inside < len(self.spans) else None
            if op.op in self.graphs or after is not None and after.first < place:
                continue
            near = [before, after.graph if after is not None else None]
            lost = {name for item in near if item is not None for name in self.unmatched[item]}
            if op.outputs and op.kind is OpKind.CALLED and canonical(op.name) not in lost:
                yield op.op

    def _index(self) -> dict[_Key, list[int]]:
        """Where the ops of a name lie, and those of a name and a line."""
        places: dict[_Key, list[int]] = {}
        for place, (op, _) in enumerate(self.candidates):
            name = canonical(op.name)
            places.setdefault((name,), []).append(place)
            if op.source is not None:
                places.setdefault((name, op.source.file, op.source.line), []).append(place)
        return places

    def _take(self, number: int, graph: TracedGraph) -> None:
        """Find the ops of one run of a graph."""
        found: list[tuple[TracedOp, int]] = []
        lost: list[str] = []
        begin = self._next
        for call in graph.ops:
            place = self._find(call, begin)
            if place is None:
                lost.append(call.name)
                continue
            found.append((call, place))
            self._used.add(place)
            self._next = max(self._next, place + 1)
            self.graphs.setdefault(self.candidates[place].op.op, number)
        if found:
            places = [place for _, place in found]
            self.spans.append(Span(number, min(places), max(places)))
        if number not in self.found:
            self.found[number] = found
            self.unmatched[number] = lost

    def _find(self, call: TracedOp, begin: int) -> int | None:
        """The first op that can be *call*: after the last one found, else since *begin*.

        A call without a line of the user's code, as in a module of PyTorch that is compiled
        directly, is matched by its module alone.
        """
        wanted = {self.modules.get(module) for module in call.modules[-1:]} - {None}
        keys: list[_Key] = [(call.name, line.file, line.line) for line in call.lines]
        for start in (self._next, begin):
            for chosen in (keys, [(call.name,)] if wanted or not keys else []):
                found = [self._first(key, start, wanted) for key in chosen]
                known = [item for item in found if item is not None]
                if known:
                    return min(known)
        return None

    def _first(self, key: _Key, start: int, modules: set[ModuleId | None]) -> int | None:
        """The first op from *start* that is not taken yet and lies in one of *modules*."""
        places = self._places.get(key, ())
        for place in places[bisect_left(places, start) :]:
            if place not in self._used:
                if not modules or self.candidates[place].module in modules:
                    return place
        return None
