"""Readable: the deepest default view with readable text in the space that the figure must fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf, sqrt

from torchrecorder.export.exporter import Exporter
from torchrecorder.export.graphviz import Painted, Svg, is_nested, smallest
from torchrecorder.export.nested import Placed, sheet_of
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.draw import draw
from torchrecorder.style.paper import READABLE, place
from torchrecorder.style.style import Style
from torchrecorder.views.auto_depth import DepthChoice
from torchrecorder.views.pipeline import ViewOptions, choice_of, make_view
from torchrecorder.views.view import View

SMALLEST_BOX = 400.0
"""Minimum area of a box with text of 10 points, in square points."""

SHARES = (1.0, 0.7, 0.5, 0.35, 0.2)
"""Shares of ``max_boxes`` that are tried until the text is large enough."""


def readable_view(
    recording: RecordedRun, options: ViewOptions, style: Style, exporter: Exporter | None
) -> View:
    """The view for *options*, with fewer boxes if its text would be too small.

    This applies without *depth*, if the figure must fit a place: the result is the view with the
    most boxes whose text has at least *min_fontsize* there, or 5 points if that is 0. If there is
    none, it is the view with the largest text.
    """
    painted = Svg() if exporter is None else exporter
    if style.fit is None or not isinstance(painted, Painted) or options.view == "backward":
        return make_view(recording, options)
    least = style.min_fontsize or READABLE
    found: list[tuple[float, View]] = []
    for tried in _fewer(recording, options):
        view = make_view(recording, tried)
        size = _text_size(view, style, painted)
        if size is None or size >= least:
            return view
        found.append((size, view))
    return max(found, key=lambda item: item[0])[1]


def _fewer(recording: RecordedRun, options: ViewOptions) -> Iterator[ViewOptions]:
    """The options, then options that open less: for fewer boxes, then to each lower depth.

    Depth 0 is among them where it is more than one box.
    """
    if options.depth is not None:
        yield options
        return
    last: DepthChoice | None = None
    for share in SHARES:
        fewer = replace(options, max_boxes=max(round(options.max_boxes * share), 1))
        choice = choice_of(recording, fewer)
        if choice != last:
            yield fewer
        last = choice
    outermost = sum(scope.parent is None for scope in recording.scopes.values())
    for depth in range(choice.depth, -1 if outermost > 1 else 0, -1):
        yield replace(options, depth=depth)


def _text_size(view: View, style: Style, painted: Painted) -> float | None:
    """The size of the smallest text of a figure, in points; None if others lay it out.

    Without a layout if already the area of the boxes is too large for the place.
    """
    across, down = place(style.fit) or (inf, inf)
    bound = style.fontsize * sqrt(across * down / (max(len(view.boxes), 1) * SMALLEST_BOX))
    if bound < (style.min_fontsize or READABLE):
        return bound
    figure = draw(view, style)
    sheet = sheet_of(figure, smallest(figure))
    if sheet is None or not is_nested(figure, painted.layout):
        return None
    picture = Placed.lay_out(figure, sheet, painted.timeout).picture
    return smallest(figure) * sheet.scale(picture.width, picture.height)
