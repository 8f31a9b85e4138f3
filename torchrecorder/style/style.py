"""Style: rules that give boxes their look, and the captions of boxes and arrows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Optional, Union

from torchrecorder.annotations import ANNOTATIONS
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.checks import (
    CALLABLE, FLAG, FROM_0, MAPPING, RANGE, TEXTS, WORD, Check, above_0, check_one, one_of, pair,
    shown, words,
)
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import MODES, OpId, ScopeId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.option_table import Checked, documented, option
from torchrecorder.style.attributes import FIELDS as ATTRIBUTES, as_written
from torchrecorder.style.color import COLOR, OPAQUE, listed, solid
from torchrecorder.style.families import class_family, op_family
from torchrecorder.style.figure import Figure, Look
from torchrecorder.style.paper import PLACES, READABLE, Paper, place, points
from torchrecorder.style.renaming import CustomColors, check_names
from torchrecorder.style.themes import LIGHT, THEMES, Theme
from torchrecorder.views.quiet_ops import is_identity
from torchrecorder.views.view import Box, BoxKind, View

Rule = Callable[[Box, View, Theme], Optional[Look]]
"""A function that returns the look of a box, or None for the next rule to decide."""


def by_failure(box: Box, view: View, theme: Theme) -> Look | None:
    """The op or closed scope in which the run failed."""
    if not failed(box.id, view):
        return None
    look, mark = by_kind(box, view, theme), theme.looks["failed"]
    return replace(look, fill=mark.fill, stroke=mark.stroke, width=mark.width, bold=True)


def by_idleness(box: Box, view: View, theme: Theme) -> Look | None:
    """Boxes that took no part in the backward pass: only outlines."""
    if not view.is_idle(box):
        return None
    look, quiet = by_kind(box, view, theme), theme.looks[BoxKind.GRAD.value]
    return replace(look, fill=quiet.fill, stroke=quiet.stroke, dash=quiet.dash)


def by_family(box: Box, view: View, theme: Theme) -> Look | None:
    """Ops and innermost modules, by family."""
    family = family_of(box, view)
    return theme.outlined(family, box.kind.value) if family else None


def by_kind(box: Box, view: View, theme: Theme) -> Look:
    """All other boxes, by kind."""
    return theme.looks[box.kind.value]


RULES: tuple[Rule, ...] = (by_failure, by_idleness, by_family, by_kind)
"""The first rule that returns a look wins."""


def failed(node: str, view: View) -> bool:
    """Whether the run failed in this scope, op or grad node."""
    return node in view.recording.failed


def family_of(box: Box, view: View) -> str:
    """The family of an op, or of a module without submodules of its own."""
    if box.kind is BoxKind.OP:
        op = view.recording.ops.get(OpId(box.id))
        return op_family(op.name) if op else ""
    if box.kind is BoxKind.MODULE:
        recording, scope = view.recording, view.recording.scopes[ScopeId(box.id)]
        family, inside = class_family(scope.cls), list(_inside(recording, scope))
        own = [item for item in inside if not _computes_weight(item)]
        module = recording.module_of(scope)
        bare = module is not None and not module.parameters and len(own) == len(inside)
        if family == "weights" and len(own) > 1 and bare:
            return ""  # a rotary embedding has no table of weights
        composed = any(isinstance(item, Scope) for item in own)
        return family if not composed or family == "attention" else ""
    return ""


def _inside(recording: RecordedRun, scope: Scope) -> Iterator[Scope | Op]:
    """The scopes and ops directly in a scope, including those in regions such as ``no_grad``."""
    for item in recording.children[scope.id]:
        if isinstance(item, Scope) and item.kind in MODES:
            yield from _inside(recording, item)
        elif not (item.registers_hooks if isinstance(item, Scope) else is_identity(item)):
            yield item


def _computes_weight(item: Scope | Op) -> bool:
    """Whether it computes a weight of the module around it; see ``torch.nn.utils.parametrize``."""
    return isinstance(item, Scope) and item.name.startswith("parametrizations.")


def _all(holds: Callable[[object], object], listed: object) -> bool:
    return isinstance(listed, (tuple, list)) and all(map(holds, listed))


def _are_lines(value: object) -> bool:
    return not isinstance(value, str) and TEXTS.holds(value)


NUMBER = Check(
    "an Annotation, the name of one such as 'forward_time'",
    lambda value: isinstance(value, (str, Annotation)),
    tuple(annotation.name for annotation in ANNOTATIONS),
    read=str,
)
NUMBERS = replace(
    NUMBER,
    expected="names of annotations",
    holds=lambda value: _all(NUMBER.holds, value),
    read=words,
    several=True,
)
THEME = Check(
    one_of(*THEMES).expected,
    lambda value: isinstance(value, Theme) or isinstance(value, str) and value in THEMES,
    tuple(THEMES),
    read=str,
)
LENGTH = Check("a length", lambda value: True, read=str)
FIT = Check(
    "a place, or a width and a height",
    lambda value: True,
    tuple(PLACES),
    read=lambda text: words(text) if "," in text else text,
    optional=True,
)
PAIRS = Check("a mapping from names", lambda value: True, read=pair, several=True)
"""`points`, `place`, `check_names` and `as_written` check these values further."""


@documented
@dataclass(frozen=True)
class Style(Checked):
    """The look of a figure."""

    theme: Theme = option(
        "Colors and outlines. By name, or a `Theme`; ``\"print\"`` is for grayscale, None is "
        "light.",
        THEME.or_none(), default=LIGHT,
    )
    direction: Literal["TB", "LR", "BT", "RL"] = option(
        "Direction of the flow. ``\"TB\"`` is top to bottom, ``\"LR\"`` left to right.",
        one_of("TB", "LR", "BT", "RL"), default="TB",
    )
    colors: Mapping[str, str] = option(
        "Colors of modules, operations and tensors. ``{\"encoder\": \"#ffd6a5\"}``: a path, name, "
        "class or pattern, and the color of its boxes. Frames of open modules have a tint of it.",
        replace(MAPPING, expected="a mapping from names to colors", read=pair, several=True),
        factory=dict, placeholder="NAME=COLOR",
    )
    color_by: Union[str, Annotation, None] = option(
        "Color boxes by a number, which is also shown on them. Such as ``\"backward_time\"`` or "
        "``\"saved_bytes\"``; the legend shows the scale. A fold shows the sum of its siblings, in "
        "the color of their mean.",
        NUMBER.or_none(), default=None, placeholder="NUMBER",
    )
    color_range: tuple[float, float] | None = option(
        "The numbers at the ends of the color scale, to compare figures. By default the "
        "smallest and the largest number of the figure.",
        RANGE.or_none(), default=None, placeholder="LOW,HIGH",
    )
    numbers: tuple[Union[str, Annotation], ...] = option(
        "More numbers on boxes. Names of annotations: one, or several in a tuple.",
        NUMBERS, default=(), placeholder="NUMBER,...",
    )
    shapes: Union[bool, Literal["all"]] = option(
        "Write shapes of tensors on the boxes that return them. True: where they change, and where "
        "several boxes read a tensor; ``\"all\"``: on all boxes.",
        one_of(True, False, "all"), default=True,
    )
    details: bool = option("Write hyperparameters and arguments on boxes.", FLAG, default=True)
    counts: bool = option("Write parameter counts on boxes.", FLAG, default=True)
    rename: Mapping[str, str] = option(
        "Other names for modules, operations and tensors. ``{\"self_attn\": \"Attention\"}``: a "
        "path or name gives the title, a class (``{\"BasicBlock\": \"Block\"}``) what stands after "
        "the colon; patterns are allowed.",
        PAIRS, factory=dict, placeholder="NAME=TEXT",
    )
    legend: bool = option("Add a legend of outlines and colors.", FLAG, default=False)
    fontname: str = option("Font family.", WORD, default="Helvetica", placeholder="FONT")
    fontsize: float = option(
        "Size of titles in points. Other text is a little smaller.",
        above_0("a number of points"), default=10.0, placeholder="POINTS",
    )
    width: str | None = option(
        "Exact width of the page, such as 85mm. The units are mm, cm, in, pt and px. The figure is "
        "made smaller to fit, never larger. From left to right it is cut into rows if its text "
        "would be too small in one.",
        LENGTH, default=None, placeholder="LENGTH",
    )
    height: str | None = option(
        "Exact height of the page. From top to bottom the figure is cut into columns if its text "
        "would be too small in one.",
        LENGTH, default=None, placeholder="LENGTH",
    )
    fit: Union[str, tuple[str, str], None] = option(
        "The place that the figure must fit: ``\"page\"``, ``\"column\"`` of a paper, "
        "``\"slide\"``, ``\"cell\"`` of a notebook, or a width and a height. Long modules "
        "are drawn in columns if that makes the figure larger. It is never enlarged.",
        FIT, default=None, placeholder="PLACE",
    )
    min_fontsize: float = option(
        "The smallest text allowed on a page of exact size, in points. A figure that fits a "
        "place only with smaller text is drawn with a warning.",
        Check("a number of points of at least 0", FROM_0.holds, read=FROM_0.read), default=READABLE,
        placeholder="POINTS",
    )
    background: str | None = option(
        "Color of the paper. ``\"#f80\"``, ``\"#ff8800\"``, an X11 name such as "
        "``\"steelblue\"``, or ``\"transparent\"``; None is the theme's.",
        COLOR.or_none(),
        default=None,
        placeholder="COLOR",
    )
    attributes: Mapping[str, str] = option(
        "Attributes of Graphviz for the whole graph.", PAIRS, factory=dict, placeholder="NAME=VALUE"
    )
    node_attributes: Mapping[str, str] = option(
        "Attributes of Graphviz for every box.", PAIRS, factory=dict, placeholder="NAME=VALUE"
    )
    edge_attributes: Mapping[str, str] = option(
        "Attributes of Graphviz for every arrow.", PAIRS, factory=dict, placeholder="NAME=VALUE"
    )
    rules: tuple[Rule, ...] = option(
        "Functions from box to look; the first answer wins. Put your own in front of `RULES`.",
        Check("a tuple of rules", lambda value: _all(callable, value)), default=RULES,
    )
    notes: Mapping[str, tuple[str, ...]] = option(
        "More lines about scopes, modules, ops and values, by id. They are shown where there is "
        "room, such as in the panel of a page.",
        Check(
            "a mapping from ids to lists of texts",
            lambda value: MAPPING.holds(value) and all(map(_are_lines, value.values())),
        ),
        factory=dict,
    )
    finish: Callable[[Figure, View], Figure] | None = option(
        "A function that gets the finished figure and the view, and returns the final figure. If "
        "it has a method ``in_theme``, this is called with the theme, and returns the function.",
        CALLABLE.or_none(), default=None,
    )

    def __post_init__(self) -> None:
        if isinstance(self.numbers, (str, Annotation)):
            object.__setattr__(self, "numbers", (self.numbers,))
        super().__post_init__()
        if not isinstance(self.theme, Theme):
            object.__setattr__(self, "theme", THEMES[self.theme or LIGHT.name])
        check_names(self.rename)
        object.__setattr__(self, "colors", dict(self._plain_colors()))
        if self.background is not None:
            plain = solid(self.background) or listed(self.background)
            object.__setattr__(self, "background", plain)
        for field_ in ATTRIBUTES:
            object.__setattr__(self, field_, as_written(field_, getattr(self, field_)))
        self.paper()

    def _plain_colors(self) -> Iterator[tuple[str, str]]:
        """The colors of `colors` as ``"#rrggbb"``.

        Raises:
            InvalidArgument: One is no such color, or a number colors the boxes.
        """
        if self.colors and self.color_by is not None:
            raise InvalidArgument(
                "colors= and color_by= both color boxes: give only one of them; numbers= writes "
                "numbers on boxes without coloring them"
            )
        for name, color in self.colors.items():
            check_one(f"colors: the color of {name!r}", color, OPAQUE)
            yield name, solid(color) or ""

    @cached_property
    def custom(self) -> CustomColors:
        """The `colors`, which finds those of boxes and clusters."""
        return CustomColors(self.colors)

    def in_theme(self, theme: Theme) -> Style:
        """The same style in another theme."""
        themed = getattr(self.finish, "in_theme", None)  # where its colors depend on the theme
        return replace(self, theme=theme, finish=themed(theme) if themed else self.finish)

    def paper(self) -> Paper:
        """The page on which a figure is printed.

        Raises:
            InvalidArgument: A length or size cannot be read.
        """
        width, height = points("width", self.width), points("height", self.height)
        if self.fit is not None and (width or height):
            raise InvalidArgument(
                "fit= limits the size, width= and height= set an exact size: give only one of them"
            )
        return Paper(width, height, self.min_fontsize, place(self.fit))

    def look(self, box: Box, view: View) -> Look:
        """The look of *box*: the answer of the first rule that has one.

        If a number colors the boxes, families have no looks. A color of `colors` replaces those
        of `RULES`, except where the run failed.
        """
        for rule in (*self.rules, by_kind):
            if rule is by_family and self.color_by is not None:
                continue
            look = rule(box, view, self.theme)
            if look is not None:
                break
        if not isinstance(look, Look):
            raise InvalidArgument(f"a rule must give a Look or None, not {shown(look)}")
        if rule in RULES and rule is not by_failure:
            look = self.custom.fill(look, self.custom.of_box(box, view), self.theme)
        if self.node_attributes:
            look = replace(look, attributes={**self.node_attributes, **look.attributes})
        return look
