"""Style: rules from box to look, and what is said on boxes and arrows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Optional, Union

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.checks import (
    ABOVE_0,
    CALLABLE,
    FLAG,
    FROM_0,
    MAPPING,
    RANGE,
    TEXTS,
    WORD,
    Check,
    check,
    one_of,
    shown,
)
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.nodes import Scope
from torchrecorder.style.attributes import FIELDS as ATTRIBUTES
from torchrecorder.style.attributes import as_written
from torchrecorder.style.color import COLOR, listed, solid
from torchrecorder.style.families import class_family, op_family
from torchrecorder.style.figure import Figure, Look
from torchrecorder.style.paper import Paper, points
from torchrecorder.style.renaming import check_names
from torchrecorder.style.themes import LIGHT, Theme
from torchrecorder.views.view import Box, BoxKind, View

Rule = Callable[[Box, View, Theme], Optional[Look]]
"""What a box looks like, or None to leave it to the next rule."""


def by_failure(box: Box, view: View, theme: Theme) -> Look | None:
    """The op or closed scope in which the run failed."""
    if not failed(box.id, view):
        return None
    look, mark = by_kind(box, view, theme), theme.looks["failed"]
    return replace(look, fill=mark.fill, stroke=mark.stroke, width=mark.width, bold=True)


def by_idleness(box: Box, view: View, theme: Theme) -> Look | None:
    """What had no part in the backward pass: outlined only, as what is not known to have run."""
    if not view.is_idle(box):
        return None
    look, quiet = by_kind(box, view, theme), theme.looks[BoxKind.GRAD.value]
    return replace(look, fill=quiet.fill, stroke=quiet.stroke, dash=quiet.dash)


def by_family(box: Box, view: View, theme: Theme) -> Look | None:
    """Ops and innermost modules by the kind of work they do."""
    family = family_of(box, view)
    if not family:
        return None
    return theme.outlined(family, box.kind.value)


def by_kind(box: Box, view: View, theme: Theme) -> Look:
    """Everything else, by what it is."""
    return theme.looks[box.kind.value]


RULES: tuple[Rule, ...] = (by_failure, by_idleness, by_family, by_kind)
"""First answer wins."""


def failed(node: str, view: View) -> bool:
    """Whether the run failed in this scope, op or grad node."""
    return node in view.recording.failed


def family_of(box: Box, view: View) -> str:
    """The family of an op, or of a module that has no other modules inside."""
    if box.kind is BoxKind.OP:
        op = view.recording.ops.get(OpId(box.id))
        return op_family(op.name) if op else ""
    if box.kind is BoxKind.MODULE:
        scope = view.recording.scopes[ScopeId(box.id)]
        family = class_family(scope.cls)
        children = view.recording.children[scope.id]
        composed = any(isinstance(child, Scope) for child in children)
        return family if not composed or family == "attention" else ""
    return ""


NUMBER = Check(
    "the name of an annotation, such as 'forward_time',",
    lambda value: isinstance(value, (str, Annotation)),
)


def _all(holds: Callable[[object], bool], listed: object) -> bool:
    return isinstance(listed, (tuple, list)) and all(map(holds, listed))


def _are_lines(value: object) -> bool:
    return not isinstance(value, str) and TEXTS.holds(value)


CHECKS: Mapping[str, Check] = {
    "theme": Check("a theme", lambda value: isinstance(value, Theme)),
    "rules": Check("a tuple of rules", lambda value: _all(callable, value)),
    "direction": one_of("TB", "LR", "BT", "RL"),
    **dict.fromkeys(("shapes", "details", "counts", "legend"), FLAG),
    "color_by": NUMBER.or_none(),
    "color_range": RANGE.or_none(),
    "numbers": Check("names of annotations", lambda value: _all(NUMBER.holds, value)),
    "fontname": WORD,
    "fontsize": Check("a number of points above 0", ABOVE_0.holds),
    "min_fontsize": Check("a number of points from 0 on", FROM_0.holds),
    "background": COLOR.or_none(),
    "notes": Check(
        "a mapping from ids to lists of texts",
        lambda value: MAPPING.holds(value) and all(map(_are_lines, value.values())),
    ),
    "finish": CALLABLE.or_none(),
}
"""What the options of a style may be; names, attributes and lengths check themselves."""


@dataclass(frozen=True)
class Style:
    """How a figure looks.

    Attributes:
        theme: Colours and outlines.
        rules: From box to look; first answer wins. Put your own in front of `RULES`.
        direction: ``"TB"`` (downwards), ``"LR"`` (to the right), ``"BT"`` or ``"RL"``.
        shapes: Tensor shapes on arrows; where Graphviz does the layout, on the boxes that
            they leave.
        details: Hyperparameters and arguments on boxes.
        counts: Parameter counts on boxes.
        rename: Other names for modules, ops and tensors: ``{"self_attn": "Attention"}``. A path
            or name gives the title, a class (``{"BasicBlock": "Block"}``) what stands after
            the colon; patterns go.
        legend: A list of what outlines and colours mean.
        color_by: An annotation, such as ``"backward_time"`` or ``"saved_bytes"``, that colours
            the boxes and stands on them; the legend shows the scale. A fold says the sum of
            its siblings, and has the colour of their mean: no hotter than each of them is.
        color_range: The numbers at the ends of the scale, to compare figures; those of the
            figure itself if not given.
        numbers: Annotations that stand on the boxes; one, or several in a tuple.
        fontname: Font family.
        fontsize: Size of titles in points; the rest is a little smaller.
        width: Exact width of a figure's page, ``"85mm"``; cm, in and pt go too. The figure is
            made smaller to fit, never larger.
        height: Exact height of the page.
        min_fontsize: Where *width* or *height* is given, no text may be smaller, in points.
        background: Colour of the paper: ``"#f80"``, ``"#ff8800"``, a name of X11 such as
            ``"steelblue"``, or ``"transparent"``; None is the theme's.
        attributes: Graphviz attributes of the whole graph.
        node_attributes: Graphviz attributes of every box.
        edge_attributes: Graphviz attributes of every arrow.
        notes: What else is said of scopes, modules, ops and values where there is room for
            it, as in the panel of a page: lines by id.
        finish: Has the last word: given the finished figure and the view, gives the figure.
    """

    theme: Theme = LIGHT
    rules: tuple[Rule, ...] = RULES
    direction: Literal["TB", "LR", "BT", "RL"] = "TB"
    shapes: bool = True
    details: bool = True
    counts: bool = True
    rename: Mapping[str, str] = field(default_factory=dict)
    legend: bool = False
    color_by: Union[str, Annotation, None] = None
    color_range: tuple[float, float] | None = None
    numbers: tuple[Union[str, Annotation], ...] = ()  # a single one becomes a tuple of one
    fontname: str = "Helvetica"
    fontsize: float = 10.0
    width: str | None = None
    height: str | None = None
    min_fontsize: float = 5.0
    background: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    node_attributes: Mapping[str, str] = field(default_factory=dict)
    edge_attributes: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    finish: Callable[[Figure, View], Figure] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.numbers, (str, Annotation)):
            object.__setattr__(self, "numbers", (self.numbers,))
        check(self, CHECKS)
        check_names(self.rename)
        if self.background is not None:
            plain = solid(self.background) or listed(self.background)
            object.__setattr__(self, "background", plain)
        for field_ in ATTRIBUTES:
            object.__setattr__(self, field_, as_written(field_, getattr(self, field_)))
        self.paper()

    def paper(self) -> Paper:
        """The page that a figure is put on.

        Raises:
            InvalidArgument: A length or size cannot be read.
        """
        return Paper(
            points("width", self.width), points("height", self.height), self.min_fontsize
        )

    def look(self, box: Box, view: View) -> Look:
        """The look of *box*: the answer of the first rule that has one."""
        for rule in (*self.rules, by_kind):
            look = rule(box, view, self.theme)
            if look is not None:
                break
        if not isinstance(look, Look):
            raise InvalidArgument(f"a rule must give a Look or None, not {shown(look)}")
        if self.node_attributes:
            look = replace(look, attributes={**self.node_attributes, **look.attributes})
        return look
