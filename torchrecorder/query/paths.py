"""Paths: the paths on which data flows from one part of a run to another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, overload

from torchrecorder.annotations.places import op_name
from torchrecorder.checks import check_one, whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import FunctionCall, OpId, ValueId
from torchrecorder.graph.nodes import GradNode, Module, Op, Value
from torchrecorder.graph.recording import Node, RecordedRun
from torchrecorder.graph.relations import ops_inside
from torchrecorder.query.find import first_kind

NodePath = tuple[Node, ...]
"""Ops and values alternately, in the direction of the data."""

_SHOWN = 20
"""Maximum number of paths in a text."""


@dataclass(frozen=True)
class Paths(Sequence[NodePath]):
    """Paths from one part of a run to another, the shortest first.

    ``len(paths)`` is the number of listed paths; ``str(paths)`` shows them, one per line. Each is
    found when it is first read: 100 paths of 10,000 nodes take longer than their number.

    Attributes:
        total: The number of all paths, listed or not.
        through: Ids of all ops and values on a path, listed or not, in topological order.
    """

    recording: RecordedRun
    listed: Sequence[NodePath]
    total: int
    through: tuple[str, ...]

    @overload
    def __getitem__(self, place: int) -> NodePath: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[NodePath, ...]: ...

    def __getitem__(self, place: int | slice) -> NodePath | tuple[NodePath, ...]:
        return self.listed[place] if isinstance(place, int) else tuple(self.listed[place])

    def __len__(self) -> int:
        return len(self.listed)

    def __repr__(self) -> str:
        more = f", {len(self.listed)} listed" if len(self.listed) < self.total else ""
        number = f"{_in_digits(self.total)} path{'s' * (self.total != 1)}"
        return f"<{number} in {self.recording.name}{more}>"

    def __str__(self) -> str:
        lines = [" → ".join(self._steps(path)) for path in self.listed[:_SHOWN]]
        left = self.total - len(lines)
        return "\n".join([*lines, f"and {_in_digits(left)} more"] if left else lines) or "no path"

    def _steps(self, path: NodePath) -> Iterator[str]:
        """The ops of a path, and named tensors at its ends."""
        for node in path:
            if isinstance(node, Op):
                yield op_name(self.recording, node)
            elif isinstance(node, Value) and (node.names or node.producer is None):
                yield node.names[0] if node.names else node.role.value


class _FoundPaths(Sequence[NodePath]):
    """The first *number* of *paths*, which are taken as far as they are read."""

    def __init__(self, paths: Iterator[NodePath], number: int) -> None:
        self._paths, self._number = paths, number
        self._found: list[NodePath] = []

    def __getitem__(self, place: Any) -> Any:
        places = range(self._number)
        wanted = places[place] if isinstance(place, slice) else [places[place]]
        self._found += islice(self._paths, max(0, 1 + max(wanted, default=-1) - len(self._found)))
        found = [self._found[at] for at in wanted]
        return found if isinstance(place, slice) else found[0]

    def __len__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, ([*self],)


def _in_digits(number: int) -> str:
    """*number* in digits, unless it is long; Python raises for very long ones."""
    return f"{number}" if number <= 10**100 else "more than 10^100"


def paths(recording: RecordedRun, start: str, end: str, *, limit: int) -> Paths:
    """The paths from *start* to *end*. See `torchrecorder.Recording.paths`."""
    check_one("limit", limit, whole_number(0))
    first, last = _nodes(recording, start), _nodes(recording, end)
    if first & last:
        raise InvalidArgument(
            f"{start!r} and {end!r} share operations or tensors: a path leads from one part of "
            "the run to another"
        )
    graph = _PathGraph(recording, first, last)
    total = graph.total()
    found = (tuple(map(recording.node, path)) for path in graph.shortest(limit))
    return Paths(recording, _FoundPaths(found, min(limit, total)), total, graph.through())


def _nodes(recording: RecordedRun, name: str) -> set[str]:
    """The ops and values with this *name*; for a module or call, the ops in it."""
    found: set[str] = set()
    for part in first_kind(recording, name):
        if isinstance(part, GradNode):
            raise InvalidArgument(
                f"{name!r} is a node of the autograd graph: paths lead between modules, "
                "operations and tensors"
            )
        if isinstance(part, (Op, Value)):
            found.add(part.id)
        elif isinstance(part, FunctionCall):
            found.update(_ops_of_function(recording, part))
        else:
            calls = part.calls if isinstance(part, Module) else (part.id,)
            found.update(ops_inside(recording, calls))
    if not found:
        raise InvalidArgument(f"no operation ran in {name!r}")
    return found


class _PathGraph:
    """The nodes on paths that leave the set *first* once and enter the set *last* once."""

    def __init__(self, recording: RecordedRun, first: set[str], last: set[str]) -> None:
        self.recording = recording
        self.first, self.last = first, last
        self.place = {node: at for at, node in enumerate((*recording.values, *recording.ops))}
        self.ordered = self._between()
        self.next = self._steps()

    def _between(self) -> list[str]:
        """The nodes that *first* reaches, in topological order."""
        seen, ordered = set(self.first), sorted(self.first, key=self.place.__getitem__)
        stack = [(node, self._readers(node)) for node in ordered]
        done: list[str] = []
        stack.reverse()
        while stack:
            node, readers = stack[-1]
            following = next((reader for reader in readers if reader not in seen), None)
            if following is None:
                done.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, self._readers(following)))
        return done[::-1]

    def _readers(self, node: str) -> Iterator[str]:
        """The next nodes after *node*; none at the end of a path, and none that go backwards."""
        if node in self.last:
            return
        op = self.recording.ops.get(OpId(node))
        found = self.recording.consumers.get(ValueId(node), ()) if op is None else op.outputs
        yield from (item for item in dict.fromkeys(found) if item not in self.first)

    def _steps(self) -> Mapping[str, tuple[str, ...]]:
        """For each node from which *last* can be reached, the next ones on a path, in run order."""
        steps: dict[str, tuple[str, ...]] = {}
        for node in reversed(self.ordered):
            following = [reader for reader in self._readers(node) if reader in steps]
            if following or node in self.last:
                steps[node] = tuple(sorted(following, key=self.place.__getitem__))
        return steps

    def total(self) -> int:
        """The number of paths."""
        ways: dict[str, int] = {}
        for node in reversed(self.ordered):
            if node in self.next:
                ways[node] = sum(ways[item] for item in self.next[node]) or int(node in self.last)
        return sum(ways.get(node, 0) for node in self.first)

    def through(self) -> tuple[str, ...]:
        """All nodes on a path."""
        return tuple(node for node in self.ordered if node in self.next)

    def shortest(self, limit: int) -> Iterator[tuple[str, ...]]:
        """At most *limit* paths, the shortest first; of equally long ones in run order."""
        starts = [node for node in self.ordered if node in self.first and node in self.next]
        starts.sort(key=self.place.__getitem__)
        lengths = self._lengths_of_paths(limit)
        wanted = sorted({length for start in starts for length in lengths[start]})
        found = (
            path
            for length in wanted
            for start in starts
            for path in self._of_length(start, length, lengths)
        )
        return islice(found, limit)

    def _lengths_of_paths(self, limit: int) -> Mapping[str, Sequence[int]]:
        """For each node the lengths of its paths to the end, at most *limit*, in order."""
        found: dict[str, Sequence[int]] = {}
        for node in reversed(self.ordered):
            if node in self.next:
                more = {1 + length for item in self.next[node] for length in found[item]}
                found[node] = sorted(more or {0})[:limit]
        return found

    def _of_length(
        self, start: str, length: int, lengths: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[str, ...]]:
        """The paths of this *length* from *start*, in run order; each step leads to the end."""

        def steps(node: str) -> Iterator[str]:
            left, following = length - len(path), self.next[node]
            if len(following) == 1:
                return iter(following)
            return (item for item in following if _is_in(lengths[item], left))

        if not _is_in(lengths[start], length):
            return
        path = [start]
        waiting = [steps(start)]
        while waiting:
            if len(path) > length:
                yield tuple(path)
            node = next(waiting[-1], None)
            if node is None:
                waiting.pop()
                path.pop()
            else:
                path.append(node)
                waiting.append(steps(node))


def _is_in(numbers: Sequence[int], number: int) -> bool:
    """Whether a *number* is one of sorted *numbers*."""
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


def _ops_of_function(recording: RecordedRun, call: FunctionCall) -> Iterator[OpId]:
    """The ids of all ops in *call*, including those in functions and modules that it called."""
    inside = {call.id}
    for later in recording.function_calls.values():
        if later.id == call.id or later.parent in inside:
            inside.add(later.id)
            yield from later.ops
            yield from ops_inside(recording, later.scopes)
