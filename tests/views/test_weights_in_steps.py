"""Weights and outputs of repeated training steps: one box for each of their modules or names."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import torchrecorder
from tests.views.loops import trained
from torchrecorder.events import OpId, ScopeKind, ValueId
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View


class Scaled(torch.nn.Module):
    """A block with a weight of its own beside its modules, as ``LayerScale`` has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.gamma = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gamma * self.inner(x)


def test_weights_stand_in_their_modules_although_an_optimizer_reads_them() -> None:
    """So blocks fold with one box for the weight of each, and no line leads to the optimizer."""
    model = torch.nn.Sequential(Scaled(), Scaled(), Scaled())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    view = make_view(recorder.recording, ViewOptions(depth=2))
    view.check()
    (weight,) = (box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER)
    assert weight.cluster is not None and view.clusters[weight.cluster].count == 3
    (step,) = (
        scope.id for scope in view.recording.scopes.values() if scope.kind is ScopeKind.OPTIMIZER
    )
    (entering,) = {arrow.tail for arrow in view.arrows if arrow.head == step}
    assert view.recording.ops[OpId(entering)].name == "backward"
    shown = make_view(recorder.recording, ViewOptions(depth=2, fold=False, parameters=True))
    weights = {box.id for box in shown.boxes.values() if box.kind is BoxKind.PARAMETER}
    assert weights <= {arrow.tail for arrow in shown.arrows if arrow.head == step}


def test_steps_of_a_model_with_such_weights_are_one_cluster() -> None:
    """The first one too: weights that a step has written stand in the module that reads them next,
    as those from before do, so that blocks fold with one box for the weight of each."""
    model = torch.nn.Sequential(Scaled(), Scaled(), Scaled())
    optimizer = torch.optim.AdamW(model.parameters())
    view = make_view(trained(model, optimizer, 4), ViewOptions())
    view.check()
    counts = Counter(cluster.count for cluster in view.clusters.values())
    assert counts[4] == 1 and counts[3] == 1, counts
    (weight,) = (box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER)
    assert weight.cluster is not None and view.clusters[weight.cluster].count == 3
    assert not [arrow for arrow in view.arrows if arrow.head == weight.id]


@pytest.mark.parametrize("depth", [1, 9])
def test_steps_fold_where_weights_are_shown(depth: int) -> None:
    """What the last step has written is beside it, as what the others write is in the next one."""
    model = torch.nn.Linear(4, 3, bias=False)
    recording = trained(model, torch.optim.SGD(model.parameters(), lr=0.1), 3)
    view = make_view(recording, ViewOptions(depth=depth, parameters=True))
    view.check()
    assert sorted(cluster.count for cluster in view.clusters.values())[-1] == 3
    *_, last = (box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER)
    assert last.cluster is None


class Classifier(torch.nn.Module):
    """Returns logits and scores, of one shape each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Both by name."""
        logits = self.layers(x)
        return {"logits": logits, "scores": logits.softmax(-1)}


@pytest.mark.parametrize("rounds", [2, 3, 6])
def test_outputs_of_the_rounds_of_a_loop_are_one_box_for_each_name(rounds: int) -> None:
    """In a page as well; without folds each has its own."""
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(rounds):
            optimizer.zero_grad()
            (model(torch.ones(2, 4))["scores"] * 2).sum().backward()
            optimizer.step()
    recording = recorder.recording

    def outputs(view: View) -> list[tuple[int, tuple[str, ...]]]:
        return [(box.count, box.names) for box in view.boxes.values()
                if box.kind is BoxKind.OUTPUT]

    view = make_view(recording, ViewOptions(depth=0))
    assert outputs(view) == [(rounds, ("logits",) * rounds)]
    assert view.unfolded is not None and outputs(view.unfolded().view) == outputs(view)
    assert len(outputs(make_view(recording, ViewOptions(depth=0, fold=False)))) == rounds


class Backwards(torch.nn.Module):
    """Reads its own weights in another order than it registers them."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(4))
        self.scale = torch.nn.Parameter(torch.ones(4))
        self.weight = torch.nn.Parameter(torch.ones(4, 4))
        self.inner = torch.nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner((x @ self.weight) * self.scale + self.bias)


@pytest.mark.parametrize("fold", [True, "similar"])
def test_each_weight_is_one_box_in_whatever_order_a_model_reads_them(fold: bool | str) -> None:
    """The box of a weight that a step has written stands for the same weight as before."""
    model = Backwards()
    recording = trained(model, torch.optim.SGD(model.parameters(), lr=0.1), 3)
    view = make_view(recording, ViewOptions(fold=fold))
    view.check()
    weights = [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
    names = {
        box.id: {recording.values[ValueId(member)].names[0] for member in box.members}
        for box in weights
    }
    assert sorted(names.values(), key=str) == [{"bias"}, {"scale"}, {"weight"}]
    assert not any(box.names for box in weights)
    readers = {
        arrow.head: {recording.ops[OpId(arrow.head)].name, *names[arrow.tail]}
        for arrow in view.arrows if arrow.tail in names
    }
    assert sorted(readers.values(), key=str) == sorted(
        [{"matmul", "weight"}, {"mul", "scale"}, {"add", "bias"}], key=str
    )
