"""Data: a view, its tree, layout and recorded data as one JSON object for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.export.explorer import numbers, themes
from torchrecorder.export.explorer.columns import Columns
from torchrecorder.export.explorer.box_appearance import TreeAppearance, Appearance
from torchrecorder.export.explorer.facts import Facts
from torchrecorder.export.explorer.tensors import TensorColumns
from torchrecorder.layout import engine
from torchrecorder.layout.layered import Item, Plan, constants, plan
from torchrecorder.style.style import Style
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.tree import Place, Tree
from torchrecorder.views.unfold import members
from torchrecorder.views.view import BoxKind, Unfolded, View

FORMAT = 1
"""Version of the data."""


@dataclass(frozen=True)
class PageSource:
    """The view, tree and layout that a page is made of.

    Attributes:
        view: The initial state of the page.
        tree: All there is to open.
        style: How it looks.
        times: Whether measured times are in it.
        timeout: Seconds that the layout may take.
    """

    view: View
    tree: Tree
    style: Style
    times: bool = True
    timeout: float = engine.TIMEOUT


def source(
    view: View, style: Style, times: bool = True, timeout: float = engine.TIMEOUT
) -> PageSource:
    """The source of the page whose initial state is *view*."""
    whole = view.unfolded() if view.unfolded else Unfolded(view, members(view), ())
    return PageSource(view, Tree(whole), style, times, timeout)


def page_data(page_source: PageSource) -> dict[str, Any]:
    """The JSON object of a page."""
    tree, style = page_source.tree, page_source.style
    drawn = TreeAppearance(tree, style)
    appearances = tuple(drawn.appearances())
    columns = Columns(tree, Facts(tree.view, style.notes, tree.unfolded.similar), drawn.equal)
    items = columns.items(appearances)
    tensors = TensorColumns(drawn, columns)
    layout_plan = _plan(page_source, appearances, tensors)
    recording = tree.view.recording
    return {
        "format": FORMAT,
        "name": recording.name,
        "direction": style.direction,
        "layout": constants.to_json(),
        "fontname": style.fontname,
        "fontsize": style.fontsize,
        "theme": themes.preferred(style),
        "themes": dict(
            zip(("light", "dark"), (themes.page_colors(theme, style) for theme in drawn.themes))
        ),
        "about": columns.rows(columns.facts.run()),
        "legend": columns.legend(drawn.legends()),
        "items": {**items, "template": list(layout_plan.template[1:])},
        "root": layout_plan.template[0],
        "templates": [template.to_json() for template in layout_plan.templates],
        "values": [[tensors.number[tensor] for tensor in scope] for scope in layout_plan.carried],
        "tensors": tensors.columns(),
        "bundles": tensors.members(),
        "loops": [*drawn.rounds],
        "marks": tensors.marks(),
        "closedmarks": tensors.closed_marks(),
        "annotations": numbers.columns(
            recording,
            list(_members(drawn)),
            [place.parent for place in tree.places],
            style,
            columns.strings,
            times=page_source.times,
        ),
        "color_by": _name(style.color_by),
        "color_range": style.color_range,
        "open": opened(page_source.view, tree),
        **columns.tables(),
    }


def _name(annotation: str | Annotation | None) -> str | None:
    return annotation.name if isinstance(annotation, Annotation) else annotation


def _members(drawn: TreeAppearance) -> Iterator[tuple[str, ...]]:
    """The recorded nodes that each place stands for."""
    for place in drawn.tree.places:
        if place.fold:
            yield drawn.fold_boxes[place.id].members
        elif place.id in drawn.closed_boxes:
            yield drawn.closed_boxes[place.id].members
        else:
            yield drawn.tree.view.boxes[place.id].members


def _plan(
    page_source: PageSource, appearances: Sequence[Appearance], tensors: TensorColumns
) -> Plan:
    boxes = page_source.tree.view.boxes
    items = [
        Item(
            str(number),
            place.parent,
            *appearance.size,
            header=appearance.header_size if appearance.header else None,
            first=_is_input(place, boxes),
        )
        for number, (place, appearance) in enumerate(zip(page_source.tree.places, appearances))
    ]
    return plan(items, [*tensors.links()], page_source.style.direction, timeout=page_source.timeout)


def _is_input(place: Place, boxes: Mapping[str, Any]) -> bool:
    return place.id in boxes and boxes[place.id].kind is BoxKind.INPUT


def opened(view: View, tree: Tree) -> list[int]:
    """The places that are open at first: those that are open in *view*, except folds.

    The rounds of a training loop are open, too: all of the model is in them.
    """
    found: list[int] = []
    shown = {-1}
    rounds = _rounds(tree)
    for number, place in enumerate(tree.places):
        closed = place.fold and place.id not in rounds
        if place.parent in shown and not closed and place.id in view.clusters:
            if place.id in tree.view.clusters:
                shown.add(number)
                found.append(number)
    return found


def _rounds(tree: Tree) -> set[str]:
    """The blocks in which a backward pass runs."""
    passes = {run.op for run in tree.view.recording.backward_runs}
    members = tree.unfolded.members
    blocks = filter(is_block, tree.view.clusters if passes else ())
    return {block for block in blocks if not passes.isdisjoint(members[block])}
