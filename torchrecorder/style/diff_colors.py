"""Colours of differences: boxes and arrows that are added, removed or changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from torchrecorder.style.color import mix
from torchrecorder.style.figure import Figure, LegendEntry, Line, Look
from torchrecorder.style.style import RULES, Style
from torchrecorder.style.themes import Theme
from torchrecorder.views.bundles import bundles
from torchrecorder.views.removed_edges import readers
from torchrecorder.views.view import Arrow, Box, View

HUES = {"added": "#009e73", "removed": "#d55e00", "": "#e69f00"}
"""Colours of added and removed nodes, and of all other differences."""

WORDS = {"added": "added", "removed": "removed", "": "different"}
"""Their names in the legend."""


@dataclass(frozen=True)
class DiffColors:
    """Colours differences; everything else is pale.

    Attributes:
        marks: The differences of scopes, ops and values, by id: ``"added"``, ``"removed"`` or more.
        removed: The removed inputs, as pairs of value and op.
        added: The added inputs, as pairs of value and op.
        notes: Texts about the differences, by id; shown by pages.
        summary: Lines below the legend.
    """

    marks: Mapping[str, str]
    removed: Collection[tuple[str, str]]
    added: Collection[tuple[str, str]]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summary: tuple[str, ...] = ()

    def style(self, style: Style) -> Style:
        """*style* with these marks, applied after its own ``finish``."""
        earlier = style.finish

        def finish(figure: Figure, view: View) -> Figure:
            done = figure if earlier is None else earlier(figure, view)
            return self.finish(done, view, style)

        rules = (self.rule, *style.rules)
        return replace(style, rules=rules, finish=finish, notes={**style.notes, **self.notes})

    def rule(self, box: Box, view: View, theme: Theme) -> Look | None:
        """The look of a box: that of its mark, pale if it has none."""
        answers = (rule(box, view, theme) for rule in RULES)
        plain = next(look for look in answers if look is not None)
        mark = self.mark(box)
        if mark is None:
            fill, stroke = mix(theme.paper, plain.stroke, 0.04), mix(theme.paper, plain.stroke, 0.5)
            return replace(plain, fill=fill, stroke=stroke)
        return _tinted(plain, mark, theme)

    def mark(self, box: Box) -> str | None:
        """The mark of a box; ``"changed"`` if something in it is marked."""
        if box.id in self.marks:
            return self.marks[box.id]
        found = {self.marks[member] for member in box.members if member in self.marks}
        return None if not found else "changed"

    def finish(self, figure: Figure, view: View, style: Style) -> Figure:
        """Apply the colours to clusters and arrows, and add them to the legend."""
        theme = style.theme
        groups = tuple(
            replace(group, look=_outlined(group.look, self.marks[group.id], theme))
            if group.id in self.marks
            else group
            for group in figure.groups
        )
        lines = tuple(
            self._line(line, {self._mark(arrow, view) for arrow in bundle.arrows}, theme)
            for line, bundle in zip(figure.lines, bundles(view))
        )
        plain = theme.looks["op"]
        legend = tuple(
            LegendEntry(WORDS[word], _tinted(plain, word, theme), "difference") for word in WORDS
        )
        legend += tuple(LegendEntry(item, theme.text_only, "total") for item in self.summary)
        return replace(figure, groups=groups, lines=lines, legend=(*figure.legend, *legend))

    def _mark(self, arrow: Arrow, view: View) -> str:
        """The mark of an arrow, empty for one that both runs have."""
        members = view.boxes[arrow.head].members
        pairs = [(arrow.value or "", reader) for reader in readers(view, arrow)]
        former = not pairs and any((arrow.value, member) in self.removed for member in members)
        if former or (pairs and all(pair in self.removed for pair in pairs)):
            return "removed"
        return "added" if pairs and all(pair in self.added for pair in pairs) else ""

    def _line(self, line: Line, marks: set[str], theme: Theme) -> Line:
        """*line* in the colour of its arrows' mark; ``"changed"`` if they differ."""
        if marks == {""}:
            return line
        mark = marks.pop() if len(marks) == 1 else "changed"
        return replace(line, look=_outlined(line.look, mark, theme))


def _tinted(look: Look, mark: str, theme: Theme) -> Look:
    hue = HUES.get(mark, HUES[""])
    return replace(_outlined(look, mark, theme), fill=mix(theme.paper, hue, 0.3))


def _outlined(look: Look, mark: str, theme: Theme) -> Look:
    """*look* in the colour of the mark; dashed if removed, as a sign without colour."""
    stroke = mix(HUES.get(mark, HUES[""]), theme.ink, 0.2)
    dash = "dashed" if mark == "removed" else look.dash
    return replace(look, stroke=stroke, dash=dash, width=max(look.width, 1.8))
