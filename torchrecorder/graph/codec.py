"""Codec: converts a recording to plain JSON data and back.

The data is columnar: each table is an object with one list per column. The types of the
columns are those of the fields of `Scope`, `Op` and the others; files are checked against them,
because they may come from anywhere. Files of earlier versions lack columns of fields with a
default. The schema is published as ``docs/recording.schema.json``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import signature
from operator import attrgetter
from types import GenericAlias
from typing import Any, Literal, Union, get_type_hints

import msgspec

from torchrecorder.errors import InvalidRecording, RecordingVersionError
from torchrecorder.events import (
    Allocation, Communication, CompiledGraph, FunctionCall, FusedKernel, GradSwitch, GraphBreak,
    ParameterPart, Shard, Slot, Statistics,
)
from torchrecorder.graph import consistency
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun, Module, Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun, RecordingT, RunFacts
from torchrecorder.graph.version_1 import upgraded

FORMAT = "torchrecorder recording"
"""The first entry of every saved recording."""

VERSION = 2
"""Increased when an older reader would misread the file."""

TABLES: Mapping[str, Any] = {
    "scopes": Scope,
    "modules": Module,
    "ops": Op,
    "values": Value,
    "grad_nodes": GradNode,
    "backward_runs": BackwardRun,
    "grad_runs": GradRun,
    "statistics": Statistics,
}
"""The tables in the order in which they are written, and the class of their rows."""

OPTIONAL_TABLES: Mapping[str, Any] = {
    "allocations": Allocation,
    "shards": Shard,
    "parameter_parts": ParameterPart,
    "communications": Communication,
    "compiled_graphs": CompiledGraph,
    "graph_breaks": GraphBreak,
    "fused_kernels": FusedKernel,
    "function_calls": FunctionCall,
    "grad_switches": GradSwitch,
}
"""Tables that are only written if they have rows; earlier files lack them."""

Number = Union[float, Literal["nan", "inf", "-inf"]]
"""A number; as text if JSON cannot express it (NaN, infinity)."""


class Amounts(msgspec.Struct):
    """Amounts of one quantity."""

    node: list[str]
    amount: list[Union[int, Number]]


_PART = ". It may be a part, such as that of a view: save the whole recording"
"""Advice on a recording whose parts refer to what it does not have."""


def encode(recording: RecordedRun, *, times: bool = True) -> dict[str, Any]:
    """*recording* as plain JSON data.

    Args:
        recording: The recording to write.
        times: Write measured times; without them, two runs give equal data.

    Raises:
        InvalidRecording: The parts of the recording do not fit together.
    """
    for problem in consistency.problems(recording):
        part = _PART if consistency.missing(recording) else ""
        raise InvalidRecording(f"the recording is not consistent: {problem}{part}")
    run = recording.run if times else _without_times(recording.run)
    parts = {
        "format": FORMAT,
        "version": VERSION,
        "name": recording.name,
        "run": run,
        "inputs": recording.inputs,
        "outputs": recording.outputs,
        **{
            name: _columns(make, rows, times)
            for name, make in {**TABLES, **OPTIONAL_TABLES}.items()
            if (rows := _rows(recording, name)) or name in TABLES
        },
        "measured": {
            quantity: {"node": [*amounts], "amount": [*map(json_number, amounts.values())]}
            for quantity, amounts in recording.measured.items()
            if times or "seconds" not in quantity
        },
    }
    data: dict[str, Any] = msgspec.to_builtins(parts, enc_hook=plain)
    return data


@without_gc()
def decode(data: Any, make: type[RecordingT]) -> RecordingT:
    """The recording in *data*, the result of `encode` of this or an earlier version.

    Raises:
        RecordingVersionError: It was saved by a newer version.
        InvalidRecording: It is not a recording, or not consistent.
    """
    _check_head(data)
    try:
        current = upgraded(data, TABLES) if data["version"] == 1 else data
        file = msgspec.convert(current, file_type())
    except msgspec.ValidationError as error:
        raise InvalidRecording(f"this is not a saved recording: {error}") from None
    tables = {
        name: _read(name, make, found)
        for name, make in {**TABLES, **OPTIONAL_TABLES}.items()
        if (found := getattr(file, name)) is not msgspec.UNSET
    }
    recording = make(
        name=file.name,
        inputs=file.inputs,
        outputs=file.outputs,
        run=file.run,
        measured=_measured(file.measured),
        **tables,
    )
    for problem in consistency.problems(recording):
        raise InvalidRecording(problem)
    return recording


# Writing --------------------------------------------------------------------------------


def _without_times(run: RunFacts) -> RunFacts:
    """*run* without times and other facts that depend on the machine."""
    rank = run.rank and run.rank._replace(host="")
    return replace(run, seconds=None, overhead=None, rank=rank)


def _rows(recording: RecordedRun, table: str) -> Sequence[Any]:
    found = getattr(recording, table)
    return tuple(found.values()) if isinstance(found, Mapping) else found


def _columns(make: Any, rows: Sequence[Any], times: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: [*map(attrgetter(name), rows)] for name in signature(make).parameters
    }
    for name in columns if not times else ():
        if name.endswith("seconds"):
            columns[name] = [None] * len(rows)
    if make is Statistics:
        columns = {name: [*map(json_number, column)] for name, column in columns.items()}
    return columns


def plain(fact: Any) -> Any:
    """*fact* as the text or number that its class is based on."""
    for kind in (str, int, float):
        if isinstance(fact, kind):
            return kind(fact)
    raise InvalidRecording(f"{type(fact).__name__} {fact!r:.40} cannot be part of a recording")


def json_number(number: Any) -> Any:
    """*number*, or text such as ``"nan"`` if JSON has no such number."""
    return str(number) if isinstance(number, float) and not math.isfinite(number) else number


# Reading --------------------------------------------------------------------------------


def _check_head(data: Any) -> None:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidRecording(f"this is not a saved recording: its format is not {FORMAT!r}")
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise InvalidRecording("this is a saved recording without a valid version")
    if version > VERSION:
        raise RecordingVersionError(
            f"this recording was saved in format {version}, and this torchrecorder reads up to"
            f" {VERSION}: install a newer one"
        )


@cache
def file_type() -> Any:
    """The type of a whole file."""
    head = [("name", str), ("run", RunFacts)]
    flow = [("inputs", tuple[Slot, ...]), ("outputs", tuple[Slot, ...])]
    tables = [(name, _table_type(name, make)) for name, make in TABLES.items()]
    optional: list[Any] = [
        (name, Union[_table_type(name, make), msgspec.UnsetType], msgspec.UNSET)
        for name, make in OPTIONAL_TABLES.items()
    ]
    parts = [*head, *flow, *tables, ("measured", dict[str, Amounts]), *optional]
    return msgspec.defstruct("Recording", parts)


def _table_type(name: str, make: Any) -> Any:
    """The type of a table whose rows are *make*; a column with a default may be left out."""
    hints = get_type_hints(make)
    columns: list[Any] = []
    for column, parameter in signature(make).parameters.items():
        cells = GenericAlias(list, (Number if hints[column] is float else hints[column],))
        if parameter.default is not parameter.empty:
            columns.append((column, Union[cells, msgspec.UnsetType], msgspec.UNSET))
        else:
            columns.append((column, cells))
    return msgspec.defstruct(name, columns)


def _read(name: str, make: Any, table: Any) -> Any:
    """The rows of a table, by id if they have one."""
    fields = signature(make).parameters
    columns = [getattr(table, column) for column in fields]
    if len({len(column) for column in columns if column is not msgspec.UNSET}) > 1:
        raise InvalidRecording(f"{name}: its columns differ in length")
    cells = [
        itertools.repeat(field.default) if column is msgspec.UNSET else column
        for field, column in zip(fields.values(), columns)
    ]
    if make is Statistics:
        cells = [_floats(column) for column in cells]
    rows = tuple(itertools.starmap(make, zip(*cells)))
    if "id" not in fields:
        return rows
    keyed = {row.id: row for row in rows}
    if len(keyed) < len(rows):
        raise InvalidRecording(f"{name}: two rows have the same id")
    return keyed


def _floats(numbers: Iterable[Any]) -> list[Any]:
    return [float(number) if number in ("nan", "inf", "-inf") else number for number in numbers]


def _measured(tables: Mapping[str, Amounts]) -> Mapping[str, Mapping[str, float]]:
    for quantity, amounts in tables.items():
        if len(amounts.node) != len(amounts.amount):
            raise InvalidRecording(
                f"measured {quantity!r}: the numbers of amounts and nodes differ"
            )
    return {
        quantity: dict(zip(amounts.node, _floats(amounts.amount)))
        for quantity, amounts in tables.items()
    }
