"""Match recorded ops with the calls in compiled graphs.

Both come in run order: the ops from the eager run, the calls from the graphs in the order in
which they ran. They are told to be the same by what is called, on which of the user's lines,
and in which module, as far as the compiler knows it.

A model may run other lines when it is compiled (``if torch.compiler.is_compiling()``). What is
not found on its line is looked for between the ops found before and after it: there have to be
as many ops of its name and shapes as there are such calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchrecorder.capture.compiled.traced import Traced, TracedGraph, TracedOp, canonical
from torchrecorder.events import ModuleId, OpCalled, OpId, OpKind


_Key = tuple[Any, ...]
_Shapes = tuple[tuple[int, ...], ...]


class Candidate(NamedTuple):
    """An op that may be in a graph, the module in whose call it ran, the shapes of its results."""

    op: OpCalled
    module: ModuleId | None
    shapes: _Shapes


class Span(NamedTuple):
    """One run of a graph: from the first to the last of its ops."""

    graph: int
    first: int
    last: int


@dataclass
class _Call:
    """A call in one run of a graph, and where its op lies, if it was found.

    One of nothing stands for the end of all ops.
    """

    op: TracedOp | None
    place: int | None


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
        runs = [(number, self._by_line(traced.graphs[number])) for number in traced.runs]
        self._fill_gaps([call for _, calls in runs for call in calls])
        for number, calls in runs:
            self._keep(number, calls)

    def in_python(self) -> Iterator[OpId]:
        """The ops that ran between two graphs, before the first, or after the last.

        Ops that a graph left out as irrelevant lie among its ops and are not listed. Neither are
        ops next to a graph that may be one of its unmatched calls.
        """
        inside = 0
        for place, (op, *_) in enumerate(self.candidates):
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
        for place, (op, *_) in enumerate(self.candidates):
            name = canonical(op.name)
            places.setdefault((name,), []).append(place)
            if op.source is not None:
                places.setdefault((name, op.source.file, op.source.line), []).append(place)
        return places

    def _by_line(self, graph: TracedGraph) -> list[_Call]:
        """The calls in one run of a graph, each with where it was found."""
        begin = self._next
        calls = []
        for call in graph.ops:
            place = self._find(call, begin)
            calls.append(_Call(call, place))
            if place is not None:
                self._used.add(place)
                self._next = max(self._next, place + 1)
        return calls

    def _fill_gaps(self, calls: Sequence[_Call]) -> None:
        """Find what is on none of its lines, between what is found before and after it."""
        begin = 0
        lost: list[_Call] = []
        for call in (*calls, _Call(None, len(self.candidates))):
            if call.place is None:
                lost.append(call)
                continue
            self._fill(lost, begin, call.place)
            begin, lost = call.place + 1, []

    def _fill(self, lost: Sequence[_Call], begin: int, end: int) -> None:
        """Find *lost* calls from *begin* to *end*: those of which there are as many ops."""
        alike: dict[tuple[str, _Shapes, tuple[int, ...]], list[_Call]] = {}
        for call in lost:
            if call.op is not None and call.op.lines:
                alike.setdefault((call.op.name, call.op.shapes, call.op.modules), []).append(call)
        for (name, shapes, modules), group in alike.items():
            places = list(self._fitting(name, shapes, modules, begin, end))
            if len(places) == len(group):
                self._used.update(places)
                for call, place in zip(group, places):
                    call.place = place

    def _fitting(
        self, name: str, shapes: _Shapes, modules: tuple[int, ...], begin: int, end: int
    ) -> Iterator[int]:
        """The ops from *begin* to *end* that may be such a call, on whatever line."""
        wanted = self._wanted(modules)
        places = self._places.get((name,), [])
        for place in places[bisect_left(places, begin) : bisect_left(places, end)]:
            _, module, made = self.candidates[place]
            if place not in self._used and (not wanted or module in wanted):
                if _same_shapes(shapes, made):
                    yield place

    def _keep(self, number: int, calls: Sequence[_Call]) -> None:
        """Keep what was found of one run of a graph."""
        found = [(call.op, call.place) for call in calls if call.op and call.place is not None]
        for _, place in found:
            self.graphs.setdefault(self.candidates[place].op.op, number)
        if found:
            places = [place for _, place in found]
            self.spans.append(Span(number, min(places), max(places)))
        if number not in self.found:
            self.found[number] = found
            lost = [call.op for call in calls if call.place is None]
            self.unmatched[number] = [op.name for op in lost if op is not None]

    def _wanted(self, modules: tuple[int, ...]) -> set[ModuleId | None]:
        """The innermost of *modules*, if it is one of the recording."""
        return {self.modules.get(module) for module in modules[-1:]} - {None}

    def _find(self, call: TracedOp, begin: int) -> int | None:
        """The first op that can be *call*: after the last one found, else since *begin*.

        A call without a line of the user's code, as in a module of PyTorch that is compiled
        directly, is matched by its module alone.
        """
        wanted = self._wanted(call.modules)
        keys: list[_Key] = [(call.name, line.file, line.line) for line in call.lines]
        for start in (self._next, begin):
            found = [self._first(key, start, wanted) for key in keys or [(call.name,)]]
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


def _same_shapes(traced: _Shapes, made: _Shapes) -> bool:
    """Whether they are the same, as far as the compiler knew sizes."""
    return len(traced) == len(made) and all(
        len(one) == len(other) and all(size in (-1, real) for size, real in zip(one, other))
        for one, other in zip(traced, made)
    )
