"""The JSON schema of a saved recording, from the types of its parts, for the documentation."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from torchrecorder.graph.codec import FORMAT, OPTIONAL_TABLES, TABLES, VERSION, file_type


def schema() -> dict[str, Any]:
    """The schema, as JSON data."""
    made = msgspec.json.schema(file_type())
    parts = made["$defs"]
    for part in parts.values():
        if "description" in part:  # a docstring, indented before Python 3.13
            part["description"] = inspect.cleandoc(part["description"])
    for name, make in {**TABLES, **OPTIONAL_TABLES}.items():
        table = parts[name]
        table["description"] = (inspect.getdoc(make) or "").partition("\n")[0]
        for field, text in _attributes(make).items():
            table["properties"][field]["description"] = text
    head = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    whole = parts.pop("Recording")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recording of torchrecorder",
        "description": (
            "Each table is an object with one list per column; the lists of a table are equally"
            " long. Scopes, modules, ops, values and grad_nodes refer to each other by id. A"
            " reader ignores unknown entries."
        ),
        "type": "object",
        "required": [*head, *whole["required"]],
        "properties": {**head, **whole["properties"]},
        "$defs": parts,
    }


def _attributes(make: Any) -> dict[str, str]:
    """The descriptions of the fields in the docstring of a class."""
    _, _, listed = (inspect.getdoc(make) or "").partition("Attributes:\n")
    found = re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", listed, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in found}
