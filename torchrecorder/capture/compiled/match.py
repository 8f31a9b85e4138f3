"""Match recorded ops with the calls in compiled graphs.

Both are sequences in run order: the ops of the eager run, and the calls of the graphs in the order
in which the graphs ran. A call and an op match if they have the same name, source line, module and
output shapes, as far as the compiler knows these. The matching keeps the run order, and has the
maximum number of pairs.

A compiled model may run other lines (``if torch.compiler.is_compiling()``), and PyTorch reports
wrong line numbers for some functions that resume after a graph break. Calls without a match on
their line are matched by name and shapes with the ops between two matched ones, if the numbers are
equal. Each remaining call has a kind, which says why it has no op.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from torchrecorder.capture.compiled.traced import Traced, TracedOp, canonical
from torchrecorder.events import ModuleId, OpId, OpKind, UnmatchedCall
from torchrecorder.graph.align import in_order
from torchrecorder.graph.nodes import Op

_CallKey = tuple[Any, ...]
_Shapes = tuple[tuple[int, ...], ...]

_SLACK = 16
"""Call n of a line is compared with at least the ops n - 16 to n + 16 of the line."""


class Candidate(NamedTuple):
    """An op that may be in a graph; the classes of the modules around it, by id; the shapes of its
    results."""

    op: Op
    modules: Mapping[ModuleId, str]
    shapes: _Shapes


class Span(NamedTuple):
    """One run of a graph: the indices of its first and last op."""

    graph: int
    first: int
    last: int


@dataclass
class _GraphCall:
    """A call in one run of a graph, its innermost module, and the index of its op, if found.

    A graph may run again for another module of the same class; then only the class is known.
    """

    op: TracedOp
    module: ModuleId | None
    cls: str | None  # of the module, if the graph runs again
    place: int | None = None

    @property
    def key(self) -> _CallKey:
        """The name and line; only the name if no user code is on the stack."""
        return (self.op.name, *self.op.lines[0][:2]) if self.op.lines else (self.op.name,)


class Matched:
    """The match of the calls in *traced* with *candidates*, the ops of the model in run order."""

    def __init__(
        self, traced: Traced, candidates: Sequence[Candidate], modules: Mapping[int, ModuleId]
    ) -> None:
        self.candidates = candidates
        self.modules = modules
        self.graphs: dict[OpId, int] = {}  # for each op that is in a graph, the index of the graph
        # for each run of a graph, the range of its ops among the candidates
        self.spans: list[Span] = []
        # for each graph, its calls without an op
        self.unmatched: dict[int, list[UnmatchedCall]] = {}
        # for each graph, the calls of its first run that have an op, with the index of this
        self.found: dict[int, list[tuple[TracedOp, int]]] = {}
        self._places = self._index()
        self._used: set[int] = set()
        classes = {module: cls for item in candidates for module, cls in item.modules.items()}
        runs, ran = list[tuple[int, list[_GraphCall]]](), set[int]()
        for number in traced.runs:
            again = classes if number in ran else {}
            runs.append((number, list(self._calls(traced.graphs[number].ops, again))))
            ran.add(number)
        calls = [call for _, run in runs for call in run]
        self._match_lines(calls)
        self._fill_gaps(calls)
        for number, run in runs:
            self._keep(number, run)

    def in_python(self) -> Iterator[OpId]:
        """The ops that ran before, between and after the graphs.

        Without ops among those of a graph, which it left out as dead code, and without ops next to
        a graph that have the name of one of its unmatched calls.
        """
        inside = 0
        lost = {graph: {call.name for call in calls} for graph, calls in self.unmatched.items()}
        for place, (op, *_) in enumerate(self.candidates):
            while inside < len(self.spans) and self.spans[inside].last < place:
                inside += 1
            near = self.spans[max(inside - 1, 0) : inside + 1]
            if op.id in self.graphs or any(span.first < place <= span.last for span in near):
                continue
            name = canonical(op.name)
            if op.outputs and op.kind is OpKind.CALLED:
                if not any(name in lost[span.graph] for span in near):
                    yield op.id

    def _index(self) -> dict[_CallKey, list[int]]:
        """The indices of the candidates by name, by name and line, and by line."""
        places: dict[_CallKey, list[int]] = {}
        for place, (op, *_) in enumerate(self.candidates):
            name = canonical(op.name)
            places.setdefault((name,), []).append(place)
            if op.source is not None:
                places.setdefault((name, *op.source[:2]), []).append(place)
                places.setdefault(op.source[:2], []).append(place)
        return places

    def _calls(
        self, ops: Sequence[TracedOp], classes: Mapping[ModuleId, str]
    ) -> Iterator[_GraphCall]:
        """The calls in one run of a graph; *classes* of modules after the first run."""
        for op in ops:
            around = (self.modules.get(module) for module in reversed(op.modules))
            module = next(filter(None, around), None)
            cls = classes.get(module) if module is not None else None
            yield _GraphCall(op, module if cls is None else None, cls)

    def _match_lines(self, calls: Sequence[_GraphCall]) -> None:
        """Match a maximum number of calls, in run order, by line, module and shapes."""
        counts = Counter(call.key for call in calls)
        ranks: Counter[_CallKey] = Counter()
        possible = []
        for call in calls:
            possible.append(list(self._on_line(call, ranks[call.key], counts[call.key])))
            ranks[call.key] += 1
        for number, place in in_order(possible).items():
            self._found(calls[number], place)

    def _found(self, call: _GraphCall, place: int) -> None:
        call.place = place
        self._used.add(place)

    def _on_line(self, call: _GraphCall, rank: int, count: int) -> Iterator[int]:
        """The indices of ops that may be *call*, which is number *rank* of *count* with its key.

        Only ops with nearly the same number among those with the key are compared.
        """
        places = self._places.get(call.key, [])
        more = len(places) - count
        first, last = rank + min(more, 0) - _SLACK, rank + max(more, 0) + _SLACK
        return (place for place in places[max(first, 0) : last + 1] if self._fits(call, place))

    def _fits(self, call: _GraphCall, place: int) -> bool:
        """Whether an op ran in the module of *call*, and its results have the shapes of *call*."""
        shapes = self.candidates[place].shapes
        return self._inside(call, place) and _can_be_equal(call.op.shapes, shapes)

    def _inside(self, call: _GraphCall, place: int) -> bool:
        """Whether an op ran in the module of *call*, or in one of its class, as far as known."""
        modules = self.candidates[place].modules
        fits = call.cls is None or call.cls in modules.values()
        return fits and (call.module is None or call.module in modules)

    def _fill_gaps(self, calls: Sequence[_GraphCall]) -> None:
        """Match the remaining calls with ops between the nearest matched calls."""
        begin = 0
        lost: list[_GraphCall] = []
        for call in calls:
            if call.place is None:
                lost.append(call)
                continue
            self._fill(lost, begin, call.place)
            begin, lost = call.place + 1, []
        self._fill(lost, begin, len(self.candidates))

    def _fill(self, lost: Sequence[_GraphCall], begin: int, end: int) -> None:
        """Match *lost* calls with ops from *begin* to *end*, if their numbers are equal."""

        def fitting(call: _GraphCall) -> Iterator[int]:  # on any line
            return filter(partial(self._fits, call), self._between((call.op.name,), begin, end))

        def there(call: _GraphCall) -> Iterator[int]:  # of its name and line, of any shapes
            return filter(partial(self._inside, call), self._between(call.key, begin, end))

        self._pair(lost, fitting, lambda call: call.op.shapes)
        self._pair(lost, there, lambda call: call.key)

    def _pair(
        self,
        lost: Sequence[_GraphCall],
        places_of: Callable[[_GraphCall], Iterator[int]],
        key: Callable[[_GraphCall], _CallKey],
    ) -> None:
        """Match *lost* calls of equal *key* with the ops at *places_of* them, if as many."""
        alike: dict[_CallKey, list[_GraphCall]] = {}
        for call in lost:
            if call.op.lines and call.place is None:
                alike.setdefault((call.op.name, call.module, key(call)), []).append(call)
        for group in alike.values():
            places = list(places_of(group[0]))
            if len(places) == len(group):
                for call, place in zip(group, places):
                    self._found(call, place)

    def _between(self, key: _CallKey, begin: int, end: int) -> Iterator[int]:
        """The unmatched ops from *begin* to *end* with this name, or name and line."""
        places = self._places.get(key, [])
        inside = places[bisect_left(places, begin) : bisect_left(places, end)]
        return (place for place in inside if place not in self._used)

    def _keep(self, number: int, calls: Sequence[_GraphCall]) -> None:
        """Store the matches of one run of a graph."""
        found = [(call.op, call.place) for call in calls if call.place is not None]
        for _, place in found:
            self.graphs.setdefault(self.candidates[place].op.id, number)
        if found:
            places = [place for _, place in found]
            self.spans.append(Span(number, min(places), max(places)))
        if number not in self.found:
            self.found[number] = found
            lost = (call for call in calls if call.place is None)
            self.unmatched[number] = [
                UnmatchedCall(call.op.name, self._kind(call), next(iter(call.op.lines), None))
                for call in lost
            ]

    def _kind(self, call: _GraphCall) -> str:
        """Why *call* has no op: a key of `UNMATCHED`."""
        if call.op.numpy:
            return "NumPy"
        if not call.op.lines:
            return "no line"
        if named := self._places.get(call.key):
            return "more often" if self._used.issuperset(named) else "elsewhere"
        if call.op.number:
            return "number"
        return "other function" if call.key[1:] in self._places else "only compiled"


def _can_be_equal(traced: _Shapes, made: _Shapes) -> bool:
    """Whether the shapes of results are equal, as far as they are known.

    The compiler does not know all sizes. The recorded results exclude arguments that are returned
    unchanged, and end with written buffers.
    """
    return all(
        len(one) == len(other) and all(size in (-1, real) for size, real in zip(one, other))
        for one, other in zip(traced, made)
    )
