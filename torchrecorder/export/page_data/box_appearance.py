"""Box appearance: the captions and looks of all places of a page, open and closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from torchrecorder.events import MODES, ScopeId, Slot, ValueId
from torchrecorder.export.dot import in_two, output_labels
from torchrecorder.export.nested import closed_size, header_size
from torchrecorder.export.page_data.equal import representatives
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.relations import maker_of
from torchrecorder.style import labels
from torchrecorder.style.captions import Captions
from torchrecorder.style.diff_colors import WORDS, DiffFinish
from torchrecorder.style.draw import draw_in
from torchrecorder.style.figure import Figure, LegendEntry, Look, Shape, Text
from torchrecorder.style.graph_marks import GraphMarks
from torchrecorder.style.labels import in_a_line
from torchrecorder.style.legend import legend
from torchrecorder.style.line_labels import carried, counted, is_final
from torchrecorder.style.loops import feedback, next_round
from torchrecorder.style.merge_captions import result, same
from torchrecorder.style.style import Style
from torchrecorder.style.themes import DARK, LIGHT
from torchrecorder.style.unread import unread, unread_clusters
from torchrecorder.views.bundles import FlowClassifier, FlowKind
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import Arrow, Box, View

Looks = tuple[Look, Look]
"""The look in the light theme and in the dark theme."""

Sizes = tuple[tuple[float, float], ...]
"""Width and height of a header; then those with its title in one line, if it is in two."""

Corner = tuple[tuple[Text, ...], Sizes, Looks]
"""The lines in the corner of an open place, their sizes, and its looks."""


@dataclass(frozen=True)
class Appearance:
    """The appearance of one place."""

    label: tuple[Text, ...]  # the lines on its closed box
    looks: Looks  # the looks of the closed box
    size: tuple[float, float]  # width and height of the closed box
    count: int  # more than 1 for a fold
    # the lines in its corner when it is open; empty if it cannot be opened
    header: tuple[Text, ...] = ()
    header_sizes: Sizes = ()
    open_looks: Looks | None = None  # the looks when it is open


class TreeAppearance:
    """The appearances of all places of a tree in one style; equal places share one.

    Attributes:
        equal: For each place the first one that is equal to it, but for its title.
        is_shared: Whether equal places share an appearance, and all lines look alike.
        flows: The kind of each arrow of the tree's view.
        updates: Buffers that no arrow of the view carries.
    """

    def __init__(self, tree: Tree, style: Style) -> None:
        self.tree = tree
        self.style = replace(style, color_by=None, shapes="all" if style.shapes else False)
        if isinstance(style.finish, DiffFinish):  # which makes the legend of its own style
            finish = replace(style.finish, style=replace(style.finish.style, color_by=None))
            self.style = replace(self.style, finish=finish)
        own = style.theme not in (LIGHT, DARK)
        self.themes = (style.theme, style.theme) if own else (LIGHT, DARK)
        self.flows = FlowClassifier(tree.view).all()
        self.updates = hidden_updates(tree)
        self.closed_boxes = tree.closed
        self.fold_boxes = {box.id: box for box in tree.folds()}
        self.equal = representatives(tree, self.style, self.flows, self._unused)
        self.is_shared = not isinstance(self.equal, range)
        self.captions = Captions(tree.view, self.style)
        self._sizes: dict[object, tuple[float, float]] = {}
        self._corners: dict[tuple[Text, ...], tuple[tuple[Text, ...], Sizes]] = {}

    @cached_property
    def opened(self) -> tuple[Figure, Figure]:
        """The figure with everything open; of equal boxes and clusters only the first."""
        return self._both(self._distinct)

    @cached_property
    def _distinct(self) -> View:
        """Places without an earlier equal place, with parents, readers and what they read."""
        view, chosen = self.tree.view, self._chosen
        arrows = tuple(
            arrow for arrow in view.arrows if arrow.tail in chosen or arrow.head in chosen
        )
        drawn = chosen.union(end for arrow in arrows for end in (arrow.tail, arrow.head))
        boxes = {item: box for item, box in view.boxes.items() if item in drawn}
        inner = {box.cluster for box in boxes.values()}.union(chosen & view.clusters.keys())
        kept = {outer for item in inner for outer in view.nesting.around(item)}
        clusters = {item: cluster for item, cluster in view.clusters.items() if item in kept}
        return replace(view, boxes=boxes, clusters=clusters, arrows=arrows)

    @cached_property
    def _chosen(self) -> frozenset[str]:
        """The ids of places without an earlier equal place."""
        places = enumerate(self.tree.places)
        return frozenset(place.id for number, place in places if self.equal[number] == number)

    @cached_property
    def rounds(self) -> Mapping[int, str]:
        """The caption of the values that each loop passes to its next iteration, by its fold; those
        of the iteration that passes on most."""
        view, places = self.tree.view, self.tree.places
        found = grouped(self._between_siblings())
        most: dict[int, Sequence[Arrow]] = {}
        for (fold, _), arrows in sorted(found.items()):
            most[fold] = max(most.get(fold, ()), arrows, key=len)
        folds = {fold: self.fold_boxes[places[fold].id] for fold in most}
        loops = {fold: feedback(view, box.replace(carried=tuple(most[fold])))
                 for fold, box in folds.items()}
        return {fold: next_round(view, back) for fold, back in loops.items() if back}

    def _between_siblings(self) -> Iterator[tuple[tuple[int, int], Arrow]]:
        """Each arrow from one sibling of a fold to another, with the places of the fold and of the
        first sibling."""
        places = self.tree.places
        for number in self.tree.leaving:
            *_, sibling = self.tree.apart(*self.tree.lines[number])
            fold = places[sibling].parent
            if fold >= 0 and places[fold].fold:
                yield (fold, sibling), self.tree.view.arrows[number]

    def legends(self) -> tuple[tuple[LegendEntry, ...], ...]:
        """The legend of each theme, including closed boxes."""
        if self.style.finish is not None or not self.style.legend:
            drawn = (self.opened, self._closed_figures, self._fold_figures)
            return tuple(map(_joined_legend, zip(*drawn)))
        boxes = {**self.closed_boxes, **self.tree.view.boxes}
        view = replace(self.tree.view, boxes=boxes)
        graphs = GraphMarks(view)
        return tuple(
            (*graphs.legend(theme), *legend(view, replace(self.style, theme=theme)))
            for theme in self.themes
        )

    @cached_property
    def _unused(self) -> Mapping[str, str]:
        """The captions of boxes, and of clusters if they are closed, whose results nothing reads; a
        fold has the id of its first box."""
        view = self.tree.view
        found, folds = unread(view), self.fold_boxes
        closed = unread_clusters(view, found)
        return {**found, **{item: text for item, text in closed.items() if item not in folds}}

    def _both(self, view: View) -> tuple[Figure, Figure]:
        light, dark = draw_in(
            self.themes, view, self.style, self._unused, self.captions,
            brief=self.style.finish is None,  # the page has the rest in its panel
        )
        return light, dark

    @cached_property
    def _closed_figures(self) -> tuple[Figure, Figure]:
        return self._closed(self.closed_boxes)

    @cached_property
    def _fold_figures(self) -> tuple[Figure, Figure]:
        return self._closed(self.fold_boxes)

    def _closed(self, boxes: Mapping[str, Box]) -> tuple[Figure, Figure]:
        view = self.tree.view
        chosen = {item: box for item, box in boxes.items() if item in self._chosen}
        clusters = {} if self.is_shared else view.clusters
        return self._both(replace(view, boxes=chosen, clusters=clusters, arrows=()))

    def appearances(self) -> Iterator[Appearance]:
        """The appearance of each place of the tree."""
        output_line = self._output_lines()
        leaves, (light, dark) = _shapes(self.opened), self.opened
        groups = {group.id: (group, twin) for group, twin in zip(light.groups, dark.groups)}
        closed, folds = _shapes(self._closed_figures), _shapes(self._fold_figures)
        leaf = {name: text.text for name, text in output_labels(self.opened[0]).items()}
        made: dict[tuple[int, str, str | None, str | None], Appearance] = {}
        for number, first in enumerate(self.equal):
            title = self._title(number) if self.is_shared else ""
            key = first, title, output_line.get(number), self.rounds.get(number)
            if key not in made:
                place = self.tree.places[first]
                if place.fold:
                    made[key] = self._fold(place.id, folds[place.id], key[2], key[3])
                elif place.id in groups:
                    group, twin = groups[place.id]
                    corner = self._corner(_titled(group.label, title), (group.look, twin.look))
                    made[key] = self._appearance(closed[place.id], title, key[2], corner)
                else:
                    made[key] = self._appearance(leaves[place.id], title, leaf.get(place.id))
            yield made[key]

    def _title(self, number: int) -> str:
        """The title of a call, which may differ between equal places; else empty."""
        view, place = self.tree.view, self.tree.places[number]
        scope = view.recording.scopes.get(ScopeId(place.id))
        if scope is None or place.fold:
            return ""
        drawn = view.clusters.get(place.id)
        return self.captions.title(scope, drawn or view.boxes[place.id])

    def _appearance(
        self,
        shapes: tuple[Shape, Shape],
        title: str,
        output_line: str | None,
        corner: Corner | tuple[()] = (),
    ) -> Appearance:
        light, dark = shapes
        label = _titled(light.label, title)
        label = label if output_line is None else (*label, Text(output_line))
        size = self._size(light, label)
        return Appearance(label, (light.look, dark.look), size, light.count, *corner)

    def _size(self, shape: Shape, label: tuple[Text, ...]) -> tuple[float, float]:
        key = label, shape.look.outline, shape.look.bold, shape.count > 1
        if key not in self._sizes:
            self._sizes[key] = closed_size(shape, self.opened[0], None, label)
        return self._sizes[key]

    def _fold(
        self, fold: str, shapes: tuple[Shape, Shape], output_line: str | None, next_: str | None
    ) -> Appearance:
        """A fold has the title of its box in its corner, a wide frame, and no color except a custom
        one. *next_* is the caption of the values that a loop passes to its next iteration."""
        custom = self.style.custom
        key = custom.of_box(self.fold_boxes[fold], self.tree.view)
        light, dark = (
            custom.frame(replace(theme.region, dash="solid", width=2.0), key, theme)
            for theme in self.themes
        )
        drawn, caption = shapes[0], (Text(next_),) if next_ else ()
        title = tuple(item for item in drawn.label if item.part == "title")
        closed = replace(drawn, label=(*drawn.label, *caption))
        corner = self._corner((*title, *caption), (light, dark))
        return self._appearance((closed, shapes[1]), "", output_line, corner)

    def _corner(self, label: tuple[Text, ...], looks: Looks) -> Corner:
        if label not in self._corners:
            header = tuple(in_two(label, self.opened[0]))
            both = (header, label) if header != label else (header,)
            sizes = tuple([header_size(each, self.opened[0]) for each in both])
            self._corners[label] = header, sizes
        return *self._corners[label], looks

    def _output_lines(self) -> Mapping[int, str]:
        """The output shapes of each scope and fold, as one line."""
        tree, view, places = self.tree, self.tree.view, self.tree.places
        found: dict[int, dict[str | None, _Output]] = {}
        for number in tree.leaving if self.style.shapes else ():
            arrow, flow, (tail, head) = view.arrows[number], self.flows[number], tree.lines[number]
            text, value = carried(view, arrow, self.captions), same(view, arrow)
            if not text and flow is FlowKind.TENSOR:
                continue
            for around in tree.apart(places[tail].parent, head):
                outputs, final = found.setdefault(around, {}), is_final(view, arrow)
                if value not in outputs:
                    which = result(view.recording, places[around].id, value)
                    outputs[value] = _Output(which, len(outputs), text, final, flow)
                elif not final:
                    outputs[value] = outputs[value]._replace(final=False)
        for update in self.updates if self.style.shapes else ():
            text = labels.shape(view.recording.values[update.value].shape)
            for around in tree.apart(update.around, update.head):
                outputs = found.setdefault(around, {})
                which = result(view.recording, places[around].id, update.value)
                output = _Output(which, len(outputs), text, False, FlowKind.BUFFER)
                outputs.setdefault(update.value, output)
        lines = ((number, _line(tuple(outputs.values()))) for number, outputs in found.items())
        return {number: text for number, text in lines if text}


class _Output(NamedTuple):
    """An output of a scope: its index, and whether only outputs of the run read it."""

    result: int
    order: int
    text: str
    final: bool
    flow: FlowKind


@lru_cache(maxsize=4096)
def _line(outputs: tuple[_Output, ...]) -> str:
    """The outputs as one line; empty if all of them are outputs of the run, which have boxes."""
    words = sorted(outputs)
    if all(item.final for item in words):
        return ""
    numbers = Counter(item.flow for item in words)
    texts = (counted(item.flow, numbers[item.flow]) for item in words)
    several = dict.fromkeys(text for text in texts if text)
    alone = [
        item.text for item in words if item.text and not counted(item.flow, numbers[item.flow])
    ]
    return in_a_line(Counter([*alone, *several]))


def _titled(label: tuple[Text, ...], title: str) -> tuple[Text, ...]:
    """*label* with another title; unchanged if that is empty."""
    return (Text(title, "title"), *label[1:]) if title else label


def _joined_legend(figures: Sequence[Figure]) -> tuple[LegendEntry, ...]:
    """The legend of the first figure, with the differences that are in any of them."""
    legends = [figure.legend for figure in figures]
    found = {row.text: row for rows in legends for row in rows if row.part == "difference"}
    own = [row for row in legends[0] if row.part != "difference"]
    totals = [row for row in own if row.part == "total"]
    differing = [found[text] for text in WORDS.values() if text in found]
    return (*own[: len(own) - len(totals)], *differing, *totals)


def _shapes(figures: tuple[Figure, Figure]) -> dict[str, tuple[Shape, Shape]]:
    light, dark = figures
    return {shape.id: (shape, twin) for shape, twin in zip(light.shapes, dark.shapes)}


class HiddenUpdate(NamedTuple):
    """A buffer that one op wrote and another one reads, at least one of which is not drawn."""

    value: ValueId  # the buffer
    tail: int  # the place of the op that wrote it, or of the module around that op
    around: int  # the innermost scope or fold that the buffer leaves
    head: int  # the place of the module around the op that reads it
    slot: str  # the name of the argument that it is there


def hidden_updates(tree: Tree) -> tuple[HiddenUpdate, ...]:
    """The updates of buffers from one module to another that no arrow of the view carries."""
    if tree.view.backward or not tree.view.recording.bookkeeping:
        return ()
    return tuple(_Updates(tree).all())


class _Updates:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.recording = tree.view.recording
        self.place = {
            place.id: number for number, place in enumerate(tree.places) if not place.fold
        }

    def all(self) -> Iterator[HiddenUpdate]:
        """Those that ops without a box read."""
        hidden = self.recording.bookkeeping.difference(self.place)
        for op in self.recording.ops.values() if hidden else ():
            head = self._module(op) if op.id in hidden else None
            if head is None:
                continue
            for slot in op.inputs:
                maker = maker_of(self.recording, slot.value)
                if maker is not None:
                    yield from self._from(maker, slot, head)

    def _from(self, producer: Op, slot: Slot, head: int) -> Iterator[HiddenUpdate]:
        """The update by *producer*, if it leaves the module around it."""
        own, module = self.place.get(producer.id), self._module(producer)
        tail, around = (module, module) if own is None else (own, self.tree.places[own].parent)
        if tail is not None and around is not None:
            if next(self.tree.apart(around, head), None) is not None:
                yield HiddenUpdate(slot.value, tail, around, head, slot.name)

    def _module(self, op: Op) -> int | None:
        """The place of the innermost module around an op that is not drawn, if it can be opened."""
        scopes = self.recording.scopes
        for scope in self.recording.within(op.scope):
            if scope in self.place or scopes[scope].kind not in MODES:
                return self.place.get(scope) if scope in self.tree.view.clusters else None
        return None
