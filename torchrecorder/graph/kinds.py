"""Kinds: how one fact of a recording is written as plain JSON data, and read back.

What is read comes from a file that anybody may have written: every kind checks what it is
given and raises `Misfit` where it does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

LARGEST = 2**63
"""Whole numbers lie below it, and above minus it."""

NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""Numbers that JSON has no word for."""


class Misfit(ValueError):
    """Data that is not what it should be."""


@dataclass
class Writer:
    """Numbers texts and nodes while a recording is written.

    Attributes:
        rows: For each table, the row of each id.
        times: Whether measured times are written.
        strings: Every text so far, and its number.
    """

    rows: Mapping[str, Mapping[str, int]]
    times: bool = True
    strings: dict[str, int] = field(default_factory=dict)

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))


@dataclass(frozen=True)
class Reader:
    """What numbers stand for while a recording is read.

    Attributes:
        ids: For each table, the ids of its rows.
        nodes: The ids of all nodes, one table after the other.
        strings: The texts.
    """

    ids: Mapping[str, Sequence[str]]
    nodes: Sequence[str]
    strings: Sequence[str]


class Kind(Protocol):
    """Writes and reads facts of one kind."""

    def write(self, fact: Any, writer: Writer) -> Any:
        """*fact* as plain JSON data."""

    def read(self, data: Any, reader: Reader) -> Any:
        """The fact that *data* says.

        Raises:
            Misfit: It says none of this kind.
        """


class Text:
    """A text, as its number in the table of strings."""

    def write(self, fact: str, writer: Writer) -> int:
        return writer.text(fact)

    def read(self, data: Any, reader: Reader) -> str:
        return _at(data, reader.strings, "string")


class Id:
    """A text that occurs once, as it is: the id of a row."""

    def write(self, fact: str, writer: Writer) -> str:
        return fact

    def read(self, data: Any, reader: Reader) -> str:
        if not isinstance(data, str):
            raise Misfit(f"expected a text, not {said(data)}")
        return data


class Whole:
    """A whole number."""

    def write(self, fact: int, writer: Writer) -> int:
        return int(fact)

    def read(self, data: Any, reader: Reader) -> int:
        if type(data) is not int or not -LARGEST < data < LARGEST:
            raise Misfit(f"expected a whole number, not {said(data)}")
        return data


class Flag:
    """Yes or no, as 1 or 0."""

    def write(self, fact: bool, writer: Writer) -> int:
        return int(fact)

    def read(self, data: Any, reader: Reader) -> bool:
        if type(data) is not int or data not in (0, 1):
            raise Misfit(f"expected 0 or 1, not {said(data)}")
        return data == 1


class Number:
    """A number; one that is not finite as a text."""

    def write(self, fact: float, writer: Writer) -> float | str:
        if math.isfinite(fact):
            return fact
        return "nan" if math.isnan(fact) else "inf" if fact > 0 else "-inf"

    def read(self, data: Any, reader: Reader) -> float:
        if isinstance(data, str) and data in NOT_FINITE:
            return NOT_FINITE[data]
        if isinstance(data, float) and math.isfinite(data):
            return data
        if type(data) is int and -LARGEST < data < LARGEST:
            return data
        raise Misfit(f"expected a number, not {said(data)}")


class Seconds(Number):
    """A measured time, or none."""

    def write(self, fact: float | None, writer: Writer) -> Any:
        return None if fact is None or not writer.times else super().write(fact, writer)

    def read(self, data: Any, reader: Reader) -> Any:
        return None if data is None else super().read(data, reader)


@dataclass(frozen=True)
class Row:
    """A row of a table, as its number."""

    table: str

    def write(self, fact: str, writer: Writer) -> int:
        return writer.rows[self.table][fact]

    def read(self, data: Any, reader: Reader) -> str:
        return _at(data, reader.ids[self.table], f"row of {self.table}")


class Node:
    """A scope, op, value or grad node, numbered one table after the other."""

    def write(self, fact: str, writer: Writer) -> int:
        return writer.rows[""][fact]

    def read(self, data: Any, reader: Reader) -> str:
        return _at(data, reader.nodes, "node")


@dataclass(frozen=True)
class Choice:
    """One of a closed set, as the number of its text."""

    among: type[Enum]

    def write(self, fact: Enum, writer: Writer) -> int:
        return writer.text(fact.value)

    def read(self, data: Any, reader: Reader) -> Enum:
        text = _at(data, reader.strings, "string")
        try:
            return self.among(text)
        except ValueError:
            raise Misfit(f"{said(text)} is no {self.among.__name__}") from None


@dataclass(frozen=True)
class Maybe:
    """A fact, or null for none."""

    kind: Kind

    def write(self, fact: Any, writer: Writer) -> Any:
        return None if fact is None else self.kind.write(fact, writer)

    def read(self, data: Any, reader: Reader) -> Any:
        return None if data is None else self.kind.read(data, reader)


@dataclass(frozen=True)
class Many:
    """Any number of facts of one kind, as a list."""

    kind: Kind

    def write(self, fact: Sequence[Any], writer: Writer) -> list[Any]:
        return [self.kind.write(each, writer) for each in fact]

    def read(self, data: Any, reader: Reader) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise Misfit(f"expected a list, not {said(data)}")
        return tuple([self.kind.read(each, reader) for each in data])


@dataclass(frozen=True)
class Group:
    """A few facts that belong together, as a list of fixed length."""

    make: Callable[..., Any]
    kinds: tuple[Kind, ...]

    def write(self, fact: Sequence[Any], writer: Writer) -> list[Any]:
        return [kind.write(each, writer) for kind, each in zip(self.kinds, fact)]

    def read(self, data: Any, reader: Reader) -> Any:
        if not isinstance(data, list) or len(data) != len(self.kinds):
            raise Misfit(f"expected {len(self.kinds)} facts in a list, not {said(data)}")
        return self.make(*(kind.read(each, reader) for kind, each in zip(self.kinds, data)))


@dataclass(frozen=True)
class Fields:
    """The fields of a dataclass, as an object. Those with a default may be left out."""

    make: Callable[..., Any]
    kinds: Mapping[str, Kind]

    def write(self, fact: Any, writer: Writer) -> dict[str, Any]:
        return {name: kind.write(getattr(fact, name), writer) for name, kind in self.kinds.items()}

    def read(self, data: Any, reader: Reader) -> Any:
        if not isinstance(data, dict):
            raise Misfit(f"expected an object, not {said(data)}")
        given = [(name, kind) for name, kind in self.kinds.items() if name in data]
        try:
            return self.make(**{name: kind.read(data[name], reader) for name, kind in given})
        except TypeError as error:
            raise Misfit(f"a field is missing: {error}") from None


def said(data: Any) -> str:
    """*data* in a few characters, whatever it is."""
    if isinstance(data, (list, dict)):
        return f"a {type(data).__name__} of {len(data)}"
    if isinstance(data, int) and not isinstance(data, bool) and abs(data) >= LARGEST:
        return "a very large number"
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _at(data: Any, among: Sequence[str], what: str) -> str:
    if type(data) is not int or not 0 <= data < len(among):
        raise Misfit(f"there is no {what} {said(data)}")
    return among[data]
