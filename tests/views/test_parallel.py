"""Rows of layers of which each reads what its counterpart in another row has made."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import arrows, view_of
from torchrecorder.events import ValueId
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.fold.fold import repeats
from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.full_view import full_view
from torchrecorder.views.pipeline import ViewOptions, plan


def steps(
    *orders: Sequence[int], odd: int | None = None, aside: int | None = None,
    seen: int | None = None,
) -> Recording:
    """A stack of layers that runs again and again, each time with one more number per layer.

    Args:
        orders: For each step but the first: for each layer the layer of the step before whose
            memory it reads.
        odd: A layer of the last step that is not like the others.
        aside: A layer of the last step that reads another input than the others.
        seen: A layer whose memory the next step also reads before its layers.
    """
    run = Builder("Net")
    h, masks, kept = run.input(), (run.input("mask"), run.input("other")), list[ValueId]()
    for step, order in enumerate([range(len(orders[0])), *orders]):
        last, made = step == len(orders), []
        with run.scope(f"step{step}", "Step"):
            if kept and seen is not None:
                h = run.op("place", h, kept[seen])
            for layer, other in enumerate(order):
                with run.scope(f"layers.{layer}", "Layer"):
                    with run.scope("cache", "Cache"):
                        old = [kept[other]] if kept else []
                        new = run.op("cat", h, *old, shape=(1 + step, 4))
                    made.append(new)
                    name = "relu" if last and layer == odd else "attend"
                    h = run.op(name, h, new, masks[last and layer == aside])
        kept = made
    return run.recording()


def apart(*orders: Sequence[int]) -> Recording:
    """Stacks of layers beside each other, each of which runs twice, the second time in an order."""
    run = Builder("Net")
    x = run.input()
    for number, order in enumerate(orders):
        kept: list[ValueId] = []
        with run.scope(f"part{number}", "Part"):
            for step, others in enumerate([range(len(order)), order]):
                h, made = x, []
                with run.scope("second" if step else "first", "Step"):
                    for layer, other in enumerate(others):
                        with run.scope(f"layers.{layer}", "Layer"):
                            with run.scope("cache", "Cache"):
                                old = [kept[other]] if kept else []
                                made.append(run.op("cat", h, *old))
                            h = run.op("attend", h, made[-1])
                kept = made
    return run.recording()


def folds(recording: Recording) -> list[tuple[str, int]]:
    """The name and number of what folds, with every module open."""
    view = view_of(recording, depth=9)
    drawn = [*view.clusters.values(), *view.boxes.values()]
    return [(item.names[0], item.count) for item in drawn if item.count > 1]


@pytest.mark.parametrize("number", [2, 5])
def test_layers_that_keep_what_they_made_fold(number: int) -> None:
    """Each reads its own from the step before: one line between two folds says so."""
    recording = steps(range(number), range(number))
    assert folds(recording) == [("layers.0", number)] * 3
    view = view_of(recording, depth=9)
    ops = [recording.ops.get(box) for box in view.boxes]  # type: ignore[call-overload]
    assert [op.name for op in ops if op is not None] == ["cat", "attend"] * 3
    read = [(arrow.tail, arrow.head) for arrow in view.arrows]
    caches = [op.id for op in ops if op is not None and op.name == "cat"]
    assert [(one, two) in read for one, two in zip(caches, caches[1:])] == [True, True]
    assert len(read) == len(set(read))


def test_who_reads_what_of_others_is_shown_one_by_one() -> None:
    """A layer that reads what another one has made is no counterpart."""
    assert folds(steps([3, 2, 1, 0])) == []
    assert folds(steps([0, 1, 3, 2])) == []
    assert folds(steps([1, 0, 2, 3])) == []


def test_both_rows_fold_or_none_does() -> None:
    """Where a layer of one step is of another kind, no line could say who reads what."""
    assert folds(steps(range(4), odd=1)) == []
    assert ("layers.0", 4) not in folds(steps(range(4), aside=2))
    alone = folds(steps(range(4), range(4), odd=1))
    assert ("layers.0", 4) not in alone[1:]


@pytest.mark.parametrize("seen, expected", [
    (0, [("layers.1", 4)]), (2, [("layers.0", 3), ("layers.3", 2)]), (4, [("layers.0", 5)]),
])
def test_a_layer_with_another_reader_ends_a_fold_in_every_step(
    seen: int, expected: list[tuple[str, int]]
) -> None:
    """Also in the last step, where all layers are wired alike; no other layer has its arrow."""
    recording = steps(range(5), seen=seen)
    assert folds(recording) == expected * 2
    assert arrows(view_of(recording, depth=9)).count("cat -> place") == 1


def test_what_only_the_last_step_reads_ends_a_fold_in_every_step() -> None:
    """The steps between fold too."""
    expected = [("layers.0", 2), ("layers.3", 2)]
    found = folds(steps(range(5), range(5), range(5), aside=2))
    assert found == [*expected, ("step1", 2), *expected, *expected]


def test_rows_that_would_not_fold_are_not_cut() -> None:
    """Layers that differ in the middle of the last step leave only single layers in all of them."""
    assert folds(steps(range(3), range(3), aside=1)) == []


def skipping(skip: int) -> Recording:
    """Layers down and up again; one on the way up reads its counterpart, the others an input."""
    run = Builder("Net")
    h, other, kept = run.input(), run.input("other"), list[ValueId]()
    with run.scope("down", "Down"):
        for layer in range(5):
            with run.scope(f"layers.{layer}", "Layer"), run.scope("inner", "Inner"):
                h = run.op("shrink", h)
            kept.append(h)
    with run.scope("up", "Up"):
        for layer in range(5):
            with run.scope(f"layers.{layer}", "Layer"), run.scope("inner", "Inner"):
                h = run.op("grow", h, kept[skip] if layer == skip else other)
    return run.recording()


def test_rows_that_fold_alone_are_not_cut() -> None:
    """One connection does not make two rows one."""
    assert folds(skipping(3)) == [("layers.0", 4), ("layers.0", 3)]


@pytest.mark.parametrize("number", [3, 4])
def test_the_last_of_a_row_feeds_the_first_of_the_next_only_in_turn(number: int) -> None:
    """So the last layer that shrinks stays apart if its counterpart reads something else."""
    run = Builder("Net")
    h, kept = run.input(), list[ValueId]()
    with run.scope("down", "Down"):
        for layer in range(4):
            with run.scope(f"layers.{layer}", "Layer"), run.scope("inner", "Inner"):
                h = run.op("shrink", h)
            kept.append(h)
    kept = [*kept[:number], *(run.input("other") for _ in kept[number:])]
    with run.scope("up", "Up"):
        for layer, skip in enumerate(kept):
            with run.scope(f"layers.{layer}", "Layer"), run.scope("inner", "Inner"):
                h = run.op("grow", h, skip)
    assert folds(run.recording()) == [("layers.0", number)] * 2


def test_a_row_that_does_not_fold_is_no_counterpart() -> None:
    """Of two angles all layers read the last, which has the position of the last layer."""
    run = Builder("Net")
    h, places = run.input(), run.input("places")
    for _ in range(2):
        with run.scope("angle", "Angle"):
            angle = run.op("cos", places)
    for layer in range(2):
        with run.scope(f"layers.{layer}", "Layer"), run.scope("attention", "Attention"):
            h = run.op("attend", h, angle)
    assert folds(run.recording()) == [("layers.0", 2)]


@pytest.mark.parametrize("recording", [
    steps(range(4), range(4), range(4)), steps(range(4), [1, 0, 3, 2], range(4)),
    steps([3, 2, 1, 0], range(4)), apart(range(4), [3, 2, 1, 0]), apart([3, 2, 1, 0], range(4)),
])
def test_groups_that_are_shared_are_those_of_each_cluster(recording: Recording) -> None:
    """On a page, where all can be opened, steps that are wired alike are looked at once."""
    view = full_view(recording)
    for step in plan(recording, ViewOptions(depth=9, fold=False)):
        view = step(view)
    rows = SiblingRows(view, False)
    found = [group for around in (None, *rows.view.clusters) for group in rows.groups(around)]
    assert sorted(repeats(view)[1]) == sorted(found)


class Normed(nn.Module):
    """A layer whose running mean each call updates, with a skip connection around it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.mix(self.norm(x))
        return x + y


