"""Tensors: the values on the arrows of a page, with their producers and readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from torchrecorder.events import GRADIENT_MESSAGE, ScopeId, ValueId
from torchrecorder.export.page_data.box_appearance import HiddenUpdate, TreeAppearance
from torchrecorder.export.page_data.columns import Columns
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Value
from torchrecorder.layout.layered import Link
from torchrecorder.style import labels
from torchrecorder.style.argument_marks import Mark, argument_marks, attends, mark_into
from torchrecorder.style.draw import dashed, narrow
from torchrecorder.style.figure import Look
from torchrecorder.style.merge_captions import first_to_last
from torchrecorder.views.bundles import MAX_SINGLE_ARROWS, ROLES, UPDATES, FlowKind, bundles
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import Arrow


class TensorColumns:
    """The values on the arrows of an unfolded view, once for each box that they leave.

    Buffers without an arrow follow, and then trunks: tensors that leave a place side by side and
    are drawn as one line outside of it.

    Attributes:
        number: The row of each pair of the place it leaves and the value, or of the place that
            a trunk leaves and its name.
        flows: The kind of tensor on each arrow.
        updates: For each buffer that no arrow carries, its place and value, where it is read.
    """

    def __init__(self, drawn: TreeAppearance, columns: Columns) -> None:
        self.drawn = drawn
        self.columns_of = columns
        self.view = drawn.tree.view
        arrows = zip(self.view.arrows, drawn.tree.lines)
        carrying: dict[tuple[int, str], list[int]] = grouped(
            ((tail, arrow.value or ""), place) for place, (arrow, (tail, _)) in enumerate(arrows)
        )
        self.number = {key: row for row, key in enumerate(carrying)}
        self.arrows = [*carrying.values()]
        self.flows = drawn.flows
        updates = (((update.tail, update.value), update) for update in drawn.updates)
        self.updates = grouped((key, update) for key, update in updates if key not in self.number)
        self.trunks = trunks(drawn.tree, self.flows, drawn.updates)
        self.marked = self._marked()
        for key in self.updates:
            self.number[key] = len(self.number)
        for trunk in self.trunks:
            self.number[trunk.place, trunk.name] = len(self.number)

    def _marked(self) -> dict[int, Mark]:
        """The mark of each arrow that may have one, by index; for a bundle, that of the first
        arrow."""
        arrows, scopes = self.view.arrows, self.view.recording.scopes
        reads = Counter([arrow.head for arrow in arrows])
        place = {
            id(arrow): number for number, arrow in enumerate(arrows)
            if reads[arrow.head] > 1 or arrow.head in scopes
        }
        some = replace(self.view, arrows=tuple(arrows[number] for number in place.values()))
        drawn = bundles(some, [self.flows[number] for number in place.values()])
        marks = argument_marks(some, drawn)
        return {place[id(drawn[item].first)]: mark for item, mark in marks.items()}

    def marks(self) -> list[list[int]]:
        """For each mark the row of the tensor, which of its readers, its text and its place."""
        string = self.columns_of.strings
        return [
            [row, reader, string(mark.text), mark.place]
            for row, places in enumerate(self.arrows)
            for reader, place in enumerate(places)
            if (mark := self.marked.get(place)) is not None
        ]

    def former_reads(self) -> list[list[int]]:
        """For each read that only the first of two compared runs has the row of the tensor, and
        which of its readers."""
        former = self.view.recording.former_reads
        return [
            [row, reader]
            for row, places in enumerate(self.arrows if former else ())
            for reader, place in enumerate(places)
            if (pairs := self._pairs(self.view.arrows[place])) and former.issuperset(pairs)
        ]

    def _pairs(self, arrow: Arrow) -> set[tuple[str, str]]:
        """The value on an arrow with each op that reads it."""
        return {(arrow.value or "", reader) for reader in self.view.readers(arrow)}

    def closed_marks(self) -> list[list[int]]:
        """For each mark at a closed module its item, the row of the tensor, text and place."""
        tree, scopes, string = self.drawn.tree, self.view.recording.scopes, self.columns_of.strings
        places = tree.places if any(map(attends, scopes.values())) else ()
        taking = {
            number: scope
            for number, place in enumerate(places)
            if not place.fold and (scope := scopes.get(ScopeId(place.id))) and attends(scope)
        }
        found: dict[tuple[int, int], Mark] = {}
        for arrow, (tail, head) in zip(self.view.arrows, tree.lines) if taking else ():
            for place in filter(taking.__contains__, tree.apart(head, tail)):
                row = self.number[tail, arrow.value or ""]
                found.setdefault((place, row), mark_into(taking[place], arrow))
        return [[*key, string(mark.text), mark.place] for key, mark in found.items()]

    def links(self) -> Iterator[Link]:
        """For each arrow, the places that it connects, its value, and its trunks.

        Arrows that share a trunk from the box that they leave are one link to each head.
        """
        within: dict[tuple[int, str], dict[int, str]] = {}
        for trunk in self.trunks:
            for item in trunk.carried:
                within.setdefault(item, {})[trunk.place] = trunk.name
        joined, side = set[Link](), self.view.recording.side_values
        lines = zip(self.view.arrows, self.drawn.tree.lines, self.drawn.flows)
        for arrow, (tail, head), flow in lines:
            shared = dict(within.get((tail, arrow.value or ""), {}))
            name = shared.pop(tail, None)
            link = Link(tail, head, name or arrow.value or "", tuple(shared.items()))
            if link not in joined:
                yield link._replace(side=arrow.value in side or flow in UPDATES)
            if name is not None or arrow.slot in ROLES:
                joined.add(link)

    def columns(self) -> dict[str, list[Any]]:
        """One list per attribute of tensors."""
        tables, values = self.columns_of, self.view.recording.values
        lines_of = self.drawn.tree.lines
        updates = self.updates.values()
        makers = list(self.number)[: len(self.arrows) + len(updates)]
        found = [values.get(ValueId(value)) for _, value in makers]
        lines = [*self._lines(found)]
        readers = [[self.view.arrows[place] for place in row] for row in self.arrows]
        columns: dict[str, list[Any]] = {
            "text": [text for text, _ in lines],
            "producer": [maker for maker, _ in makers],
            "consumers": [
                *([lines_of[place][1] for place in row] for row in self.arrows),
                *([update.head for update in row] for row in updates),
            ],
            "slots": [
                [tables.strings("" if name.isdigit() else name) for name in row]
                for row in (
                    *([arrow.slot for arrow in row] for row in readers),
                    *([update.slot for update in row] for row in updates),
                )
            ],
            "facts": [facts for _, facts in lines],
            "look": [*map(self._look, self.arrows), *(self._light() for _ in updates)],
        }
        for trunk in self.trunks:
            for name, text in self._trunk(trunk, columns).items():
                columns[name].append(text)
        return columns

    def _lines(self, found: Iterable[Value | None]) -> Iterator[tuple[int, int]]:
        """The numbers of the text and the facts of each tensor; equal tensors have the same."""
        tables, known = self.columns_of, dict[object, tuple[int, int]]()
        for item in found:
            key = item and (item.shape, item.dtype, item.device, item.kind, item.requires_grad)
            if key not in known:
                text = labels.form(item) if item else ""
                facts = tables.facts.tensor(item.id if item else None)
                known[key] = tables.strings(text), tables.lists(facts)
            yield known[key]

    def _trunk(self, trunk: TensorTrunk, columns: Mapping[str, list[Any]]) -> dict[str, Any]:
        """The attributes of a trunk, from those of the tensors in it."""
        tables, rows = self.columns_of, [self.number[item] for item in trunk.carried]
        texts = [tables.strings.rows[columns["text"][row]] for row in rows]
        looks = [columns["look"][row] for row in rows]
        if trunk.flow in UPDATES:
            looks = [self._light()]
        same = labels.alike(first_to_last(texts), len(rows))
        text = same if trunk.flow is FlowKind.TENSOR else trunk.flow.counted(len(rows))
        return {
            "text": tables.strings(text),
            "producer": trunk.place,
            "consumers": list(trunk.heads),
            "slots": [tables.strings("") for _ in trunk.heads],
            "facts": tables.lists(()),
            "look": looks[0] if looks.count(looks[0]) == len(looks) else -1,
        }

    def members(self) -> list[list[int]]:
        """The rows of the tensors in each trunk; its own row is one of the last."""
        return [[self.number[item] for item in trunk.carried] for trunk in self.trunks]

    def _look(self, arrows: list[int]) -> int | list[int]:
        """The index of the common look of all lines of a tensor, or one index for each of its
        readers; -1 is the default look."""
        if self.flows[arrows[0]] in UPDATES:
            return self._light()
        if self.drawn.is_shared:
            if any(self.view.arrows[place].slot != GRADIENT_MESSAGE for place in arrows):
                return -1
            first, second = (dashed(theme.line) for theme in self.drawn.themes)
            return self.columns_of.look((first, second))
        looks = [self._look_of(place) for place in arrows]
        return looks[0] if len({*looks}) == 1 else looks

    def _look_of(self, place: int) -> int:
        """The index of the look of the line of an arrow."""
        light, dark = self._drawn_looks[place]
        theme = self.drawn.themes[0]
        return -1 if light in (theme.line, theme.gradient) else self.columns_of.look((light, dark))

    def _light(self) -> int:
        """The look of the lines of updates."""
        light, dark = self.drawn.themes
        return self.columns_of.look((light.update, dark.update))

    @cached_property
    def _drawn_looks(self) -> list[tuple[Look, Look]]:
        """For each arrow the light and the dark look of its line, as wide as one arrow."""
        number = {
            id(arrow): place
            for place, bundle in enumerate(bundles(self.view, self.flows))
            for arrow in bundle.arrows
        }
        light, dark = (figure.lines for figure in self.drawn.opened)
        lines = [number[id(arrow)] for arrow in self.view.arrows]
        return [(narrow(light[line]), narrow(dark[line])) for line in lines]


class TensorTrunk(NamedTuple):
    """Tensors that leave a place side by side and are drawn as one line."""

    place: int  # the box, scope or fold that they leave
    name: str  # the name of their line there
    carried: tuple[tuple[int, str], ...]  # the place that each tensor leaves, and the tensor
    heads: tuple[int, ...]  # the places it goes to
    flow: FlowKind = FlowKind.TENSOR  # their kind


def trunks(
    tree: Tree, flows: Sequence[FlowKind], updates: Iterable[HiddenUpdate]
) -> list[TensorTrunk]:
    """The tensors that leave the places of a tree side by side.

    Gradients, updated weights, buffers and state are one line wherever they go. Other tensors are
    one line if they go to the same places: one from each sibling of a fold, or more than three from
    one box. For the siblings of a fold, the siblings of another fold are one place.
    """
    heads: dict[tuple[int, FlowKind, int, str], dict[int, None]] = {}
    first: dict[str, str | None] = {}
    several = {
        arrow.tail for arrow in tree.view.arrows
        if first.setdefault(arrow.tail, arrow.value) != arrow.value
    }
    for arrow, flow, (tail, head) in zip(tree.view.arrows, flows, tree.lines):
        innermost = tail if arrow.tail in several else tree.places[tail].parent
        for place in tree.apart(innermost, head):
            if place == tail or flow is not FlowKind.TENSOR or tree.places[place].fold:
                heads.setdefault((place, flow, tail, arrow.value or ""), {})[head] = None
    for update in updates:
        for place in tree.apart(update.around, update.head):
            key = place, FlowKind.BUFFER, update.tail, update.value
            heads.setdefault(key, {})[update.head] = None
    groups: dict[tuple[int, FlowKind, tuple[int, ...]], dict[tuple[int, str], tuple[int, ...]]] = {}
    for (around, flow, tail, value), found in heads.items():
        shared: tuple[int, ...] = ()
        if flow is FlowKind.TENSOR:
            shared = tuple(dict.fromkeys(_outermost(tree, around, head) for head in found))
        groups.setdefault((around, flow, shared), {})[tail, value] = tuple(found)
    return [
        TensorTrunk(
            around,
            f"trunk:{number}",
            tuple(carried),
            tuple(dict.fromkeys(head for item in carried.values() for head in item)),
            flow,
        )
        for number, ((around, flow, _), carried) in enumerate(groups.items())
        if len(carried) > 1 and _is_trunk(tree, around, flow, tuple(carried))
    ]


def _outermost(tree: Tree, place: int, head: int) -> int:
    """The outermost fold around *head* without *place*, if that is a fold itself; else *head*."""
    around = tree.apart(head, place) if tree.places[place].fold else ()
    return [head, *(outer for outer in around if tree.places[outer].fold)][-1]


def _is_trunk(tree: Tree, place: int, flow: FlowKind, carried: Sequence[tuple[int, str]]) -> bool:
    if flow is not FlowKind.TENSOR:
        return True
    if tree.places[place].fold:
        return _siblings(tree, place, carried) == len(carried)
    return len(carried) > MAX_SINGLE_ARROWS


def _siblings(tree: Tree, fold: int, carried: Sequence[tuple[int, str]]) -> int:
    """The number of siblings of a fold from which tensors come."""
    found = set()
    for place, _ in carried:
        while tree.places[place].parent != fold:
            place = tree.places[place].parent
        found.add(place)
    return len(found)
