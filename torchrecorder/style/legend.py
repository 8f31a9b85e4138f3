"""Legend: one row for each outline and color that a figure uses."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.style.figure import LegendEntry, Look
from torchrecorder.style.renaming import Renaming
from torchrecorder.style.style import Style, failed, family_of
from torchrecorder.style.themes import NAMES
from torchrecorder.views.view import View

WORDS = {
    "op": "operation",
    "hidden": "recorded by autograd only",
    "grad": "autograd node",
    "norm": "normalization",
    "failed": "failed here",
}
"""The texts for some looks; others have the name of the look."""

SOME = "in some repeats only (dashed)"


def legend(view: View, style: Style) -> tuple[LegendEntry, ...]:
    """The rows for *view*, always in the same order: kinds and families, then custom colors."""
    return (*kinds(view, style), *custom_colors(view, style))


def kinds(view: View, style: Style) -> tuple[LegendEntry, ...]:
    """A row for each kind and family of box in *view* without a custom color.

    Each row has the outline of its boxes. If a number colors the boxes, only kinds are listed,
    because families have no colors then.
    """
    present: dict[str, str] = {}
    for box in view.boxes.values():
        if style.custom.of_box(box, view) is not None and not failed(box.id, view):
            continue
        family = "" if style.color_by is not None else family_of(box, view)
        present.setdefault(family or box.kind.value, box.kind.value)
        if failed(box.id, view):
            present["failed"] = box.kind.value
    rows = [
        LegendEntry(WORDS.get(name, name), _look(name, present[name], style))
        for name in NAMES
        if name in present
    ]
    if any(arrow.some for arrow in view.arrows):
        dashed = replace(style.theme.looks["op"], outline="box", dash="dashed")
        rows.append(LegendEntry(SOME, dashed))
    return tuple(rows)


def custom_colors(view: View, style: Style, *, soft: bool = False) -> tuple[LegendEntry, ...]:
    """A row for each custom color in *view*, with its key, or the new name of that.

    It has the color of boxes; the tint of frames if there are no such boxes, or if *soft*.
    """
    custom, plain = style.custom, replace(style.theme.looks["op"], outline="box")
    if not style.colors:
        return ()
    filled = {custom.of_box(box, view) for box in view.boxes.values()}
    framed = {custom.of_cluster(cluster, view) for cluster in view.clusters.values()}
    renamed = Renaming(style.rename)
    return tuple(
        LegendEntry(
            renamed.find([key]) or key,
            (custom.fill if key in filled and not soft else custom.frame)(plain, key, style.theme),
        )
        for key in style.colors if key in filled | framed
    )


def _look(name: str, kind: str, style: Style) -> Look:
    """The look called *name*, with the outline of its kind."""
    theme = style.theme
    look = theme.outlined(name, kind)
    if style.color_by is None or name == "failed":
        return look
    return theme.unfilled(look)
