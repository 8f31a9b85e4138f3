"""Periods: equal consecutive blocks of a sequence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

MAX_PERIOD = 256
"""The maximum number of elements in a block."""

_TRIES = 12
"""The number of periods tried at each position: the distances to the next equal elements."""


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