@pytest.mark.parametrize("calls, between", [(2, False), (3, False), (2, True)])
def test_layers_whose_buffers_the_next_call_reads_fold(calls: int, between: bool) -> None:
    """Each reads those of its own last call, in the rounds of a loop and where calls differ."""
    model = nn.Sequential(*(Normed() for _ in range(4)))
    x = torch.ones(2, 4)
    with torchrecorder.Recorder(model) as recorder:
        for place in range(calls):
            x = model(x).exp() if between and place == 0 else model(x)
    view = view_of(recorder.recording, depth=9)
    layers = [cluster for cluster in view.clusters.values() if cluster.names[:1] == ("0",)]
    assert [cluster.count for cluster in layers] == [4] * (calls if between else 1)


class Tapped(nn.Module):
    """Layers that update buffers, and a product of the last result and some of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Normed() for _ in range(5))

    def forward(self, x: torch.Tensor, taps: Sequence[int]) -> torch.Tensor:
        seen = []
        for layer in self.layers:
            x = layer(x)
            seen.append(x)
        for tap in taps:
            x = x * seen[tap]
        return x


@pytest.mark.parametrize("taps, expected", [
    ([0], [("layers.1", 4)] * 2),
    ([1], [("layers.0", 2), ("layers.2", 3)] * 2),
    ([0, 1, 2, 3], [("layers.0", 5)]),
])
def test_layers_with_other_readers_in_one_call(
    taps: Sequence[int], expected: list[tuple[str, int]]
) -> None:
    """A call that can fold alone, because it only reads buffers of the other, is cut where both
    fold then; if each layer of one call has a reader of its own, the other folds alone."""
    model, x = Tapped(), torch.ones(2, 4)
    with torchrecorder.Recorder(model) as recorder:
        x = model(x, taps).exp()
        model(x, [])
    assert folds(recorder.recording) == expected
