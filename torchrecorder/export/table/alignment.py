"""Alignment: columns of text side by side, and the lines of a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from unicodedata import combining, east_asian_width


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str  # its heading
    cells: Sequence[str]  # one text per row
    right: bool = False  # whether its texts are right-aligned


def table(columns: Sequence[Column]) -> Iterator[str]:
    """The lines of a table: a heading, a rule, one line per row."""
    columns = [replace(column, cells=[*map(_in_a_line, column.cells)]) for column in columns]
    widths = [max(map(width, (column.title, *column.cells))) for column in columns]
    yield _line([column.title for column in columns], columns, widths)
    yield "─" * (sum(widths) + 2 * (len(widths) - 1))
    for cells in zip(*(column.cells for column in columns)):
        yield _line(cells, columns, widths)


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, wide in zip(cells, columns, widths):
        gap = " " * (wide - width(cell))
        padded.append(gap + cell if column.right else cell + gap)
    return "  ".join(padded).rstrip()


def _in_a_line(text: str) -> str:
    """*text* with a space for each line break and tab, as in a name."""
    return text if text.isprintable() else re.sub(r"\s", " ", text)


def width(text: str) -> int:
    """The width of *text* in columns of a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(1 for character in text if east_asian_width(character) in "WF")
    return len(text) + wide - sum(1 for character in text if combining(character))


def tree(depths: Sequence[int]) -> list[str]:
    """The lines before each entry of a tree, from *depths* in order.

    Example:
        >>> [line + "x" for line in tree([0, 1, 2, 1])]
        ['x', '├─ x', '│  └─ x', '└─ x']
    """
    marks: list[str] = []
    open_at: dict[int, bool] = {}
    for depth in reversed(depths):
        inner = "".join("│  " if open_at.get(level) else "   " for level in range(1, depth))
        mark = ("├─ " if open_at.get(depth) else "└─ ") if depth else ""
        marks.append(inner + mark)
        open_at = {level: held for level, held in open_at.items() if level < depth}
        open_at[depth] = True
    return marks[::-1]
