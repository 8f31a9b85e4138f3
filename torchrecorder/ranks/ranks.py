"""Ranks: the joined recordings of the processes of one run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchrecorder.annotations.amounts import of_bytes, of_seconds
from torchrecorder.checks import check_one, suggests_names, whole_number
from torchrecorder.console import encodable
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.table.alignment import Column, table
from torchrecorder.graph.mappings import grouped
from torchrecorder.ranks.combined import combined
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.join import Collective, join
from torchrecorder.ranks.lanes import Lane, group_equal_ranks, lane as combined_lane
from torchrecorder.ranks.sent import ranks_text
from torchrecorder.recording import Recording

if TYPE_CHECKING:
    import networkx as nx
    from typing_extensions import Unpack

    from torchrecorder.signatures import DrawingOptions


class Ranks:
    """The joined run of several processes, from `torchrecorder.gather`, `merge` or `plan`.

    Attributes:
        name: The name of the run.
        ranks: The ranks with a recording.
        lanes: The ranks that ran the same operations, combined; each with the recording of its
            first rank.
        collectives: The collectives, and sends with their receives, with their ranks.
        problems: One sentence for each mismatch between the ranks; empty if there is none.
        assumed: The ranks that were not run, but are assumed to be equal to others: see
            `torchrecorder.plan`.

    Args:
        digests: The digest of each rank.
        recordings: The recording of the first rank of each lane, by rank.
        expected: The ranks that should have a recording; by default all.
        assumed: The ranks that were not run.
    """

    def __init__(
        self,
        digests: Sequence[Digest],
        recordings: Mapping[int, Recording],
        *,
        expected: Iterable[int] | None = None,
        assumed: Iterable[int] = (),
    ) -> None:
        self.name = min(digests, key=lambda item: item.rank.rank).name
        self.ranks = tuple(sorted(item.rank.rank for item in digests))
        self.world = max(item.rank.world for item in digests)
        self.assumed = tuple(sorted(assumed))
        found, problems = join(digests, range(self.world) if expected is None else expected)
        self.collectives: tuple[Collective, ...] = tuple(found)
        self.problems: tuple[str, ...] = tuple(problems)
        self.lanes: tuple[Lane, ...] = tuple(
            combined_lane(members, recordings[members[0].rank.rank], self.assumed)
            for members in group_equal_ranks(digests)
        )

    def __repr__(self) -> str:
        counts = (
            (len(self.ranks), "rank"), (len(self.lanes), "lane"),
            (len(self.collectives), "collective"), (len(self.problems), "problem"),
        )
        text = ", ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in counts)
        return f"<Ranks of {self.name}: {text}>"

    @cached_property
    def recording(self) -> Recording:
        """All lanes in one recording. Each lane is a scope, and messages are edges between them.

        The operations with which FSDP and DTensor shard and gather tensors are removed.
        """
        return combined(self.name, self.lanes, self.collectives, sharding_ops=False)

    @cached_property
    def whole(self) -> Recording:
        """The same with all operations."""
        return combined(self.name, self.lanes, self.collectives, sharding_ops=True)

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The graph of `recording`."""
        return self.recording.graph

    def render(self, path: str | Path, **options: Unpack[DrawingOptions]) -> Path:
        """Write a figure of all lanes. The suffix of *path* selects the format.

        If lanes send messages to each other, as pipeline stages do, they are drawn from left to
        right, unless ``direction=`` is given.

        Args:
            path: The output file; an existing file is replaced.
            **options: The options of `Recording.render`.

        Returns:
            The path.

        Raises:
            UnknownFormat: No exporter has this suffix.
            InvalidArgument: An option is unknown or its value invalid.
            LayoutFailed: Graphviz failed or exceeded the time limit.
        """
        if {"direction", "rankdir"}.isdisjoint(options):
            lane_of = {rank: lane for lane in self.lanes for rank in lane.ranks}
            sent = (one.ranks for one in self.collectives if one.name == "send")
            if any(lane_of[ranks[0]] is not lane_of[ranks[1]] for ranks in sent):
                options["direction"] = "LR"
        return self.recording.render(path, **options)

    @suggests_names
    def summary(self, n: int = 20) -> str:
        """Tables of the lanes and of the modules that communicate most, then the problems.

        Args:
            n: The maximum number of modules.

        Raises:
            InvalidArgument: *n* is not a positive integer.
        """
        check_one("n", n, whole_number(1))
        title = f"{self.name}: {ranks_text(self.ranks)} of {self.world}"
        if self.assumed:
            run = {*self.ranks} - {*self.assumed}
            title += f"; {ranks_text(run)} recorded, the others assumed to be equal"
        return encodable(summary(title, self.lanes, self.collectives, self.problems, n))

    @suggests_names
    def top(self, name: str = "waited", n: int = 10) -> list[tuple[Collective, float]]:
        """The *n* collectives with the longest waits or the most bytes.

        Args:
            name: ``"waited"``, the longest wait of a rank in seconds; or ``"bytes"``.
            n: The maximum number of collectives.

        Returns:
            Pairs of a collective and its value, the largest value first.

        Raises:
            InvalidArgument: *name* is neither of these, or *n* is not a positive integer.
        """
        check_one("n", n, whole_number(1))
        if name not in ("waited", "bytes"):
            raise InvalidArgument(f"name must be 'waited' or 'bytes', not {name!r}")
        numbers = ((collective, getattr(collective, name)) for collective in self.collectives)
        known = [(item, float(number)) for item, number in numbers if number is not None]
        return sorted(known, key=lambda pair: -pair[1])[:n]


