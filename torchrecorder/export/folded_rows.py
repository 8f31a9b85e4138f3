"""Folded rows: one row for scopes that repeat, in a table by scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from torchrecorder.events import ScopeId
from torchrecorder.export.rows import Row
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import Recording
from torchrecorder.style import labels
from torchrecorder.views.fold import alike
from torchrecorder.views.whole import whole


def folded(recording: Recording, listed: Sequence[Row]) -> list[Row]:
    """*listed* with one row for what figures fold, which stands for all of it."""
    groups = alike(whole(recording))
    stands = dict(_counterparts(recording, groups))
    together: dict[str, list[str]] = {}
    for row in listed:
        for each in row.ids:
            together.setdefault(_first(stands, each), []).append(each)
    names = {row.ids[0]: _name(row) for row in listed if len(row.ids) == 1}
    ranges = {group[0]: [names[each] for each in group if each in names] for group in groups}
    return [_row(row, together, ranges) for row in _kept(listed, stands)]


def _counterparts(
    recording: Recording, groups: Sequence[Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """For all that goes, and all that lies in it, what stands for it."""
    for first, *others in groups:
        for other in others:
            waiting = [(other, first)]
            while waiting:
                one, instead = waiting.pop()
                yield one, instead
                inside, same = _children(recording, one), _children(recording, instead)
                waiting.extend(zip(inside, same))


def _children(recording: Recording, item: str) -> list[str]:
    scope = recording.scopes.get(ScopeId(item))
    if not isinstance(scope, Scope):
        return []
    return [each.id for each in recording.children[scope.id] if not each.recompute]


def _first(stands: Mapping[str, str], item: str) -> str:
    while item in stands:
        item = stands[item]
    return item


def _kept(listed: Sequence[Row], stands: Mapping[str, str]) -> Iterator[Row]:
    """The rows of what stays, without what is listed below the others."""
    gone: int | None = None
    for row in listed:
        if gone is not None and row.depth > gone:
            continue
        gone = row.depth if len(row.ids) == 1 and row.ids[0] in stands else None
        if gone is None:
            yield row


def _row(
    row: Row, together: Mapping[str, Sequence[str]], ranges: Mapping[str, Sequence[str]]
) -> Row:
    if len(row.ids) != 1:
        return row
    title, ids = row.title, tuple(together[row.ids[0]])
    notes = tuple(each for each in row.notes if len(ids) == 1 or not each.startswith("call "))
    names = ranges.get(row.ids[0], ())
    if len(names) > 1:
        said = labels.names(tuple(names))
        title = f"{said}{title.removeprefix(_name(row))}  ×{len(names)}"
    return replace(row, title=title, ids=ids, notes=notes)


def _name(row: Row) -> str:
    return row.title.partition(" (")[0]
