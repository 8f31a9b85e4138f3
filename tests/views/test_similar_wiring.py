"""Similar siblings with other connections: the box says what differs."""

from __future__ import annotations

from tests.figures import arrows, linear
from tests.views.test_similar import label, similar
from torchrecorder.testing import Builder


def test_other_wiring_is_reported() -> None:
    """Each layer of a dense block reads all before it."""
    run = Builder()
    with run.scope("Net"):
        made = [run.input()]
        for place in range(5):
            with run.scope(f"layer{place}", "Layer"):
                made.append(linear(run, "fc", run.op("cat", *made)))
        run.op("cat", *made)
    view = similar(run.recording(), depth=1)
    assert arrows(view) == ["x -> layer0", "x -> cat", "layer0 -> cat", "cat -> out:0"]
    assert "reads 1, 2, 3, 4 of those before" in label(view, "layer0")


def test_an_argument_that_only_some_are_given_is_reported() -> None:
    """And its arrow is marked."""
    run = Builder()
    with run.scope("Net"):
        h, mask = run.input("x"), run.input("mask")
        for place in range(4):
            with run.scope(str(place), "Block"):
                h = linear(run, "fc", h)
                h = run.op("add", h, mask) if place else run.op("add", h)
    view = similar(run.recording(), depth=1)
    assert "input 1 in 3 of 4" in label(view, "0")
    assert arrows(view) == ["x -> 0", "0 -> out:0", "mask -> 0"]
    assert [arrow.some for arrow in view.arrows] == [False, False, True]  # trunks are whole


def test_inputs_that_differ_are_counted() -> None:
    """Siblings that read two masks by turns."""
    run = Builder()
    with run.scope("Net"):
        h, *masks = run.input("x"), run.input("one"), run.input("two")
        for place in range(4):
            with run.scope(str(place), "Block"):
                h = run.op("add", linear(run, "fc", h), masks[place // 2])
    assert "input 1: 2 different tensors" in label(similar(run.recording(), depth=1), "0")
