"""Loops in pages, where everything can be opened: they fold as they do in figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from tests.page.test_data import data_of
from torchrecorder.recording import Recording
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.fold.equal import Equal
from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.full_view import full_view
from torchrecorder.views.page_view import page_view
from torchrecorder.views.pipeline import ViewOptions, make_view, plan
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import Unfolded

ROUNDS = 4


def trained(make: Callable[..., torch.optim.Optimizer], **options: object) -> Recording:
    """A loop that trains a network with buffers."""
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = make(net.parameters(), lr=0.1, **options)
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(ROUNDS):
            optimizer.zero_grad()
            net(torch.rand(3, 4)).square().mean().backward()
            optimizer.step()
    return recorder.recording


def loops(unfolded: Unfolded) -> list[int]:
    """The number of rounds of each loop outside scopes."""
    clusters = unfolded.view.clusters
    blocks = [group for group in unfolded.repeats if is_block(group[0])]
    return [len(group) for group in blocks if clusters[group[0]].parent is None]


@pytest.mark.parametrize("similar", [False, True])
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (torch.optim.AdamW, {"foreach": False}),
        (torch.optim.AdamW, {"foreach": True}),
        (torch.optim.SGD, {"momentum": 0.9, "foreach": False}),
    ],
)
def test_the_round_in_which_the_optimizer_makes_state(
    make: Callable[..., torch.optim.Optimizer], options: dict[str, object], similar: bool
) -> None:
    """Is a round of the loop, with the operations that it ran itself."""
    recording = trained(make, **options)
    fold = "similar" if similar else True
    unfolded = make_view(recording, ViewOptions(fold=fold)).unfolded
    assert unfolded is not None
    found = unfolded()
    assert loops(found) == [ROUNDS]
    steps = [scope for scope in recording.weight_updates if scope in found.view.clusters]
    names = [[op.name for op in recording.ops.values() if op.scope == step] for step in steps]
    assert len(steps) == ROUNDS and names[0] != names[1] == names[2]
    if not similar:
        nesting = found.view.nesting
        homes = {box.id: {*nesting.around(box.cluster)} for box in found.view.boxes.values()}
        assert all(op.scope in homes[op.id] for op in recording.ops.values()
                   if op.scope in steps and op.id in homes)


def test_what_repeats_inside_a_step_folds_there() -> None:
    """In each round on its own; all of it can be opened."""
    recording = trained(torch.optim.AdamW, foreach=False)
    unfolded = make_view(recording).unfolded
    assert unfolded is not None
    found = unfolded()
    clusters = found.view.clusters
    inside = [group for group in found.repeats if clusters[group[0]].parent is not None]
    homes = {clusters[group[0]].parent for group in inside if is_block(group[0])}
    assert homes and homes <= set(recording.weight_updates)
    places = [place.id for place in Tree(found).places if not place.fold]
    assert sorted(places) == sorted({*found.view.boxes, *found.view.clusters})


def test_weights_that_a_loop_writes_in_a_region_begin_before_it() -> None:
    """The first round reads them, the others what the one before has written."""
    net, mean = (nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2))

    def program() -> torch.Tensor:
        total = torch.zeros(())
        for _ in range(ROUNDS):
            x = torch.rand(2, 4)
            found = net(x)
            with torch.no_grad():
                for old, new in zip(mean.parameters(), net.parameters()):
                    old.data = old.data * 0.9 + new.data * 0.1
                goal = mean(x)
            total = total + (found - goal).square().sum()
        return total

    recording = torchrecorder.record(program)
    unfolded = make_view(recording, ViewOptions(parameters=True)).unfolded
    assert unfolded is not None
    view = unfolded().view
    [loop] = [group for group in unfolded().repeats if is_block(group[0])]
    assert len(loop) == ROUNDS
    home = view.clusters[loop[0]].parent
    weights = [value.id for value in recording.values.values()
               if value.producer is None and value.names and value.names[0].startswith("mean.")]
    assert len(weights) == 2 and {view.boxes[weight].cluster for weight in weights} == {home}


class Rounds(nn.Module):
    """A layer, and a loop of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        for _ in range(ROUNDS):
            h = (h + x).tanh()
        return h.relu()


