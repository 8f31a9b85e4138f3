"""Data: a view, its tree, layout and recorded data as one JSON object for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.events import ScopeId
from torchrecorder.export.page_data import numbers
from torchrecorder.export.page_data.box_appearance import Appearance, TreeAppearance
from torchrecorder.export.page_data.columns import Columns
from torchrecorder.export.page_data.facts import Facts
from torchrecorder.export.page_data.tensors import TensorColumns
from torchrecorder.graph.differences import changed_inside
from torchrecorder.layout import engine
from torchrecorder.layout.layered import Item, constants, plan
from torchrecorder.style.style import Style
from torchrecorder.style.themes import DARK, LIGHT, Theme
from torchrecorder.views.collapse import members
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import Box, BoxKind, Unfolded, View

THEMES = {LIGHT.name: "auto", DARK.name: "dark"}
"""The initial theme of a page for each theme of a style; ``"auto"`` follows the system of the
reader."""


def page_data(
    view: View, style: Style, times: bool = True, timeout: float = engine.TIMEOUT
) -> dict[str, Any]:
    """The JSON object of a page.

    Args:
        view: The initial state of the page; everything in its `unfolded` view can be opened.
        style: The style.
        times: Whether measured times are in it.
        timeout: Time limit of the layout, in seconds.
    """
    tree = Tree(view.unfolded() if view.unfolded else Unfolded(view, members(view), ()))
    drawn = TreeAppearance(tree, style)
    appearances = tuple(drawn.appearances())
    columns = Columns(tree, Facts(tree.view, style.notes, tree.unfolded.similar), drawn.equal)
    items = columns.items(appearances)
    tensors = TensorColumns(drawn, columns)
    items_to_place = _layout_items(tree, appearances)
    layout_plan = plan(items_to_place, [*tensors.links()], style.direction, timeout=timeout)
    boxes_of = {**tree.view.boxes, **drawn.closed_boxes}, drawn.fold_boxes
    recording = tree.view.recording
    return {
        "name": recording.name,
        "direction": style.direction,
        "layout": constants.to_json(),
        "fontname": style.fontname,
        "fontsize": style.fontsize,
        "theme": THEMES.get(style.theme.name, "light"),
        "themes": dict(
            zip(("light", "dark"), (_page_colors(theme, style) for theme in drawn.themes))
        ),
        "about": columns.rows(columns.facts.run()),
        "legend": columns.legend(drawn.legends()),
        "items": {**items, "template": list(layout_plan.template[1:])},
        "root": layout_plan.template[0],
        "templates": [template.to_json() for template in layout_plan.templates],
        "carried": [[tensors.number[tensor] for tensor in scope] for scope in layout_plan.carried],
        "tensors": tensors.columns(),
        "tensor_trunks": tensors.members(),
        "loops": [*drawn.rounds],
        "former_reads": tensors.former_reads(),
        "marks": tensors.marks(),
        "closed_marks": tensors.closed_marks(),
        "annotations": numbers.columns(
            recording,
            [boxes_of[bool(place.fold)][place.id].members for place in tree.places],
            [appearance.count for appearance in appearances],
            style,
            columns.strings,
            outer=[number for number, place in enumerate(tree.places) if place.parent < 0],
            calls=_calls(tree, boxes_of[0]),
            times=times,
        ),
        "color_by": by.name if isinstance(by := style.color_by, Annotation) else by,
        "color_range": style.color_range,
        "open": _opened(view, tree),
        **columns.tables(),
    }


def _calls(tree: Tree, boxes: Mapping[str, Box]) -> dict[str, list[str]]:
    """The calls of each class, without what ran in modules: they have their weights."""
    scopes = tree.view.recording.scopes
    found: dict[str, list[str]] = {}
    for place in tree.places:
        scope = None if place.fold else scopes.get(ScopeId(place.id))
        if scope is not None:
            inside = boxes[place.id].members if scope.module is None else (scope.id,)
            found.setdefault(scope.cls, []).extend(inside)
    return found


def _page_colors(theme: Theme, style: Style) -> dict[str, Any]:
    """The colors of paper, text and lines, and of the scale from low to high."""
    own = style.background if theme == style.theme else None
    return {
        "paper": own if own is not None and own.startswith("#") else theme.paper,
        "ink": theme.ink,
        "line": theme.line.stroke,
        "heat": list(theme.heat),
    }


def _layout_items(tree: Tree, appearances: Sequence[Appearance]) -> list[Item]:
    """The places with their sizes, for the layout."""
    inputs = {box.id for box in tree.view.boxes.values() if box.kind is BoxKind.INPUT}
    items = []
    for number, (place, one) in enumerate(zip(tree.places, appearances)):
        header, in_one, *_ = (*one.header_sizes, None, None)
        first = place.id in inputs
        items.append(Item(str(number), place.parent, *one.size, header, first, in_one=in_one))
    return items


def _opened(view: View, tree: Tree) -> list[int]:
    """The places that are open at first: those that are open in *view*, without folds.

    The iterations of a training loop are open, too, because the whole model is in them. In a
    comparison, so are siblings in which something differs: a page shows one of them.
    """
    found: list[int] = []
    shown = {-1}
    passes = {run.op for run in tree.view.recording.backward_runs}
    members_of, blocks = tree.unfolded.members, filter(is_block, tree.view.clusters)
    rounds = {block for block in blocks if not passes.isdisjoint(members_of[block])}
    leading = rounds | changed_inside(tree.view.recording)
    for number, place in enumerate(tree.places):
        closed = place.fold and place.id not in leading
        if place.parent in shown and not closed and place.id in view.clusters:
            if place.id in tree.view.clusters:
                shown.add(number)
                found.append(number)
    return found
