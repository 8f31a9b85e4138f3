"""Page view: everything that can be opened in a page, and what is open at first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from torchrecorder.events import OpId
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.auto_depth import DepthChoice, scope_depths
from torchrecorder.views.full_view import full_view
from torchrecorder.views.pipeline import (
    COUNTED_KINDS, ViewOptions, closed_scopes, find_quiet, fitting, make_view, may_fold_more,
    part_of, unfolded,
)
from torchrecorder.views.view import Cluster, Unfolded, View


@without_gc()
def page_view(recording: RecordedRun, options: ViewOptions = ViewOptions()) -> View:
    """The view for a page: its `unfolded` view, and the clusters that are open at first.

    *options* open the same as in `make_view`, but boxes are counted as the page draws them.

    Raises:
        InvalidArgument: *recording* is not a recording, or an option does not fit it.
    """
    if options.view == "backward":
        return make_view(recording, options)
    part = part_of(recording, options)
    start, quiet = full_view(part), find_quiet(part, options)
    whole, opened = _page(start, options, quiet)
    if may_fold_more(options, opened.drawn):
        similar = _page(start, replace(options, fold="similar"), quiet)
        if similar[1].drawn <= options.max_boxes:
            whole, opened = similar
    return View(part, {}, opened.clusters, (), unfolded=lambda: whole)


def _page(
    start: View, options: ViewOptions, quiet: frozenset[OpId]
) -> tuple[Unfolded, _Opened]:
    """Everything that can be opened, and what is open at first."""
    whole = unfolded(start, options, quiet)
    through = partial(_opened, whole, options)
    return whole, fitting(start.recording, options, quiet, through, attrgetter("drawn"))


class _Opened(NamedTuple):
    """The clusters that are open at first, and the number of boxes that are drawn then."""

    clusters: Mapping[str, Cluster]
    drawn: int


def _opened(whole: Unfolded, options: ViewOptions, choice: DepthChoice) -> _Opened:
    """What a page shows if the scopes of *choice* are open; of each fold, one sibling."""
    view = whole.view
    depths, closed = scope_depths(view.recording), closed_scopes(view.recording, options, choice)
    later = {item for group in whole.repeats for item in group[1:]}
    opened: dict[str, Cluster] = {}
    drawn = 0
    for name, cluster in view.clusters.items():
        if name in later or not (cluster.parent is None or cluster.parent in opened):
            continue
        if name in closed or depths.get(name, -1) >= choice.depth:
            drawn += 1
        else:
            opened[name] = cluster
    around = {None, *opened}
    drawn += sum(
        box.cluster in around and name not in later and box.kind in COUNTED_KINDS
        for name, box in view.boxes.items()
    )
    return _Opened(opened, drawn)
