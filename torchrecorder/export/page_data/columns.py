"""Columns: one list per attribute of all places; frequent values are stored once, in tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar

from torchrecorder.events import ScopeId
from torchrecorder.export.page_data.box_appearance import Appearance, Looks
from torchrecorder.export.page_data.facts import FactRow, Facts
from torchrecorder.graph.failed_places import error_in
from torchrecorder.graph.flat import printable
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import step_of
from torchrecorder.style import labels
from torchrecorder.style.figure import LegendEntry, Look, Text
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.full_view import scope_kind
from torchrecorder.views.tree import Tree, TreeNode

RowKeyT = TypeVar("RowKeyT", bound=Hashable)

PARTS = {"title": 0, "name": 1, "detail": 2}


class IndexTable(Generic[RowKeyT]):
    """Distinct rows in the order of their first occurrence, each converted to JSON."""

    def __init__(self, to_json: Callable[[RowKeyT], Any] = lambda row: row) -> None:
        self._to_json = to_json
        self._number: dict[RowKeyT, int] = {}
        self.rows: list[Any] = []

    def __call__(self, row: RowKeyT) -> int:
        """The number of *row*."""
        number = self._number.get(row)
        if number is None:
            number = self._number[row] = len(self.rows)
            self.rows.append(self._to_json(row))
        return number


class Columns:
    """The columns for the places of a tree; shared values are in tables. *equal* is the first equal
    place of each place."""

    def __init__(self, tree: Tree, facts: Facts, equal: Sequence[int]) -> None:
        self.tree = tree
        self.facts = facts
        self.equal = equal
        strings = self.strings = IndexTable[str](printable)
        self.labels: IndexTable[tuple[Text, ...]] = IndexTable(
            lambda label: [[strings(line.text), PARTS[line.part]] for line in label]
        )
        self.looks: IndexTable[tuple[Any, Any]] = IndexTable(
            lambda looks: {"light": dict(looks[0]), "dark": dict(looks[1])}
        )
        self.lists: IndexTable[tuple[FactRow, ...]] = IndexTable(partial(_rows, strings))

    def rows(self, rows: Iterable[FactRow]) -> list[list[int]]:
        """Pairs of a title and a text, as pairs of indices."""
        return _rows(self.strings, rows)

    def look(self, looks: Looks) -> int:
        """The index of a pair of looks."""
        light, dark = looks
        return self.looks((_plain(light), _plain(dark)))

    def items(self, appearances: Sequence[Appearance]) -> dict[str, list[Any]]:
        """The columns of captions, looks and recorded data."""
        return {**self._drawn(appearances), **self._recorded()}

    def _drawn(self, appearances: Sequence[Appearance]) -> dict[str, list[Any]]:
        """The columns with one entry for all places that share an appearance."""
        known = {id(appearance): appearance for appearance in appearances}
        rows = {key: self._appearance(appearance) for key, appearance in known.items()}
        all_rows = [rows[id(appearance)] for appearance in appearances]
        return {"parent": [place.parent for place in self.tree.places], **_columns(all_rows)}

    def _appearance(self, appearance: Appearance) -> dict[str, Any]:
        """The values of an appearance, by column."""
        return {
            "label": self.labels(appearance.label),
            "header": self.labels(appearance.header) if appearance.header else -1,
            "header_size": [*chain.from_iterable(appearance.header_sizes)] or None,
            "look": self.look(appearance.looks),
            "open_look": self.look(appearance.open_looks) if appearance.open_looks else -1,
            "count": appearance.count,
        }

    def _recorded(self) -> dict[str, list[Any]]:
        places, recording = self.tree.places, self.tree.view.recording
        things = (step_of(recording, place.id) for place in places)
        source = cache(lambda line: self.strings(labels.source(line)))
        return {
            "id": [f"fold:{place.id}" if place.fold else place.id for place in places],
            "fold": [int(bool(place.fold)) for place in places],
            "path": [self.strings(path) for path in self._paths()],
            "source": [source(thing.source if thing is not None else None) for thing in things],
            **self._shared(),
        }

    def _shared(self) -> dict[str, list[Any]]:
        """The columns with one entry for all equal places."""
        chosen = dict.fromkeys(self.equal)
        rows = {number: self._row(self.tree.places[number]) for number in chosen}
        return _columns([rows[number] for number in self.equal])

    def _row(self, place: TreeNode) -> dict[str, int]:
        """What depends on the recorded data of a place, and not on its name, by column."""
        thing, string = step_of(self.tree.view.recording, place.id), self.strings
        return {
            "kind": string(self._kind(place)),
            "cls": string(thing.cls if isinstance(thing, Scope) else ""),
            "op": string(thing.name if isinstance(thing, Op) else ""),
            "call": thing.call if isinstance(thing, Scope) else 0,
            "failed": self._failed(thing),
            "facts": self.lists(self.facts.rows(place)),
        }

    def _failed(self, thing: Scope | Op | None) -> int:
        """0 for success, 1 for a failure with an error that the program caught, 2 if the run
        ended, 3 if it was still running when the run was saved."""
        if thing is None or not thing.failed:
            return 0
        if thing.id in self.tree.view.recording.run.running:
            return 3
        return 1 if error_in(self.tree.view.recording, thing.id) is None else 2

    def _kind(self, place: TreeNode) -> str:
        if place.fold:
            return "fold"
        view = self.tree.view
        if place.id in view.boxes:
            return view.boxes[place.id].kind.value
        if is_block(place.id):
            return "region"
        scope = view.recording.scopes.get(ScopeId(place.id))
        return scope_kind(scope).value if scope is not None else "op"

    def _paths(self) -> Iterator[str]:
        """The dotted path of each scope; for other places, that of the scope around it."""
        scopes = self.tree.view.recording.scopes
        paths: list[str] = []
        for place in self.tree.places:
            scope = scopes.get(ScopeId(place.id))
            path = scope.path if scope is not None else ""
            if place.fold and scope is not None:
                path = labels.names(tuple(scopes[ScopeId(item)].path for item in place.fold))
            paths.append(path or (paths[place.parent] if place.parent >= 0 else ""))
        return iter(paths)

    def legend(self, legends: Iterable[Sequence[LegendEntry]]) -> list[list[int]]:
        """The legend in light and dark colors, if the style has one."""
        return [
            [self.strings(light.text), self.look((light.look, dark.look))]
            for light, dark in zip(*legends)
        ]

    def tables(self) -> dict[str, Any]:
        """The tables for the indices in the columns; complete when all columns are made."""
        return {
            "labels": self.labels.rows,
            "looks": self.looks.rows,
            "facts": self.lists.rows,
            "strings": self.strings.rows,
        }


def _rows(strings: IndexTable[str], rows: Iterable[FactRow]) -> list[list[int]]:
    return [[strings(title), strings(text)] for title, text in rows]


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [*map(itemgetter(name), rows)] for name in (rows[0] if rows else ())}


_LOOK = [field.name for field in fields(Look) if field.name != "attributes"]


@lru_cache(maxsize=4096)
def _plain(look: Look) -> tuple[tuple[str, Any], ...]:
    return tuple((name, getattr(look, name)) for name in _LOOK)
