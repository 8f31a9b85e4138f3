"""Mermaid: flowcharts for Markdown pages on GitHub and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torchrecorder.checks import whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.mappings import grouped
from torchrecorder.option_table import Checked, documented, option
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Line, Look, Shape, Text, nested, title_of
from torchrecorder.style.style import Style
from torchrecorder.views.bundles import bundles
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.view import View

MOST_LINES = 499
"""Mermaid's default limit of arrows."""

MOST_TEXT = 50_000
"""Mermaid's default limit of characters."""

OUTLINES = {
    "box": ("[", "]"),
    "rounded": ("(", ")"),
    "ellipse": ("([", "])"),
    "circle": ("((", "))"),
    "cylinder": ("[(", ")]"),
    "note": (">", "]"),
    "parallelogram": ("[/", "/]"),
    "octagon": ("{{", "}}"),
    "plain": ("[", "]"),
}
"""The delimiters of a label for each outline; what only Graphviz has is a box, as in SVG."""

ESCAPED = {ord(char): f"#{ord(char)};" for char in "#\"<>&`\\*_"} | {ord("\n"): "<br/>"}
"""Escapes of characters with a special meaning in Mermaid, Markdown or HTML."""


HEAD = """\
---
config:
  flowchart:
    subGraphTitleMargin: {top: 4, bottom: 16}
---"""
"""Keeps the titles of groups clear of arrows."""


@documented
@dataclass(frozen=True)
class Mermaid(Checked):
    """A Mermaid flowchart.

    If a view is too large, its deepest scopes are closed until it fits.
    """

    suffix: ClassVar[str] = ".mmd"
    most_lines: int = option(
        "How many arrows a Mermaid figure may have. GitHub draws 499.",
        whole_number(0),
        default=MOST_LINES,
        placeholder="NUMBER",
    )
    most_text: int = option(
        "How many characters a Mermaid figure may have. GitHub draws 50,000.",
        whole_number(0),
        default=MOST_TEXT,
        placeholder="NUMBER",
    )

    def export(self, view: View, style: Style) -> str:
        """The contents of the file.

        Raises:
            InvalidArgument: Even with every scope closed there is too much to draw.
        """
        text = self._fitting(view, style)
        if text is not None:
            return text
        low, high = 0, 1 + max(view.nesting.depth.values())
        found = None
        while low < high:
            depth = (low + high) // 2
            note = f"closed to depth {depth}, because Mermaid draws no more at once"
            closed = self._fitting(Collapse(depth)(view), style, note)
            found, low, high = (found, low, depth) if closed is None else (closed, depth + 1, high)
        if found is None:
            raise InvalidArgument(self._refusal(view, style))
        return found

    def _fitting(self, view: View, style: Style, note: str = "") -> str | None:
        """The text for *view*, unless it is too large."""
        if len(bundles(view)) > self.most_lines:
            return None
        text = mermaid(draw(view, style), note)
        return text if _length(text) <= self.most_text else None

    def _refusal(self, view: View, style: Style) -> str:
        closed = Collapse(0)(view)
        size = _length(mermaid(draw(closed, style)))
        return (
            f"with every scope closed there are still {len(bundles(closed)):,} arrows in"
            f" {size:,} characters, and Mermaid draws at most {self.most_lines:,} in"
            f" {self.most_text:,}: hide parameters or shapes, or write .svg or .html"
        )


def mermaid(figure: Figure, note: str = "") -> str:
    """*figure* as a Mermaid flowchart, without limits."""
    return "\n".join([*_Flowchart(figure).lines(note), ""])


def escaped(text: str) -> str:
    """*text*, escaped for Mermaid."""
    return "".join(
        character for character in text if character.isprintable() or character == "\n"
    ).translate(ESCAPED)


class _Flowchart:
    """Writes one figure, with numbered boxes, groups and looks."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.boxes = {shape.id: f"n{i}" for i, shape in enumerate(figure.shapes)}
        self.groups = {group.id: f"g{i}" for i, group in enumerate(figure.groups)}
        self.looks: dict[str, str] = {}

    def lines(self, note: str) -> Iterator[str]:
        figure = self.figure
        if figure.groups:
            yield HEAD
        yield f"flowchart {figure.direction}"
        if note:
            yield f"    %% {note}"
        yield from self._nested()
        for line in figure.lines:
            yield "    " + self._line(line)
        members = grouped((self._look(one.look), self.groups[one.id]) for one in figure.groups)
        for look, name in self.looks.items():
            yield f"    classDef {name} {look}"
        for name, groups in members.items():
            yield f"    class {','.join(groups)} {name}"
        if figure.lines:
            yield f"    linkStyle default stroke:{figure.lines[0].look.stroke}"

    def _nested(self) -> Iterator[str]:
        for depth, item in nested((*self.figure.groups, *self.figure.shapes)):
            pad = "    " * (depth + 1)
            if item is None:
                yield f"{pad}end"
            elif isinstance(item, Shape):
                yield pad + self._shape(item)
            else:
                text = _label((Text(title_of(item.label), "title"),))
                yield f'{pad}subgraph {self.groups[item.id]}["{text}"]'

    def _shape(self, shape: Shape) -> str:
        left, right = OUTLINES.get(shape.look.outline, OUTLINES["box"])
        name = self.boxes[shape.id]
        return f'{name}{left}"{_label(shape.label)}"{right}:::{self._look(shape.look)}'

    def _line(self, line: Line) -> str:
        arrow = "==>" if line.look.width > 1.5 else "-->"
        arrow = arrow if line.look.dash == "solid" else "-.->"
        label = " · ".join(filter(None, (line.mark, line.label)))
        text = f'|"{escaped(label)}"|' if label else ""
        return f"{self.boxes[line.tail]} {arrow}{text} {self.boxes[line.head]}"

    def _look(self, look: Look) -> str:
        """The class name of a look, shared by equal looks."""
        text = f"fill:{look.fill},stroke:{look.stroke},color:{look.text}"
        if look.width != 1:
            text += f",stroke-width:{look.width:g}px"
        if look.dash != "solid":
            text += f",stroke-dasharray:{'2 2' if look.dash == 'dotted' else '5 3'}"
        return self.looks.setdefault(text, f"k{len(self.looks)}")


def _label(label: tuple[Text, ...]) -> str:
    return "<br/>".join(escaped(text.text) for text in label) or " "


def _length(text: str) -> int:
    """The length of *text* in JavaScript (UTF-16 units)."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