def stacked(stages: int, blocks: int) -> Recording:
    """Stages of so many blocks with a loop in each, between two other layers."""
    model = nn.Sequential(
        nn.Linear(4, 4),
        *(nn.Sequential(*(Rounds() for _ in range(blocks))) for _ in range(stages)),
        nn.Linear(4, 2),
    )
    with torch.no_grad():
        return torchrecorder.record(model, torch.rand(1, 4))


def test_what_folds_in_the_first_of_equal_siblings_folds_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are not searched: three rows, however many siblings there are."""
    recording = stacked(3, 5)
    view = full_view(recording)
    for step in plan(recording, ViewOptions(depth=9, fold=False)):
        view = step(view)
    searched: list[object] = []
    split = Equal._split
    monkeypatch.setattr(
        Equal, "_split", lambda self, row: searched.append(row) or split(self, row)
    )
    rows = SiblingRows(view, False)
    found = [*rows.every_group()]
    assert len(searched) == 3
    each = map(rows.groups, (None, *rows.view.clusters))
    assert found == [group for groups in each for group in groups]
    assert [*map(len, found)].count(ROUNDS) == 3 * 5 and len(found) == 1 + 3 + 3 * 5


@pytest.mark.parametrize("similar", [False, True])
@pytest.mark.parametrize("options", [{}, {"depth": 1}, {"depth": 2}, {"max_boxes": 8}])
def test_a_page_opens_at_first_what_the_figure_shows(
    options: dict[str, int], similar: bool
) -> None:
    """The same clusters; of those that fold, the first."""
    recording = stacked(3, 5)
    chosen = ViewOptions(fold="similar" if similar else True, **options)
    page, figure = page_view(recording, chosen), make_view(recording, chosen)
    assert page.clusters.keys() == figure.clusters.keys()


@pytest.mark.parametrize("depth", [None, 1, 2, 9, "ops"])
def test_rounds_of_training_are_open_at_any_depth(depth: Any) -> None:
    """Also if a figure of this depth would draw the first of them on its own, with the state that
    the optimizer makes in it."""
    data = data_of(trained(torch.optim.SGD, momentum=0.9), depth=depth)
    folds = [number for number in data["open"] if data["items"]["fold"][number]]
    assert [is_block(data["items"]["id"][fold].removeprefix("fold:")) for fold in folds] == [True]


@pytest.mark.parametrize(("view", "told"), [("forward", True), ("backward", False)])
def test_gradients_are_not_carried_over(tmp_path: Path, view: str, told: bool) -> None:
    """A loop says what it gives to its next iteration; nodes of autograd run the other way."""
    def run(x: torch.Tensor) -> torch.Tensor:
        for _ in range(ROUNDS):
            x = torch.tanh(x * 2)
        return x

    recording = torchrecorder.record(run, torch.ones(2, 3, requires_grad=True), backward=True)
    page = recording.render(tmp_path / "page.html", view=view).read_text(encoding="utf-8")
    assert ("carried over: 2×3" in page) is told


def test_a_round_is_named_by_all_that_runs_in_it() -> None:
    """A round of epochs is not called *no_grad* only because its evaluation is."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(2):
            for _ in range(3):
                optimizer.zero_grad()
                net(torch.rand(3, 4)).square().mean().backward()
                optimizer.step()
            with torch.no_grad():
                for _ in range(3):
                    net(torch.rand(3, 4)).argmax().float()
    unfolded = page_view(recorder.recording).unfolded
    assert unfolded is not None
    tree = Tree(unfolded())
    epochs = next(box for box in tree.folds() if box.count == 2)
    assert set(unfolded().view.clusters[epochs.id].names) == set(epochs.names) == {"Linear", "SGD"}
