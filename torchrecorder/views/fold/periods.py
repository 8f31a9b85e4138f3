"""Periods: equal consecutive blocks of a sequence, and how many iterations of a loop are one block.

It is more than one if an iteration reads results from several iterations before, as in reversible
networks and multistep methods, or if iterations take turns in what they read, as the stages of a
Runge-Kutta method.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from torchrecorder.graph.mappings import grouped

MAX_PERIOD = 256
"""The maximum number of elements in a block."""

_TRIES = 12
"""The number of periods tried at each position: the distances to the next equal elements."""

MAX_ROUNDS = 4
"""The maximum number of iterations in a block."""


class Repetition(NamedTuple):
    """Equal consecutive blocks.

    Attributes:
        start: The start of the first block.
        period: The number of elements in a block.
        times: The number of blocks.
        spare: The number of elements after the last block that continue the pattern. The blocks
            could also start up to as many elements later.
    """

    start: int
    period: int
    times: int
    spare: int

    @property
    def end(self) -> int:
        """The end of the last block."""
        return self.start + self.period * self.times


def runs(
    keys: Sequence[Hashable], wanted: Callable[[Repetition], bool] = bool
) -> Iterator[Repetition]:
    """The runs of equal blocks in *keys*, in order and without overlap.

    At each position the longest run is taken, and of equally long ones that with the shortest
    period; one that is repeated as a whole, maybe from a later start, gives way to that run. It
    includes single elements before it that give one more block. None equals no other element. Runs
    that are not *wanted* are skipped.

    Example:
        >>> [tuple(run) for run in runs("xababab")]
        [(1, 2, 3, 0)]
        >>> [tuple(run) for run in runs("aaabaaab")]
        [(0, 4, 2, 0)]
        >>> [tuple(run) for run in runs("aaababab")]
        [(0, 1, 2, 0), (2, 2, 3, 0)]
        >>> [tuple(run) for run in runs("bababcababcababc")]
        [(1, 5, 3, 0)]
    """
    sequence = _Sequence(keys, wanted)
    before: Repetition | None = None
    place = 0
    while place < len(keys):
        found = sequence.best(place)
        if found is None:
            place += 1
            continue
        found = sequence.around(found)
        if before is not None:
            before, found = sequence.shared(before, found)
            if before.times > 1 and wanted(before):
                yield before
        before = found
        place = found.end
    yield from filter(None, (before,))


class _Sequence:
    """A sequence with a number for each different key, and the places of each number."""

    def __init__(self, keys: Sequence[Hashable], wanted: Callable[[Repetition], bool]) -> None:
        self.wanted = wanted
        numbers: dict[Hashable, int] = {}
        self.places: list[list[int]] = []
        self.codes: list[int] = []
        for place, key in enumerate(keys):
            name = (place, "alone") if key is None else ("key", key)
            code = numbers.setdefault(name, len(numbers))
            if code == len(self.places):
                self.places.append([])
            self.places[code].append(place)
            self.codes.append(code)

    def best(self, start: int, least: int = 1) -> Repetition | None:
        """The longest run that begins at *start*, of blocks with at *least* so many elements."""
        best = None
        for period in self._candidates(start, least):
            if best is not None and best.end == len(self.codes):
                break
            if self._equal(start, start + period, period):
                found = self._run(start, period)
                if self.wanted(found) and (best is None or found.end > best.end):
                    best = found
        return best

    def around(self, run: Repetition) -> Repetition:
        """*run*, or one that repeats all of it, from the first of its possible starts."""
        end = run.end + run.spare
        for start in range(run.start, run.start + run.spare + 1):
            found = self.best(start, end - start)
            if found is not None:
                return found
        return run

    def shared(self, before: Repetition, run: Repetition) -> tuple[Repetition, Repetition]:
        """Two runs, the second with the last elements of the first if it has one block more then.

        Only if the first repeats a single element.
        """
        more = run.period - run.spare
        if before.period > 1 or before.end != run.start or more >= before.times:
            return before, run
        start = run.start - more
        if not self._equal(start, start + run.period, run.period):
            return before, run
        return before._replace(times=before.times - more), self._run(start, run.period)

    def _candidates(self, start: int, least: int) -> Iterator[int]:
        """Distances of at *least* so much to the next elements that equal the one at *start*."""
        places = self.places[self.codes[start]]
        following = bisect_left(places, start + least)
        for place in places[following : following + _TRIES]:
            period = place - start
            if period > MAX_PERIOD:
                return
            yield period

    def _run(self, start: int, period: int) -> Repetition:
        codes, count = self.codes, 2
        while self._equal(start, start + count * period, period):
            count += 1
        end = start + count * period
        spare = 0
        while end + spare < len(codes) and codes[end + spare] == codes[start + spare]:
            spare += 1  # fewer than *period*, else they would be one more block
        return Repetition(start, period, count, spare)

    def _equal(self, first: int, second: int, length: int) -> bool:
        block = self.codes[second : second + length]
        return len(block) == length and block == self.codes[first : first + length]


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
