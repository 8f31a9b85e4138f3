"""Recording <-> plain JSON data, with a version.

The data is columnar: each table has one list per column. Texts are numbers into one list of
strings, and what points to a row is the number of that row. The schema is published as
``docs/recording.schema.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from torchrecorder.errors import InvalidRecording, RecordingVersionError
from torchrecorder.graph.kinds import Id, Kind, Many, Misfit, Node, Number, Reader, Writer, said
from torchrecorder.graph.recording import Made, RecordedRun
from torchrecorder.graph.tables import NODE_TABLES, RUN, SLOTS, TABLES, Table

FORMAT = "torchrecorder recording"
"""What every saved recording says it is."""

VERSION = 1
"""Counts up when an older reader would misunderstand what is written."""


def encode(recording: RecordedRun, *, times: bool = True) -> dict[str, Any]:
    """*recording* as plain JSON data.

    Args:
        recording: What to write.
        times: Write measured times; without them, two runs give equal data.

    Raises:
        InvalidRecording: The recording refers to something that it does not contain.
    """
    writer = Writer(_rows(recording), times)
    try:
        parts = dict(_parts(recording, writer))
    except KeyError as missing:
        raise InvalidRecording(f"the recording does not contain {missing}") from None
    head = {"format": FORMAT, "version": VERSION, "name": recording.name}
    return {**head, "strings": list(writer.strings), **parts}


def decode(data: Any, make: type[Made]) -> Made:
    """The recording in *data*.

    Args:
        data: What `encode` gave.
        make: The class of the recording.

    Raises:
        RecordingVersionError: It was saved by a newer version.
        InvalidRecording: It is not a recording, or contradicts itself.
    """
    _check_head(data)
    reader = _reader(data)
    fields: dict[str, Any] = {"name": _part(data, "name", Id(), reader)}
    for table in TABLES:
        rows = _read(table, _object(data, table.name), reader)
        keyed = MappingProxyType({row.id: row for row in rows}) if table.keyed else tuple(rows)
        fields[table.name] = keyed
    fields["inputs"] = _part(data, "inputs", SLOTS, reader)
    fields["outputs"] = _part(data, "outputs", SLOTS, reader)
    fields["run"] = _part(data, "run", RUN, reader)
    fields["measured"] = _measured(_object(data, "measured"), reader)
    recording = make(**fields)
    _check(recording)
    return recording


# Writing --------------------------------------------------------------------------------


def _rows(recording: RecordedRun) -> dict[str, dict[str, int]]:
    """The number of each row in its table, and of each node under the empty name."""
    rows = {
        table.name: {each: row for row, each in enumerate(getattr(recording, table.name))}
        for table in TABLES
        if table.keyed
    }
    nodes = [each for table in NODE_TABLES for each in getattr(recording, table.name)]
    return {**rows, "": {each: number for number, each in enumerate(nodes)}}


def _parts(recording: RecordedRun, writer: Writer) -> Any:
    yield "run", RUN.write(recording.run, writer)
    yield "inputs", SLOTS.write(recording.inputs, writer)
    yield "outputs", SLOTS.write(recording.outputs, writer)
    for table in TABLES:
        found = getattr(recording, table.name)
        rows = list(found.values()) if table.keyed else found
        yield table.name, {
            name: [kind.write(getattr(row, name), writer) for row in rows]
            for name, kind in table.columns.items()
        }
    yield "measured", {
        quantity: {
            "node": Many(Node()).write(list(amounts), writer),
            "amount": Many(Number()).write(list(amounts.values()), writer),
        }
        for quantity, amounts in recording.measured.items()
        if writer.times or "seconds" not in quantity
    }


# Reading --------------------------------------------------------------------------------


def _check_head(data: Any) -> None:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidRecording("this is not a saved recording: it does not say that it is one")
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise InvalidRecording(f"a saved recording with no proper version: {said(version)}")
    if version > VERSION:
        raise RecordingVersionError(
            f"this recording was saved in format {said(version)}, and this torchrecorder reads"
            f" {VERSION}: install a newer one"
        )


def _reader(data: Mapping[str, Any]) -> Reader:
    strings = data.get("strings")
    if not isinstance(strings, list) or not all(isinstance(each, str) for each in strings):
        raise InvalidRecording("strings: expected a list of texts")
    nothing = Reader({}, (), ())
    ids = {
        table.name: _column(table.name, "id", Id(), _object(data, table.name), nothing)
        for table in TABLES
        if table.keyed
    }
    nodes = [each for table in NODE_TABLES for each in ids[table.name]]
    known = {*nodes, *ids["modules"]}
    if len(known) < len(nodes) + len(ids["modules"]) or "" in known:
        raise InvalidRecording("two rows have the same id, or one has none")
    return Reader(ids, nodes, strings)


def _object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    if not isinstance(found, dict):
        raise InvalidRecording(f"{name}: expected an object, not {said(found)}")
    return found


def _part(data: Mapping[str, Any], name: str, kind: Kind, reader: Reader) -> Any:
    if name not in data:
        raise InvalidRecording(f"{name} is missing")
    try:
        return kind.read(data[name], reader)
    except Misfit as misfit:
        raise InvalidRecording(f"{name}: {misfit}") from None


def _column(
    table: str, name: str, kind: Kind, columns: Mapping[str, Any], reader: Reader
) -> list[Any]:
    cells = columns.get(name)
    if not isinstance(cells, list):
        raise InvalidRecording(f"{table}.{name}: expected a list, not {said(cells)}")
    row = 0
    found = []
    try:
        for row, cell in enumerate(cells):
            found.append(kind.read(cell, reader))
    except Misfit as misfit:
        raise InvalidRecording(f"{table}.{name}, row {row}: {misfit}") from None
    return found


def _read(table: Table, columns: Mapping[str, Any], reader: Reader) -> list[Any]:
    """The rows of a table; a column that an older version did not write takes its default."""
    found = {
        name: _column(table.name, name, kind, columns, reader)
        for name, kind in table.columns.items()
        if name in columns
    }
    lengths = {len(cells) for cells in found.values()}
    if len(lengths) > 1:
        raise InvalidRecording(f"{table.name}: its columns are not of one length")
    try:
        return [table.make(**dict(zip(found, cells))) for cells in zip(*found.values())]
    except TypeError as error:
        raise InvalidRecording(f"{table.name}: a column is missing: {error}") from None


def _measured(data: Mapping[str, Any], reader: Reader) -> Mapping[str, Mapping[str, float]]:
    measured = {}
    for quantity in data:
        columns = _object(data, quantity)
        nodes = _column(quantity, "node", Node(), columns, reader)
        amounts = _column(quantity, "amount", Number(), columns, reader)
        if len(nodes) != len(amounts):
            raise InvalidRecording(f"measured {said(quantity)}: as many nodes as amounts, please")
        measured[quantity] = MappingProxyType(dict(zip(nodes, amounts)))
    return MappingProxyType(measured)


def _check(recording: RecordedRun) -> None:
    """What other code relies on: scopes nest without a loop, modules know their calls."""
    _check_nesting(recording)
    for each in recording.statistics:
        if each.node not in (recording.values if each.run < 0 else recording.grad_nodes):
            raise InvalidRecording(f"statistics of {said(each.node)}, which has no such numbers")
    calls = {(call, module.id) for module in recording.modules.values() for call in module.calls}
    stated = {(each.id, each.module) for each in recording.scopes.values() if each.module}
    if calls != stated:
        raise InvalidRecording("modules and scopes do not agree on which calls there were")


def _check_nesting(recording: RecordedRun) -> None:
    again: dict[str, bool] = {}
    for scope in recording.scopes.values():
        if scope.parent is not None and scope.parent not in again:
            raise InvalidRecording(f"scope {said(scope.id)} comes before the scope around it")
        if scope.parent is not None and again[scope.parent] and not scope.recompute:
            raise InvalidRecording(f"scope {said(scope.id)} ran first in one that ran again")
        again[scope.id] = scope.recompute
