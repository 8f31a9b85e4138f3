"""Rounds: how many rounds of a loop are one block, because they read what was made several rounds
before, as in reversible networks and multistep methods, or take turns in what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

MAX_ROUNDS = 4
"""The maximum number of rounds in a block."""


class Rounds:
    """The rounds of a loop, and the siblings that read each other in them.

    *units* are the siblings of each unit of the loop, of which *length* are a round; *readers* are
    the siblings that read each one.
    """

    def __init__(
        self, units: Sequence[Sequence[str]], length: int, readers: Mapping[str, Sequence[str]]
    ) -> None:
        self.times = len(units) // length
        self.place = {
            item: divmod(number, length) for number, unit in enumerate(units) for item in unit
        }
        self.readers = readers

    def in_block(self) -> int:
        """The number of rounds whose blocks are equal and pass values only to the next one."""
        far, turns = self._reach(), self._turns()
        together = max(far, turns)
        return together if together <= MAX_ROUNDS and min(far, turns) in (1, together) else 1

    def _reach(self) -> int:
        """How many rounds later the results of each round are read; 1 if it is not the same."""
        reach = [1] * self.times
        for item, (number, _) in self.place.items():
            for later, _ in self._read_at(item):
                reach[number] = max(reach[number], later - number)
        most = max(reach)
        return most if {*reach[:-most]} == {most} else 1

    def _turns(self) -> int:
        """After how many rounds the same is read from outside again; 1 if there is no order."""
        found = {1}
        for item in self.readers:
            if item not in self.place:
                read: dict[int, list[int]] = {}
                for number, position in self._read_at(item):
                    read.setdefault(position, []).append(number)
                found |= {self._turn(sorted({*numbers})) for numbers in read.values()}
        return max(found) if len(found) < 3 and 0 not in found else 1

    def _turn(self, numbers: Sequence[int]) -> int:
        """The distance of the rounds with these *numbers*; 0 if they are not all that follow."""
        if len(numbers) == 1:
            return 1
        step = numbers[1] - numbers[0]
        return step if [*range(numbers[0] % step, self.times, step)] == [*numbers] else 0

    def _read_at(self, item: str) -> Iterator[tuple[int, int]]:
        """The round, and the position in it, of each sibling that reads *item*."""
        return (self.place[reader] for reader in self.readers.get(item, ()) if reader in self.place)
