"""Version 1: reads a recording that was saved in version 1, as data of the current version.

In version 1, each text was an index in a list of strings, each id the index of a row in its
table, and a flag 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from torchrecorder.errors import InvalidRecording
from torchrecorder.events import GradId, ModuleId, OpId, ScopeId, Slot, ValueId
from torchrecorder.graph.recording import RunFacts

Read = Callable[[Any], Any]

_IDS = {
    ScopeId: "scopes", ModuleId: "modules", OpId: "ops", ValueId: "values", GradId: "grad_nodes"
}


def upgraded(data: Any, tables: Mapping[str, Any]) -> dict[str, Any]:
    """*data* of version 1 as data of version 2, without checks of the types in the *tables*.

    Raises:
        msgspec.ValidationError: A part is missing or has a wrong type.
        InvalidRecording: A field has a wrong type.
    """
    parts = [
        ("name", str), ("strings", list[str]), ("run", dict[str, Any]), ("inputs", list[Any]),
        ("outputs", list[Any]), ("measured", dict[str, dict[str, list[Any]]]),
        *((table, dict[str, list[Any]]) for table in tables),
    ]
    file: Any = msgspec.convert(data, msgspec.defstruct("File", parts))
    reader = _FieldDecoder(file)
    slots = reader.decoder(tuple[Slot, ...])
    (run,) = _read("run", [file.run], reader.decoder(RunFacts))
    (inputs,) = _read("inputs", [file.inputs], slots)
    (outputs,) = _read("outputs", [file.outputs], slots)
    return {
        "name": file.name,
        "run": run,
        "inputs": inputs,
        "outputs": outputs,
        **{name: reader.table(name, make) for name, make in tables.items()},
        "measured": {
            quantity: {**found, "node": _read(quantity, found.get("node", []), reader.node)}
            for quantity, found in file.measured.items()
        },
    }


def _read(where: str, facts: Iterable[Any], read: Read) -> list[Any]:
    try:
        return [read(fact) for fact in facts]
    except ValueError as error:
        raise InvalidRecording(f"{where}: {error}") from None


class _FieldDecoder:
    """Decodes fields by their types."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.ids = {name: getattr(file, name).get("id", []) for name in _IDS.values()}
        self.nodes = [node for name in self.ids if name != "modules" for node in self.ids[name]]

    def table(self, table: str, make: Any) -> dict[str, Any]:
        """A table whose rows are *make*, column by column."""
        hints, columns = get_type_hints(make), getattr(self.file, table)
        readers = {name: self.decoder(hints[name]) for name in columns if name in hints}
        if "id" in readers:
            readers["id"] = _same
        if "node" in readers:
            readers["node"] = self.node
        return {
            name: _read(f"{table}.{name}", columns[name], read) for name, read in readers.items()
        }

    def node(self, number: Any) -> Any:
        """The id of a scope, op, value or grad node from one index over all of them."""
        return _at(self.nodes, number, "node")

    def decoder(self, hint: Any) -> Read:
        """The decoder of this type."""
        if hint in _IDS:
            table = _IDS[hint]
            return lambda number: _at(self.ids[table], number, f"row of {table}")
        if get_origin(hint) in (Union, UnionType):
            inner = self.decoder(
                next(argument for argument in get_args(hint) if argument is not type(None))
            )
            return lambda fact: None if fact is None else inner(fact)
        if get_origin(hint) is tuple:
            return self._tuple(get_args(hint))
        if is_dataclass(hint):
            return self._fields(get_type_hints(hint))
        if isinstance(hint, type) and issubclass(hint, tuple):
            return self._tuple(tuple(get_type_hints(hint).values()))
        if hint is bool:
            return _flag
        if hint is str or (isinstance(hint, type) and issubclass(hint, Enum)):
            return lambda number: _at(self.file.strings, number, "string")
        return _same

    def _tuple(self, hints: tuple[Any, ...]) -> Read:
        if hints[-1] is ...:
            one = self.decoder(hints[0])
            return lambda facts: [one(fact) for fact in _a(list, facts)]
        readers = [self.decoder(hint) for hint in hints]

        def read(facts: Any) -> list[Any]:
            if len(_a(list, facts)) != len(readers):
                raise ValueError(f"expected {len(readers)} facts in a list, not {len(facts)}")
            return [reader(fact) for reader, fact in zip(readers, facts)]

        return read

    def _fields(self, hints: Mapping[str, Any]) -> Read:
        readers = {name: self.decoder(hint) for name, hint in hints.items()}
        return lambda facts: {
            name: read(facts[name]) for name, read in readers.items() if name in _a(dict, facts)
        }


def _a(kind: type, fact: Any) -> Any:
    """*fact*, checked to be of this *kind*."""
    if not isinstance(fact, kind):
        raise ValueError(f"expected a {kind.__name__}, not {str(fact):.40}")
    return fact


def _flag(fact: Any) -> Any:
    return bool(fact) if type(fact) is int and fact in (0, 1) else fact


def _same(fact: Any) -> Any:
    return fact


def _at(among: Sequence[Any], number: Any, what: str) -> Any:
    if type(number) is not int or not 0 <= number < len(among):
        raise ValueError(f"there is no {what} {str(number):.40}")
    return among[number]
