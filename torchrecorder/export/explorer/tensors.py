"""Tensors: what flows from box to box, who made it and who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torchrecorder.events import ValueId
from torchrecorder.export.explorer.columns import Columns
from torchrecorder.export.explorer.box_appearance import Drawn
from torchrecorder.layout.layered import Link
from torchrecorder.style import labels
from torchrecorder.style.merge_captions import first_to_last
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import Arrow


class Tensors:
    """The values on the arrows of an unfolded view, each once for each box it leaves.

    Behind them come bundles: what several siblings of a fold give to the same boxes, which is
    one line outside of the fold.

    Attributes:
        number: The row of each pair of the place it leaves and the value, or of the place of
            the fold and the name of the bundle.
    """

    def __init__(self, drawn: Drawn, columns: Columns) -> None:
        self.drawn = drawn
        self.columns_of = columns
        self.view = drawn.tree.view
        self.number: dict[tuple[int, str], int] = {}
        self.arrows: list[list[int]] = []
        for place, arrow in enumerate(self.view.arrows):
            key = drawn.tree.leaf[arrow.tail], arrow.value or ""
            row = self.number.setdefault(key, len(self.arrows))
            if row == len(self.arrows):
                self.arrows.append([])
            self.arrows[row].append(place)
        self.bundles = bundles(drawn.tree)
        for number, bundle in enumerate(self.bundles):
            self.number[bundle.fold, bundle.name] = len(self.arrows) + number

    def links(self) -> Iterator[Link]:
        """For each arrow the places it joins, what it carries, and in which bundles."""
        leaf = self.drawn.tree.leaf
        within: dict[tuple[int, str], list[tuple[int, str]]] = {}
        for bundle in self.bundles:
            for each in bundle.carried:
                within.setdefault(each, []).append((bundle.fold, bundle.name))
        for arrow in self.view.arrows:
            carried = leaf[arrow.tail], arrow.value or ""
            yield Link(carried[0], leaf[arrow.head], carried[1], tuple(within.get(carried, ())))

    def columns(self) -> dict[str, list[Any]]:
        """One list for each thing that is said of every tensor."""
        say, values = self.columns_of, self.view.recording.values
        leaf = self.drawn.tree.leaf
        makers = list(self.number)[: len(self.arrows)]
        found = [values.get(ValueId(value)) for _, value in makers]
        readers = [[self.view.arrows[place] for place in row] for row in self.arrows]
        columns: dict[str, list[Any]] = {
            "text": [
                say.strings(f"{labels.shape(each.shape)} {each.dtype}" if each else "")
                for each in found
            ],
            "producer": [maker for maker, _ in makers],
            "consumers": [[leaf[arrow.head] for arrow in row] for row in readers],
            "slots": [[say.strings(_slot(arrow)) for arrow in row] for row in readers],
            "bytes": [each.bytes if each else 0 for each in found],
            "facts": [say.lists(say.facts.tensor(each.id if each else None)) for each in found],
            "look": [self._look(row) for row in self.arrows],
        }
        for bundle in self.bundles:
            for name, said in self._bundle(bundle, columns).items():
                columns[name].append(said)
        return columns

    def _bundle(self, bundle: Bundle, columns: Mapping[str, list[Any]]) -> dict[str, Any]:
        """What is said of a bundle, made of what is said of the tensors in it."""
        say, rows = self.columns_of, [self.number[each] for each in bundle.carried]
        texts = [say.strings.rows[columns["text"][row]] for row in rows]
        looks = {columns["look"][row] for row in rows}
        return {
            "text": say.strings(f"{len(rows)} × {first_to_last(texts)}"),
            "producer": bundle.fold,
            "consumers": list(bundle.heads),
            "slots": [say.strings("") for _ in bundle.heads],
            "bytes": sum(columns["bytes"][row] for row in rows),
            "facts": say.lists(()),
            "look": looks.pop() if len(looks) == 1 else -1,
        }

    def members(self) -> list[list[int]]:
        """The rows of the tensors in each bundle; its own row is one of the last."""
        return [[self.number[each] for each in bundle.carried] for bundle in self.bundles]

    def _look(self, arrows: list[int]) -> int:
        """The look of its lines if they share one that is not the usual; else -1."""
        if self.drawn.is_shared:
            return -1
        light, dark = ([fig.lines[place].look for place in arrows] for fig in self.drawn.opened)
        theme = self.drawn.themes[0]
        if light[0] in (theme.line, theme.gradient) or any(each != light[0] for each in light):
            return -1
        return self.columns_of.look((light[0], dark[0]))


class Bundle(NamedTuple):
    """Tensors from several siblings of a fold that go to the same boxes outside of it.

    Attributes:
        fold: The place of the fold.
        name: What its line is called there.
        carried: The place that each tensor leaves, and the tensor.
        heads: The places it goes to.
    """

    fold: int
    name: str
    carried: tuple[tuple[int, str], ...]
    heads: tuple[int, ...]


def bundles(tree: Tree) -> list[Bundle]:
    """What leaves the folds of a tree side by side, to be drawn as one line."""
    heads: dict[tuple[int, int, str], list[int]] = {}
    for arrow in tree.view.arrows:
        tail, head = tree.leaf[arrow.tail], tree.leaf[arrow.head]
        around = tree.places[tail].parent
        while around >= 0 and not around < head < tree.ends[around]:
            if tree.places[around].fold:
                heads.setdefault((around, tail, arrow.value or ""), []).append(head)
            around = tree.places[around].parent
    groups: dict[tuple[int, tuple[int, ...]], list[tuple[int, str]]] = {}
    for (fold, tail, value), found in heads.items():
        groups.setdefault((fold, tuple(dict.fromkeys(found))), []).append((tail, value))
    return [
        Bundle(fold, f"bundle:{number}", tuple(carried), ends)
        for number, ((fold, ends), carried) in enumerate(groups.items())
        if _siblings(tree, fold, carried) == len(carried) > 1
    ]


def _siblings(tree: Tree, fold: int, carried: Sequence[tuple[int, str]]) -> int:
    """From how many siblings of a fold tensors come."""
    found = set()
    for place, _ in carried:
        while tree.places[place].parent != fold:
            place = tree.places[place].parent
        found.add(place)
    return len(found)


def _slot(arrow: Arrow) -> str:
    return "" if arrow.slot.isdigit() else arrow.slot
