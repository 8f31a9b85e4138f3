"""Tables: everything said several times is kept once, and told by its number."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

RowT = TypeVar("RowT", bound=Hashable)


class Table(Generic[RowT]):
    """Distinct rows in the order in which they were met.

    Args:
        say: How a row is written.
    """

    def __init__(self, say: Callable[[RowT], Any] = lambda row: row) -> None:
        self._say = say
        self._number: dict[RowT, int] = {}
        self.rows: list[Any] = []

    def __call__(self, row: RowT) -> int:
        """The number of *row*."""
        number = self._number.get(row)
        if number is None:
            number = self._number[row] = len(self.rows)
            self.rows.append(self._say(row))
        return number
