"""The JSON schema of a saved recording, made from the tables that are saved."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from torchrecorder.graph import kinds
from torchrecorder.graph.codec import FORMAT, VERSION
from torchrecorder.graph.tables import NODE_TABLES, RUN, SLOTS, TABLES, Table


def schema() -> dict[str, Any]:
    """The schema, as JSON data."""
    parts: dict[str, Any] = {
        "format": {"const": FORMAT},
        "version": {"type": "integer", "minimum": 1, "maximum": VERSION},
        "name": {"type": "string", "description": "Name of the model or of the run."},
        "strings": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Every text; elsewhere a text is its position here.",
        },
        "run": {**_of(RUN), "description": "Facts about the whole run."},
        "inputs": {**_of(SLOTS), "description": "What went in from outside: name, value."},
        "outputs": {**_of(SLOTS), "description": "What the outermost calls returned."},
        **{table.name: _table(table) for table in TABLES},
        "measured": _measured(),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recording of torchrecorder",
        "description": (
            "Each table is an object with a list per column; the lists of a table are equally"
            " long. A row of another table is given by its position there. A reader ignores"
            " what it does not know."
        ),
        "type": "object",
        "required": list(parts),
        "properties": parts,
        "$defs": _DEFINED,
    }


def _table(table: Table) -> dict[str, Any]:
    said = _attributes(table.make)
    first = (inspect.getdoc(table.make) or "").partition("\n")[0]
    return {
        "type": "object",
        "description": first,
        "required": [name for name in table.columns if name in _needed(table.make)],
        "properties": {
            name: {
                "type": "array",
                **({"description": said[name]} if name in said else {}),
                "items": _of(kind),
            }
            for name, kind in table.columns.items()
        },
    }


def _measured() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "What only the run could tell: per quantity, the nodes and how much.",
        "additionalProperties": {
            "type": "object",
            "required": ["node", "amount"],
            "properties": {
                "node": {"type": "array", "items": _of(kinds.Node())},
                "amount": {"type": "array", "items": _of(kinds.Number())},
            },
        },
    }


def _of(kind: kinds.Kind) -> dict[str, Any]:
    """The schema of one fact of this kind."""
    made = _COMPOSED.get(type(kind))
    return made(kind) if made is not None else _SIMPLE[type(kind)]


def _maybe(kind: kinds.Maybe) -> dict[str, Any]:
    return {"anyOf": [_of(kind.kind), {"type": "null"}]}


def _many(kind: kinds.Many) -> dict[str, Any]:
    return {"type": "array", "items": _of(kind.kind)}


def _group(kind: kinds.Group) -> dict[str, Any]:
    items = [_of(each) for each in kind.kinds]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _fields(kind: kinds.Fields) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [name for name in kind.kinds if name in _needed(kind.make)],
        "properties": {name: _of(each) for name, each in kind.kinds.items()},
    }


def _row(kind: kinds.Row) -> dict[str, Any]:
    return {"$ref": "#/$defs/row", "description": f"A row of {kind.table}."}


def _choice(kind: kinds.Choice) -> dict[str, Any]:
    known = ", ".join(each.value for each in kind.among)
    return {"$ref": "#/$defs/text", "description": f"One of: {known}."}


_COMPOSED: dict[type, Callable[[Any], dict[str, Any]]] = {
    kinds.Maybe: _maybe,
    kinds.Many: _many,
    kinds.Group: _group,
    kinds.Fields: _fields,
    kinds.Row: _row,
    kinds.Choice: _choice,
}

_SIMPLE: dict[type, dict[str, Any]] = {
    kinds.Text: {"$ref": "#/$defs/text"},
    kinds.Id: {"type": "string"},
    kinds.Whole: {"type": "integer"},
    kinds.Flag: {"$ref": "#/$defs/flag"},
    kinds.Number: {"$ref": "#/$defs/number"},
    kinds.Seconds: {"$ref": "#/$defs/seconds"},
    kinds.Node: {"$ref": "#/$defs/node"},
}

_DEFINED: dict[str, dict[str, Any]] = {
    "text": {"type": "integer", "minimum": 0, "description": "A position in strings."},
    "row": {"type": "integer", "minimum": 0, "description": "A position in a table."},
    "node": {
        "type": "integer",
        "minimum": 0,
        "description": "A position in "
        + ", ".join(table.name for table in NODE_TABLES)
        + ", counted through one after the other.",
    },
    "flag": {"enum": [0, 1], "description": "No or yes."},
    "number": {"anyOf": [{"type": "number"}, {"enum": sorted(kinds.NOT_FINITE)}]},
    "seconds": {"type": ["number", "null"], "description": "A measured time, if there is one."},
}


def _needed(make: Any) -> set[str]:
    """The fields that have no default."""
    if not is_dataclass(make):
        return set(getattr(make, "_fields", ())) - set(getattr(make, "_field_defaults", ()))
    without = (each for each in fields(make) if each.default is each.default_factory is MISSING)
    return {each.name for each in without}


def _attributes(make: Any) -> dict[str, str]:
    """What the docstring of a dataclass says of each field."""
    _, _, listed = (inspect.getdoc(make) or "").partition("Attributes:\n")
    found = re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", listed, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in found}
