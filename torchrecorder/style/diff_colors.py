"""Diff colors: the look of boxes and arrows that are added, removed or changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from torchrecorder.style import labels
from torchrecorder.style.color import mix
from torchrecorder.style.figure import Figure, Group, LegendEntry, Line, Look, Shape, Text
from torchrecorder.style.legend import custom_colors, kinds, legend
from torchrecorder.style.renaming import counterparts
from torchrecorder.style.style import RULES, Style
from torchrecorder.style.themes import Theme
from torchrecorder.views.bundles import bundles
from torchrecorder.views.view import Arrow, Box, Cluster, View

MAX_LINES = 2
"""The maximum number of lines about a difference on a label."""

MAX_LINE_LENGTH = 34
"""The maximum number of characters of such a line."""


@dataclass(frozen=True)
class DiffCaption:
    """The text about the difference of one node.

    *pieces* of the other lines of a closed module are replaced, such as ``"3 × BasicBlock"`` by
    ``"2 → 3 × BasicBlock"``.
    """

    own: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()  # about the contents of a closed module
    former: str = ""  # the other name in the first run
    pieces: Mapping[str, str] = field(default_factory=dict)


def captioned(
    label: tuple[Text, ...], siblings: Iterable[DiffCaption], closed: bool
) -> tuple[Text, ...]:
    """*label* with the difference that all *siblings* in one box or frame have."""
    told = list(siblings)
    if not told:
        return label
    first, former = told[0], tuple(caption.former for caption in told if caption.former)
    lines = [line for line in first.own if all(line in caption.own for caption in told)]
    lines += [f"was {labels.names(former)}"] if former else []
    if closed:
        pieces = {
            piece: other for piece, other in first.pieces.items()
            if all(each.pieces.get(piece) == other for each in told)
        }
        label = tuple(_replaced(text, pieces) for text in label)
        lines += (line for line in first.inside if all(line in each.inside for each in told))
    for now in [line for line in lines if line.startswith("now ")]:
        known = now.replace("now", ",", 1)  # "20 params, frozen" says it, too
        if any(text.text.endswith(known) for text in label):
            label = tuple(
                replace(text, text=f"{text.text.removesuffix(known)}, {now}")
                if text.text.endswith(known) else text
                for text in label
            )
            lines.remove(now)
    shown = (labels.shorten_list(line, MAX_LINE_LENGTH) for line in lines[:MAX_LINES])
    return (*label, *map(Text, shown))


def _replaced(text: Text, pieces: Mapping[str, str]) -> Text:
    """A line of a label with some pieces replaced; titles are unchanged."""
    if text.part == "title":
        return text
    for piece, other in pieces.items():
        whole = re.compile(rf"(?<![\w.]){re.escape(piece)}(?!\w)")
        if whole.search(text.text):
            return Text(whole.sub(other.replace("\\", r"\\"), text.text, count=1), text.part)
    return text


REWIRED = "rewired"
"""The mark of what reads another tensor, and differs in nothing else."""

HUES = {"added": "#009e73", "removed": "#d55e00", "": "#e69f00"}
"""Colors of added and removed nodes, and of all other differences."""

WORDS = {"added": "added", "removed": "removed", "": "different"}
"""Their names in the legend."""


@dataclass(frozen=True)
class DiffColors:
    """Colors the differences; everything else is pale."""

    marks: Mapping[str, str]  # of scopes, ops and values, by id: "added", "removed" or others
    removed: Collection[tuple[str, str]]  # inputs, as pairs of value and op
    added: Collection[tuple[str, str]]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # for pages, by id
    summary: tuple[str, ...] = ()  # lines below the legend
    captions: Callable[[str], DiffCaption | None] = lambda node: None  # of a box or frame, by id

    def style(self, style: Style) -> Style:
        """*style* with these marks, applied after its own ``finish``."""
        return replace(
            style, rules=(self.rule, *style.rules), finish=DiffFinish(self, style),
            notes={**style.notes, **self.notes},
        )

    def rule(self, box: Box, view: View, theme: Theme) -> Look | None:
        """The look of a box with its mark; pale without one."""
        mark = self.mark(box)
        plain = _plain(box, view, theme)
        return _pale(plain, theme) if mark is None else _tinted(plain, mark, theme)

    def mark(self, box: Box) -> str | None:
        """The mark of a box; ``"changed"`` if something in it is marked."""
        if box.id in self.marks:
            return self.marks[box.id]
        found = {self.marks[member] for member in box.members if member in self.marks}
        return None if not found else "changed"

    def finish(self, figure: Figure, view: View, style: Style) -> Figure:
        """Color clusters and arrows, add texts about differences, and extend the legend.

        A box that only reads something else is pale if colored arrows say so.
        """
        theme, clusters = style.theme, view.clusters.values()
        lines = [(line, bundle.arrows, {self._mark(arrow, view) for arrow in bundle.arrows})
                 for line, bundle in zip(figure.lines, bundles(view))]
        told = {arrow.head for _, arrows, marks in lines if marks != {""} for arrow in arrows}
        colored = {
            box.id: mark for box in view.boxes.values()
            if (mark := self.mark(box)) is not None
            and not (box.id in told and self._only_rewired(box, view))
        }
        shapes = tuple(
            self._with_change(
                shape if box.id in colored else self._equal(shape, box, view, style), box, view
            )
            for shape, box in zip(figure.shapes, view.boxes.values())
        )
        groups = tuple(
            self._framed(group, cluster, view, theme)
            for group, cluster in zip(figure.groups, clusters)
        )
        framed = [self.marks[cluster.id] for cluster in clusters if cluster.id in self.marks]
        drawn = [_united(marks) for _, _, marks in lines if marks != {""}]
        return replace(
            figure, shapes=shapes, groups=groups,
            lines=tuple(self._line(line, marks, theme) for line, _, marks in lines),
            legend=tuple(self._legend(figure, view, style, {*colored.values(), *framed, *drawn})),
        )

    def _equal(self, shape: Shape, box: Box, view: View, style: Style) -> Shape:
        """A shape that is equal in both runs: pale, or in the tint of a custom color."""
        look, custom = shape.look, style.custom
        if self.mark(box) is not None:
            look = _pale(_plain(box, view, style.theme), style.theme)
        return replace(shape, look=custom.frame(look, custom.of_box(box, view), style.theme))

    def _only_rewired(self, box: Box, view: View) -> bool:
        """Whether all that differs is what the box itself reads; nothing in it does."""
        own = {box.id, *counterparts(box, view)}
        marked = [item for item in (box.id, *box.members) if item in self.marks]
        return all(item in own and self.marks[item] == REWIRED for item in marked)

    def _legend(
        self, figure: Figure, view: View, style: Style, marks: Collection[str]
    ) -> Iterator[LegendEntry]:
        """The legend: kinds of unchanged boxes in their pale colors, the differences that are drawn
        with *marks*, totals."""
        theme, listed = style.theme, legend(view, style) if style.legend else ()
        yield from (entry for entry in figure.legend if entry not in listed)
        same = {box.id: box for box in view.boxes.values() if self.mark(box) is None}
        if style.legend:
            equal = replace(view, boxes=same)
            for entry in kinds(equal, style):
                yield replace(entry, look=_pale(entry.look, theme))
            yield from custom_colors(equal, style, soft=True)
        plain = theme.looks["op"]
        words = {mark if mark in HUES else "" for mark in marks}
        for word in filter(words.__contains__, WORDS):
            yield LegendEntry(WORDS[word], _tinted(plain, word, theme), "difference")
        yield from (LegendEntry(item, theme.text_only, "total") for item in self.summary)

    def _with_change(self, shape: Shape, box: Box, view: View) -> Shape:
        """A shape with the text about its difference; a circle has room only in its tooltip."""
        if shape.look.outline == "circle":
            tooltip = "\n".join((shape.tooltip, *self.notes.get(box.id, ())))
            return replace(shape, tooltip=tooltip)
        told = filter(None, map(self.captions, counterparts(box, view)))
        return replace(shape, label=captioned(shape.label, told, closed=True))

    def _framed(self, group: Group, cluster: Cluster, view: View, theme: Theme) -> Group:
        """The frame of a cluster in its color, with its difference; folds have no former name."""
        told = self.captions(cluster.id)
        if told is not None:
            around = view.nesting.around(cluster.id)
            if any(view.clusters[outer].count > 1 for outer in around):
                told = replace(told, former="")
            group = replace(group, label=captioned(group.label, [told], closed=False))
        if cluster.id not in self.marks:
            return group
        return replace(group, look=_outlined(group.look, self.marks[cluster.id], theme))

    def _mark(self, arrow: Arrow, view: View) -> str:
        """The mark of an arrow; empty if both runs have it."""
        members = view.boxes[arrow.head].members
        pairs = [(arrow.value or "", reader) for reader in view.readers(arrow)]
        former = not pairs and any((arrow.value, member) in self.removed for member in members)
        if former or (pairs and all(pair in self.removed for pair in pairs)):
            return "removed"
        return "added" if pairs and all(pair in self.added for pair in pairs) else ""

    def _line(self, line: Line, marks: set[str], theme: Theme) -> Line:
        """*line* in the color of the marks of its arrows."""
        if marks == {""}:
            return line
        return replace(line, look=_outlined(line.look, _united(marks), theme))


@dataclass(frozen=True)
class DiffFinish:
    """The ``finish`` of a style with diff colors."""

    colors: DiffColors
    style: Style  # without them

    def __call__(self, figure: Figure, view: View) -> Figure:
        """Color *figure* after the ``finish`` of its own style."""
        earlier = self.style.finish
        done = figure if earlier is None else earlier(figure, view)
        return self.colors.finish(done, view, self.style)

    def in_theme(self, theme: Theme) -> DiffFinish:
        """The same for figures in another theme."""
        return replace(self, style=self.style.in_theme(theme))


def _united(marks: Collection[str]) -> str:
    """The mark of a line with these marks of its arrows; ``"changed"`` if they differ."""
    return next(iter(marks)) if len(marks) == 1 else "changed"


def _plain(box: Box, view: View, theme: Theme) -> Look:
    """The look of a box in a figure of one run."""
    answers = (rule(box, view, theme) for rule in RULES)
    return next(look for look in answers if look is not None)


def _pale(look: Look, theme: Theme) -> Look:
    """The pale variant of *look*, for parts that are equal in both runs."""
    fill, stroke = mix(theme.paper, look.stroke, 0.04), mix(theme.paper, look.stroke, 0.5)
    return replace(look, fill=fill, stroke=stroke)


def _tinted(look: Look, mark: str, theme: Theme) -> Look:
    hue = HUES.get(mark, HUES[""])
    return replace(_outlined(look, mark, theme), fill=mix(theme.paper, hue, 0.3))


def _outlined(look: Look, mark: str, theme: Theme) -> Look:
    """*look* in the color of the mark; removed parts are dashed, to differ without color too."""
    stroke = mix(HUES.get(mark, HUES[""]), theme.ink, 0.2)
    dash = "dashed" if mark == "removed" else look.dash
    return replace(look, stroke=stroke, dash=dash, width=max(look.width, 1.8))
