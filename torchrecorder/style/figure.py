"""Figure: the contents of a drawing (shapes, groups, lines), for any format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

from torchrecorder.checks import FROM_0, Check, check, check_one, one_of
from torchrecorder.graph.mappings import grouped
from torchrecorder.style.attributes import SHAPES, checked, warn_unknown
from torchrecorder.style.color import COLOR
from torchrecorder.style.paper import Paper

Outline = Literal[
    "box", "rounded", "ellipse", "circle", "cylinder", "note", "parallelogram", "octagon", "plain"
]
Dash = Literal["solid", "dashed", "dotted"]

CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("fill", "stroke", "text"), COLOR),
    "outline": Check(
        f"{one_of(*get_args(Outline)).expected}, or another shape of Graphviz",
        lambda value: value in get_args(Outline) or value in SHAPES,
        (*get_args(Outline), *SHAPES),
    ),
    "dash": one_of(*get_args(Dash)),
    "width": FROM_0,
}
"""Checks of the fields of a look, from rules, themes or stylers."""


@lru_cache(maxsize=4096, typed=True)
def _check_field(name: str, value: object) -> None:
    """Check equal values only once, because a figure has many looks."""
    check_one(name, value, CHECKS[name])


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a shape, group or line.

    Attributes:
        fill: Background color: ``"#rrggbb"``, ``"transparent"``, or a name of X11.
        stroke: Color of outline or line.
        text: Color of its text.
        outline: Form of the outline; ignored for lines.
        dash: ``"solid"``, ``"dashed"`` or ``"dotted"``.
        width: Stroke width in points.
        bold: Whether the first line of text is bold.
        attributes: Graphviz attributes set on top, for stylers. Our own SVG and ``.drawio`` follow
            colors and ``penwidth`` among them; other formats ignore them.
    """

    fill: str
    stroke: str
    text: str
    outline: Outline = "rounded"
    dash: Dash = "solid"
    width: float = 1.0
    bold: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        try:
            for name in CHECKS:
                _check_field(name, getattr(self, name))
        except TypeError:  # an unhashable value, which is invalid
            check(self, CHECKS)
        if self.attributes:
            warn_unknown(self.attributes)
            object.__setattr__(self, "attributes", checked(self.attributes, "attributes"))


@dataclass(frozen=True, slots=True)
class Text:
    """One line of a label.

    Attributes:
        text: Plain text; each format escapes it in its own way.
        part: ``"title"`` (what it is), ``"name"`` (its name) or ``"detail"`` (small text: shapes,
            counts, hyperparameters).
    """

    text: str
    part: Literal["title", "name", "detail"] = "detail"


def title_of(label: Sequence[Text]) -> str:
    """The title of a label, joined if it is broken into several lines."""
    title = "\n".join(item.text for item in label if item.part == "title")
    return title.replace("\n.", ".").replace("\n", " ") or label[0].text


@dataclass(frozen=True, slots=True)
class Shape:
    """A drawn box. *group* is the id of the group around it, None at the top.

    *kind* is a value of `BoxKind`: inputs are placed first, outputs last. *name* is its full name,
    ``"layer1.0.conv1"``.
    """

    id: str
    group: str | None
    label: tuple[Text, ...]
    look: Look
    tooltip: str = ""
    count: int = 1
    kind: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A drawn cluster. *parent* is the id of the group around it, None at the top.

    *name* is its full name. *loop* names the boxes in it that pass a value to the next iteration
    and receive it: a line leads back inside its border.
    """

    id: str
    parent: str | None
    label: tuple[Text, ...]
    look: Look
    tooltip: str = ""
    count: int = 1
    name: str = ""
    loop: tuple[str, str] | None = None


def nested(items: Iterable[Shape | Group]) -> Iterator[tuple[int, Shape | Group | None]]:
    """Shapes and groups with their depth, each after its group; None ends a group."""
    inside = grouped(
        (item.group if isinstance(item, Shape) else item.parent, item) for item in items
    )
    waiting: list[tuple[int, Shape | Group | None]] = []
    waiting.extend((0, item) for item in reversed(inside.get(None, [])))
    while waiting:
        depth, each = waiting.pop()
        yield depth, each
        if isinstance(each, Group):
            waiting.append((depth, None))
            waiting.extend((depth + 1, inner) for inner in reversed(inside.get(each.id, [])))


@dataclass(frozen=True, slots=True)
class Line:
    """A drawn arrow between two shapes.

    *value* is the tensor it carries; lines with the same tail and value may share a trunk. *result*
    is its index among the results of the tail. *count* is the number of arrows of the view that it
    stands for. *mark* is the short name of the argument at its head, and *place* the index of that
    argument. If all lines enter in order, only marks with a negative *place* are drawn. *side*:
    it carries no data, but a mask, positions or the like.
    """

    tail: str
    head: str
    label: str
    look: Look
    tooltip: str = ""
    value: str | None = None
    result: int = 0
    count: int = 1
    mark: str = ""
    place: int = -1
    side: bool = False


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One entry of the legend.

    Attributes:
        text: The explanation.
        look: The look that it explains; an entry with the outline ``"plain"`` is only text.
        part: The part of the legend that it belongs to; each begins a row of its own. The colors
            of a scale are equally wide, and totals have a row each. The title of a scale, or of
            the numbers that have colors, is text in front.
    """

    text: str
    look: Look
    part: Literal["look", "scale", "number", "difference", "total"] = "look"


@dataclass(frozen=True)
class Figure:
    """A figure without positions and format: all texts and colors.

    Attributes:
        direction: ``"TB"`` or ``"LR"``.
        background: Color of the background, or ``"transparent"``.
        fontname: Font family; each format adds its own fallback.
        fontsize: Size of titles in points; details are drawn smaller.
        attributes: Graphviz attributes of the whole graph, set by the user.
        paper: The page on which it is printed.
    """

    name: str
    shapes: tuple[Shape, ...]
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    direction: Literal["TB", "LR", "BT", "RL"] = "TB"
    background: str = "transparent"
    fontname: str = "Helvetica"
    fontsize: float = 10.0
    legend: tuple[LegendEntry, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    paper: Paper = Paper()

    def __repr__(self) -> str:
        counts = f"{len(self.shapes)} shapes, {len(self.groups)} groups, {len(self.lines)} lines"
        return f"<Figure of {self.name}: {counts}>"
