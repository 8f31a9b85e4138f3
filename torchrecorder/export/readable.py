"""Readable: the deepest default view whose text is readable in its place or on its paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from operator import attrgetter
from typing import NamedTuple

from torchrecorder.export.exporter import Exporter
from torchrecorder.export.graphviz import LaidOut, Svg, is_nested
from torchrecorder.export.html import Html
from torchrecorder.export.nested import printed_size, smallest
from torchrecorder.export.shorter_lines import fitted
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.layout.layered.constants import PAD as FRAME_PAD
from torchrecorder.style.draw import draw
from torchrecorder.style.paper import A4_LENGTH, READABLE, Paper
from torchrecorder.style.style import Style
from torchrecorder.views.auto_depth import DepthChoice
from torchrecorder.views.page_view import page_view
from torchrecorder.views.pipeline import ViewOptions, choice_of, make_view
from torchrecorder.views.view import View

SMALLEST_BOX = 400.0
"""Minimum area of a box with text of 10 points, in square points."""

SHARES = (1.0, 0.7, 0.5, 0.35, 0.2)
"""The shares of ``max_boxes`` to try until the text is large enough."""


class _Print(NamedTuple):
    """A view as it would be on paper: its smallest text and its longer side, in points.

    The text of one that is not laid out would be no larger than this. *shaped* and *cut* are those
    of the picture.
    """

    view: View
    text: float
    length: float = 0.0
    laid_out: bool = True
    shaped: bool = False
    cut: bool = False


def readable_view(
    recording: RecordedRun, options: ViewOptions, style: Style, exporter: Exporter | None
) -> View:
    """The view for *options*, with fewer boxes if its text would be too small.

    This applies without *depth*, if the figure must fit a place, or its paper has a width or
    height. The result is the view with the most boxes whose text has at least *min_fontsize* there
    (5 points if that is 0), on paper no longer than A4; but if a U is cut into columns there, the
    first of the smaller views that has one. If there is none, it is the shortest view with such
    text, or else the view with the largest text.
    """
    painted = Svg() if exporter is None else exporter
    paper = style.paper()
    if isinstance(exporter, Html):
        return page_view(recording, options)
    if not paper or not isinstance(painted, LaidOut) or options.view == "backward":
        return make_view(recording, options)
    least = style.min_fontsize or READABLE
    found: list[_Print] = []
    cut: View | None = None
    for tried in _fewer(recording, options):
        view = make_view(recording, tried)
        printed = _printed(view, style, painted, paper)
        if printed is None:
            return view
        found.append(printed)
        if printed.text >= least and printed.length <= A4_LENGTH:
            if printed.shaped or not (printed.cut or cut):
                return view
            cut = cut or view
    if cut is not None:
        return cut
    long = [printed for printed in found if printed.text >= least]
    if long:
        return min(long, key=attrgetter("length")).view
    return max(found, key=attrgetter("laid_out", "text")).view


def _fewer(recording: RecordedRun, options: ViewOptions) -> Iterator[ViewOptions]:
    """The options, then options that open less: with fewer boxes, then at each lower depth.

    Depth 0 is included if it shows more than one box.
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


def _printed(view: View, style: Style, painted: LaidOut, paper: Paper) -> _Print | None:
    """*view* as it would be printed on *paper*; None if Graphviz lays it out.

    Skips the layout if the area of the boxes alone is too large for the place, or for paper with
    the length of A4; or the space between the frames of open scopes in each other.
    """
    across, down = paper.place or (paper.width or A4_LENGTH, paper.height or A4_LENGTH)
    levels = 1 + max(view.nesting.depth.values())
    bound = style.fontsize * min(
        sqrt(across * down / (max(len(view.boxes), 1) * SMALLEST_BOX)),
        min(across, down) / (max(levels, 1) * 2 * FRAME_PAD),
    )
    if bound < (style.min_fontsize or READABLE):
        return _Print(view, bound, laid_out=False)
    figure = draw(view, style)
    if not is_nested(figure, painted.layout):
        return None
    figure, placed = fitted(figure, painted.timeout)
    size = printed_size(figure, placed)
    scale = paper.scale(*size)
    picture, length = placed.picture, 0.0 if paper.limits else max(size) * scale
    return _Print(
        view, smallest(figure) * scale, length, shaped=picture.shaped, cut=picture.cut
    )
