"""Rounds: how many iterations of a loop form one block. It is more than one if an iteration reads
results from several iterations before, as in reversible networks and multistep methods, or if
iterations take turns in what they read, as the stages of a Runge-Kutta method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from torchrecorder.graph.mappings import grouped

MAX_ROUNDS = 4
"""The maximum number of iterations in a block."""


class ReadsOfSiblings:
    """Which siblings read which. *readers* has the readers of each sibling."""

    def __init__(self, readers: Mapping[str, Sequence[str]]) -> None:
        self.readers = readers

    @cached_property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """What each reader reads."""
        return grouped((reader, item) for item, found in self.readers.items() for reader in found)


class Rounds:
    """The iterations of a loop, and the readers of each sibling in them.

    *units* are the siblings of each fold item of the loop, *length* of which form an iteration.
    """

    def __init__(self, units: Sequence[Sequence[str]], length: int, reads: ReadsOfSiblings) -> None:
        self.times = len(units) // length
        self.place = {
            item: divmod(number, length) for number, unit in enumerate(units) for item in unit
        }
        self.reads = reads

    def in_block(self) -> int:
        """The number of iterations per block, so that blocks are equal and pass values only to the
        next block."""
        found = {self._reach(), self._turns(), self._stages()} - {1}
        together = found.pop() if len(found) == 1 else 1
        return together if together <= MAX_ROUNDS else 1

    def _reach(self) -> int:
        """How many iterations later each result is read; 1 if that varies."""
        reach = [1] * self.times
        for item, (number, _) in self.place.items():
            for later, _ in self._read_at(item):
                reach[number] = max(reach[number], later - number)
        most = max(reach)
        return most if {*reach[:-most]} == {most} else 1

    def _stages(self) -> int:
        """After how many iterations the results are read in the same way again; 1 if there is no
        order."""
        reads: list[set[tuple[int, int, int]]] = [set() for _ in range(self.times)]
        for item, (number, position) in self.place.items():
            reads[number].update(
                (position, later - number, reader) for later, reader in self._read_at(item)
            )
        far = max((later for each in reads for _, later, _ in each), default=0)
        inner = reads[: self.times - far]  # later results have fewer readers
        for stages in range(1, min(MAX_ROUNDS, len(inner) // 2) + 1):
            if inner[stages:] == inner[:-stages]:
                return stages
        return 1

    def _turns(self) -> int:
        """After how many iterations the same outside value is read again; 1 if there is no
        order."""
        read: dict[tuple[str, int], set[int]] = {}
        for reader, (number, position) in self.place.items():
            for item in self.reads.sources.get(reader, ()):
                if item not in self.place:
                    read.setdefault((item, position), set()).add(number)
        found = {1, *(self._turn(sorted(numbers)) for numbers in read.values())}
        return max(found) if len(found) < 3 and 0 not in found else 1

    def _turn(self, numbers: Sequence[int]) -> int:
        """The distance between the iterations with these *numbers*; 0 if some are missing."""
        if len(numbers) == 1:
            return 1
        step = numbers[1] - numbers[0]
        return step if [*range(numbers[0] % step, self.times, step)] == [*numbers] else 0

    def _read_at(self, item: str) -> Iterator[tuple[int, int]]:
        """The iteration, and the position in it, of each sibling that reads *item*."""
        readers = self.reads.readers.get(item, ())
        return (self.place[reader] for reader in readers if reader in self.place)