MODEL = "(the model)"
"""Communication of the root module, or outside of all modules."""


def summary(
    title: str,
    lanes: Sequence[Lane],
    collectives: Sequence[Collective],
    problems: Sequence[str],
    n: int,
) -> str:
    """All tables as text, with at most *n* modules."""
    parts = [title, _table(_lanes(lanes), right=(1, 2, 3))]
    if collectives:
        parts.append(_table(_modules(collectives, n), right=(3, 4, 5)))
    if problems:
        parts.append("Problems\n" + "\n".join(f"  {problem}" for problem in problems))
    return "\n\n".join(parts)


def _table(rows: Iterator[Sequence[str]], right: Collection[int]) -> str:
    """A table; the first of *rows* is its header, and empty columns are omitted."""
    titles, *lines = rows
    columns = [
        Column(title, [line[number] for line in lines], number in right)
        for number, title in enumerate(titles)
        if any(line[number] for line in lines)
    ]
    return "\n".join(table(columns))


def _lanes(lanes: Sequence[Lane]) -> Iterator[Sequence[str]]:
    yield "Lane", "Ranks", "Params size", "Communicated", "Slowest", "Differs in"
    for lane in lanes:
        slowest = "" if lane.seconds is None else f"{of_seconds(lane.seconds)}, rank {lane.slowest}"
        yield (
            lane.name, str(len(lane.ranks)), _span(lane.parameter_bytes), _span(lane.sent_bytes),
            slowest, ", ".join(lane.differs),
        )


def _span(ends: tuple[int, int]) -> str:
    low, high = map(of_bytes, ends)
    return low if low == high else f"{low} – {high}"


def _modules(collectives: Sequence[Collective], n: int) -> Iterator[Sequence[str]]:
    """Communication by module, most bytes first."""
    found = grouped(((one.path or MODEL, one.name, one.when), one) for one in collectives)
    yield "Module", "Communication", "When", "Times", "Bytes", "Waited", "For"
    order = sorted(found.items(), key=lambda item: -sum(entry.bytes for entry in item[1]))
    for (path, name, when), sent in order[:n]:
        longest = max(sent, key=lambda item: item.waited or 0.0)
        waited = longest.waited
        yield (
            path, name, when, str(len(sent)), of_bytes(sum(item.bytes for item in sent)),
            "" if waited is None else of_seconds(waited),
            "" if waited is None else f"rank {longest.last}",
        )
