"""Themes: LIGHT, DARK and PRINT, the looks of each kind of box and line.

Kinds differ in outline as well as in color. The hues are distinguishable for color-blind readers
(Okabe and Ito), lightened for fills; PRINT has no hues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from torchrecorder.checks import Check, check, check_one
from torchrecorder.style.color import COLOR, mix
from torchrecorder.style.families import FAMILIES
from torchrecorder.style.figure import Dash, Look, Outline

NAMES = (
    "input output parameter buffer constant tensor module region op hidden grad "
    "weights norm attention activation pooling shape failed"
).split()
"""The names of looks in a theme: kinds of boxes, families, and ``"failed"``."""

LOOKS = Check(
    f"a mapping to a Look from each of {', '.join(sorted(NAMES))}",
    lambda value: isinstance(value, Mapping)
    and set(NAMES) <= set(value)
    and all(isinstance(item, Look) for item in value.values()),
)


@dataclass(frozen=True)
class Theme:
    """Looks by name.

    Attributes:
        paper: The background color.
        ink: The text color.
        looks: By kind of box (`BoxKind`), by family (`style.families`), and ``"failed"``.
        groups: Looks of clusters by depth, from the outside in; below that, the last two
            alternate.
        opened: Look of a cluster that is an opened op.
        region: Look of a cluster that is a region such as ``no_grad``.
        line: Look of an arrow.
        gradient: Look of an arrow between grad nodes that carries no known value.
        heat: Colors of a scale from low to high.
    """

    name: str
    paper: str
    ink: str
    looks: Mapping[str, Look]
    groups: tuple[Look, ...]
    opened: Look
    region: Look
    line: Look
    gradient: Look
    heat: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Theme {self.name!r}>"

    def __post_init__(self) -> None:
        check(self, {"paper": COLOR, "ink": COLOR})
        for color in self.heat:
            check_one("heat", color, COLOR)
        check_one("looks", self.looks, LOOKS)

    def outlined(self, family: str, kind: str) -> Look:
        """The colors of a family in the outline of a kind, cached."""
        if (family, kind) not in self._outlined:
            look, plain = self.looks[family], self.looks[kind]
            self._outlined[family, kind] = replace(
                look, outline=plain.outline, width=max(look.width, plain.width)
            )
        return self._outlined[family, kind]

    def unfilled(self, look: Look) -> Look:
        """*look* for a box without a number, when numbers color the boxes."""
        return replace(look, fill=self.paper, stroke=mix(look.stroke, self.paper, 0.4))

    @cached_property
    def update(self) -> Look:
        """Look of an arrow with updated weights, buffers or optimizer state."""
        return replace(self.line, stroke=mix(self.paper, self.line.stroke, 0.45), width=0.8)

    @cached_property
    def text_only(self) -> Look:
        """Look of text in the legend without a box around it."""
        return replace(self.looks["op"], fill="transparent", outline="plain")

    @cached_property
    def _outlined(self) -> dict[tuple[str, str], Look]:
        return {}


LIGHT_HUES = {
    "input": "#009e73",
    "output": "#d55e00",
    "parameter": "#e0a800",
    "buffer": "#b0589a",
    "constant": "#8a8f98",
    "tensor": "#56a5d8",
    "module": "#5b7499",
    "op": "#7d8590",
    "weights": "#0072b2",
    "norm": "#7a6fc0",
    "attention": "#cc6699",
    "activation": "#e08a3c",
    "pooling": "#3aa6a0",
    "shape": "#9aa3ae",
    "failed": "#d01c1c",
}


def _theme(
    name: str,
    paper: str,
    ink: str,
    faint: str,
    hues: Mapping[str, str],
    *,
    fill: float,
    stroke: float,
    heat: tuple[str, ...],
    steps: tuple[float, ...],
    outlines: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Theme:
    """A theme; *fill* is the share of the hue in fills, *stroke* that of the ink in outlines.

    *steps*: the share of the hue in clusters, by depth; *outlines*: of some families.
    """

    def look(hue: str, outline: Outline, dash: Dash = "solid", **more: Any) -> Look:
        color = hues[hue]
        inside = more.pop("fill", None) or mix(paper, color, fill)
        around = more.pop("stroke", None) or mix(color, ink, stroke)
        return Look(inside, around, ink, outline, dash, **more)

    looks = {
        "input": look("input", "parallelogram", width=1.2),
        "output": look("output", "octagon", width=1.2),
        "parameter": look("parameter", "cylinder"),
        "buffer": look("buffer", "note"),
        "constant": look("constant", "note", "dotted"),
        "tensor": look("tensor", "ellipse", fill=paper),
        "module": look("module", "box", width=1.2),
        "region": look("constant", "rounded", "dashed"),
        "op": look("op", "rounded", fill=paper),
        "hidden": look("op", "rounded", "dashed", fill=paper),
        "grad": look("op", "rounded", "dotted", fill=paper),
        "failed": look("failed", "octagon", width=2.2, bold=True),
        **{family: look(family, "rounded", **outlines.get(family, {})) for family in FAMILIES},
    }
    line = Look("transparent", faint, faint, width=0.9)
    edge = mix(paper, faint, 0.55)
    return Theme(
        name=name,
        paper=paper,
        ink=ink,
        looks=MappingProxyType(looks),
        groups=tuple(
            Look(mix(paper, hues["module"], step), edge, ink, "rounded") for step in steps
        ),
        opened=Look(paper, edge, ink, "rounded", "dotted"),
        region=Look("transparent", faint, ink, "rounded", "dashed"),
        line=line,
        gradient=replace(line, dash="dashed"),
        heat=heat,
    )


LIGHT = _theme(
    "light", "#ffffff", "#1b1f24", "#4d5560", LIGHT_HUES, fill=0.16, stroke=0.22,
    heat=("#fffaf0", "#fee3ae", "#fdb562", "#f28e3c"), steps=(0.05, 0.10, 0.02, 0.08),
)
"""Dark on white, calm colors."""

DARK = _theme(
    "dark", "#15181d", "#e8ebef", "#a3acb8", LIGHT_HUES, fill=0.34, stroke=0.30,
    heat=("#1c2733", "#41517a", "#b5537c", "#ffb45c"), steps=(0.12, 0.20, 0.08, 0.16),
)
"""Light on nearly black."""

GRAYS = {
    **dict.fromkeys(LIGHT_HUES, "#ffffff"),
    **dict.fromkeys(("module", "activation", "failed"), "#dedede"),
    **dict.fromkeys(("norm", "pooling"), "#bdbdbd"),
    **dict.fromkeys(("weights", "attention"), "#9c9c9c"),
}
"""White and three grays, as far apart as they can be with readable small text on the darkest: a
photocopy shows no more."""

_HEAVY = MappingProxyType({"width": 2.4})
OUTLINES = MappingProxyType({
    **dict.fromkeys(("activation", "pooling", "attention"), _HEAVY),
    "shape": MappingProxyType({"stroke": "#9c9c9c"}),
})
"""Outlines that distinguish two families, or a family and plain boxes, with the same gray."""

PRINT = _theme(
    "print", "#ffffff", "#000000", "#333333", GRAYS, fill=1.0, stroke=0.85,
    heat=("#ffffff", "#dddddd", "#b5b5b5", "#8c8c8c"), steps=(0.0, 0.4, 0.0, 0.4),
    outlines=OUTLINES,
)
"""Black, white and gray."""

THEMES = MappingProxyType({theme.name: theme for theme in (LIGHT, DARK, PRINT)})
