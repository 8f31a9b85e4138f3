"""Ranks: one run of many processes, to look at, list and draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchrecorder.checks import advised, check_one, whole_number
from torchrecorder.console import encodable
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import GRADIENT_MESSAGE, MESSAGE, Rank
from torchrecorder.ranks.combined import combined
from torchrecorder.ranks.digest import Digest, digest
from torchrecorder.ranks.join import Collective, join, ranks_text
from torchrecorder.ranks.lanes import Lane, lane, sort_alike
from torchrecorder.ranks.packed import Shared, packed
from torchrecorder.recording import Recording

if TYPE_CHECKING:
    import networkx as nx
    from typing_extensions import Unpack

    from torchrecorder.signatures import DrawingOptions


class Ranks:
    """One run of many processes; `torchrecorder.gather`, `torchrecorder.merge` and `plan` give one.

    Attributes:
        name: The name of the run.
        ranks: The processes of which there is a recording.
        lanes: Processes that did the same, as one, with the recording of the first of them.
        collectives: Collectives, and sends with their receives, with all who took part.
        problems: What does not fit, a sentence each; empty where all of it does.
        assumed: The processes that were not run, but taken to do what others do: see
            `torchrecorder.plan`.

    Args:
        digests: Of each process.
        recordings: Of the first process of each lane.
        expected: The ranks of which there should be a recording; all if not given.
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
            lane(alike, recordings[alike[0].rank.rank], self.assumed)
            for alike in sort_alike(digests)
        )

    def __repr__(self) -> str:
        counts = (
            (len(self.ranks), "rank"), (len(self.lanes), "lane"),
            (len(self.collectives), "collective"), (len(self.problems), "problem"),
        )
        told = ", ".join(f"{number} {what}{'s' * (number != 1)}" for number, what in counts)
        return f"<Ranks of {self.name}: {told}>"

    @cached_property
    def recording(self) -> Recording:
        """All lanes as one recording: each is a scope, messages lead from one to the other.

        What FSDP and DTensor do to bring tensors where they are needed is left out.
        """
        return combined(self.name, self.lanes, self.collectives, plumbing=False)

    @cached_property
    def whole(self) -> Recording:
        """The same with everything that ran."""
        return combined(self.name, self.lanes, self.collectives, plumbing=True)

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The graph of `recording`."""
        return self.recording.graph

    def render(self, path: str | Path, **options: Unpack[DrawingOptions]) -> Path:
        """Write a figure of all lanes in the format that the suffix of *path* names.

        Stages of a pipeline, which send messages to each other, stand side by side; another
        ``direction=`` changes that.

        Args:
            path: Where to write; an existing file is replaced.
            **options: As for `Recording.render`.

        Returns:
            The path.

        Raises:
            UnknownFormat: No exporter writes this suffix.
            InvalidArgument: An option is unknown or its value impossible.
            LayoutFailed: Graphviz could not lay the figure out in time.
        """
        if not {"direction", "rankdir"} & options.keys() and self._sends_messages:
            options["direction"] = "LR"
        return self.recording.render(path, **options)

    @property
    def _sends_messages(self) -> bool:
        """Whether one lane sends to another, as the stages of a pipeline do."""
        inputs = (slot.name for op in self.recording.ops.values() for slot in op.inputs)
        return not {MESSAGE, GRADIENT_MESSAGE}.isdisjoint(inputs)

    @advised
    def summary(self, n: int = 20) -> str:
        """Tables of lanes, and of the modules that send most; then what does not fit.

        Args:
            n: How many modules are listed at most.

        Raises:
            InvalidArgument: *n* is no number from 1.
        """
        from torchrecorder.ranks.table import summary

        check_one("n", n, whole_number(1))
        title = f"{self.name}: {ranks_text(self.ranks)} of {self.world}"
        if self.assumed:
            run = sorted({*self.ranks} - {*self.assumed})
            title += f"; {ranks_text(run)} recorded, the others taken to do the same"
        told = summary(title, self.lanes, self.collectives, self.problems, n)
        return encodable(told)

    @advised
    def top(self, name: str = "waited", n: int = 10) -> list[tuple[Collective, float]]:
        """The *n* collectives that were waited for longest, or moved most.

        Args:
            name: ``"waited"``, seconds of the longest wait; or ``"bytes"``.
            n: How many.

        Returns:
            Pairs of a collective and its number, the largest first.

        Raises:
            InvalidArgument: There is no such number, or *n* is none from 1.
        """
        check_one("n", n, whole_number(1))
        if name not in ("waited", "bytes"):
            raise InvalidArgument(f"collectives have 'waited' and 'bytes', not {name!r}")
        numbers = ((collective, getattr(collective, name)) for collective in self.collectives)
        known = [(item, float(number)) for item, number in numbers if number is not None]
        return sorted(known, key=lambda pair: -pair[1])[:n]


def rank_of(recording: Recording, where: str) -> Rank:
    """Which process made *recording*; *where* says of which one is spoken.

    Raises:
        InvalidArgument: It was the only one.
    """
    if recording.run.rank is None:
        raise InvalidArgument(
            f"{where} was not recorded as one of several processes: torch.distributed has to be "
            "initialized before the recording begins"
        )
    return recording.run.rank


Source = tuple[str, Callable[[], Recording]]
"""What to call a recording in messages, and what gives it."""


def ranks_of(sources: Sequence[Source]) -> Ranks:
    """One run of the processes that made these recordings.

    Each is looked at on its own; only those that stand for a lane are kept.

    Raises:
        InvalidArgument: One is no recording of a process, or two are of the same.
    """
    if not sources:
        raise InvalidArgument("there is nothing to merge: give a recording of each process")
    digests: list[Digest] = []
    shared = Shared()
    seen: dict[int, Source] = {}
    for source in sources:
        where, load = source
        recording = load()
        rank = rank_of(recording, where)
        if rank.rank in seen:
            raise InvalidArgument(f"{where} and {seen[rank.rank][0]} are both of rank {rank.rank}")
        seen[rank.rank] = source
        digests.append(shared.unpacked(packed(digest(recording, rank))))
    firsts = [alike[0].rank.rank for alike in sort_alike(digests)]
    return Ranks(digests, {rank: seen[rank][1]() for rank in firsts})
