"""The order of boxes and clusters in a view."""

from __future__ import annotations

from tests.figures import linear, view_of
from torchrecorder.testing import Builder
from torchrecorder.views.fold.sibling_index import SiblingIndex


def test_values_that_are_only_read_come_last() -> None:
    """A module is where its first operation ran, and not where its weight is in the view."""
    run = Builder("Net")
    with run.scope("Net") as net:
        h = run.op("relu", run.input())
        linear(run, "fc", h)
    view = view_of(run.recording(), depth=9, parameters=True, fold=False)
    index, names = SiblingIndex(view), [*view.boxes]
    (fc,) = (cluster for cluster in view.clusters if cluster != net)
    (weight,) = (box for box in index.children(fc) if box in index.sources)
    assert names.index(weight) < names.index("o0")
    assert [*index.children(net)] == ["o0", fc]
    assert [*index.children(fc)] == ["o1", weight] and index.siblings(fc) == ["o1"]
