"""The inputs of a list are one box if all passes over it read each of them as often."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import arrows, view_of
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.fold.fold import repeats
from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.full_view import full_view
from torchrecorder.views.pipeline import ViewOptions, plan
from torchrecorder.views.view import BoxKind, View


def passes(*orders: Sequence[int], look: bool = False) -> Recording:
    """Calls of one layer after the other in several passes, each with one of three inputs."""
    run = Builder("Net")
    given = [run.input(f"xs.{place}") for place in range(3)]
    with run.scope("Net"):
        state = run.input("h")
        for number, order in enumerate(orders):
            with run.scope(f"pass{number}", "Pass"):
                for call, place in enumerate(order):
                    with run.scope(f"cells.{call}", "Cell"):
                        state = run.op("mix", given[place], state)
            state = run.op("relu" if number else "tanh", state)
        if look:
            run.op("look", given[1])
    return run.recording()


def counts(view: View, kind: BoxKind = BoxKind.INPUT) -> list[int]:
    """How many tensors each box of a kind stands for; those of the inputs without the state."""
    boxes = [box for box in view.boxes.values() if box.kind is kind]
    return sorted((box.count for box in boxes), reverse=True)


def cells(view: View) -> list[int]:
    """How many calls of a cell each box stands for."""
    scopes = view.recording.scopes
    return [box.count for box in view.boxes.values()
            if box.id in scopes and scopes[box.id].cls == "Cell"]  # type: ignore[index]


def test_two_passes_over_the_same_inputs() -> None:
    """One box for the inputs, and one line from it to each pass."""
    view = view_of(passes(range(3), range(3)), depth=2)
    assert counts(view) == [3, 1] and cells(view) == [3, 3]
    assert len(arrows(view)) == 2 + 5


def test_inputs_that_take_turns() -> None:
    """Six calls with three inputs, as in two epochs."""
    view = view_of(passes([0, 1, 2, 0, 1, 2], range(3)), depth=2)
    assert counts(view) == [3, 1] and cells(view) == [6, 3]


@pytest.mark.parametrize("recording", [
    passes(range(3), [0, 1]), passes([0, 1, 2, 0, 0, 1], range(3)),
    passes(range(3), range(3), look=True),
])
def test_which_of_them_others_read_is_not_hidden(recording: Recording) -> None:
    """Without one of them, one more often, or where one is read by something else."""
    view = view_of(recording, depth=2)
    assert counts(view) == [1] * 4


def test_passes_in_another_order() -> None:
    """As those over a list that is shuffled."""
    view = view_of(passes(range(3), [2, 0, 1]), depth=2)
    assert counts(view) == [3, 1] and cells(view) == [3, 3]


def epochs(number: int, evaluate: bool) -> Recording:
    """So many epochs with the three batches of a list, of pairs of equal shape."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    batches = [(torch.ones(2, 4), torch.zeros(2, 4)) for _ in range(3)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(number):
            for x, y in batches:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
            if evaluate:
                with torch.no_grad():
                    for x, y in batches:
                        nn.functional.l1_loss(model(x), y).item()

    return torchrecorder.record(train)


@pytest.mark.parametrize("number, evaluate, frames", [
    (1, True, [3, 3]), (2, False, [6]), (2, True, [2, 3, 3]), (3, True, [3, 3, 3]),
])
@pytest.mark.parametrize("depth", [1, 2])
def test_steps_of_several_epochs(
    number: int, evaluate: bool, frames: Sequence[int], depth: int
) -> None:
    """A list instead of a data loader: both parts of the batches are one box each, which a closed
    evaluation reads as a whole."""
    view = view_of(epochs(number, evaluate), depth=depth)
    if depth == 1 and evaluate:
        frames = frames[:-1]
    assert counts(view, BoxKind.CONSTANT) == [3, 3]
    assert {box.names[0] for box in view.boxes.values() if box.kind is BoxKind.CONSTANT} == {
        "batches.*.0", "batches.*.1"
    }
    found = [cluster.count for cluster in view.clusters.values() if cluster.count > 1]
    assert sorted(found) == sorted(frames)


@pytest.mark.parametrize("recording", [
    passes(range(3), range(3)), passes([0, 1, 2, 0, 1, 2], range(3)), passes(range(3), [2, 1, 0]),
    passes(range(3), range(3), range(3), look=True), epochs(2, True),
])
def test_groups_that_are_shared_are_those_of_each_cluster(recording: Recording) -> None:
    """On a page, passes with equal connections are searched once."""
    view = full_view(recording)
    for step in plan(recording, ViewOptions(depth=9, fold=False)):
        view = step(view)
    rows = SiblingRows(view, False)
    clusters = (None, *rows.view.clusters)
    groups = [group for around in clusters for group in rows.groups(around)]
    found = [*groups, *rows.source_groups(groups)]
    assert {*repeats(view)[1]} == {*found} and len({*found}) == len(found)
