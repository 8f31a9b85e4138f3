"""Rounds of loops that write to a state of their own, such as a queue, at a place of each round."""

from __future__ import annotations

import torch
from torch import nn

import torchrecorder
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import make_view
from torchrecorder.views.view import BoxKind, View


def counts(view: View) -> list[int]:
    return [cluster.count for cluster in view.clusters.values() if cluster.count > 1]


def queued(rounds: int, outside: bool) -> Recording:
    """A loop that reads a queue, and writes to a place of it in each round."""
    queue = torch.zeros(8, 4)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def program() -> torch.Tensor:
        total = torch.zeros(())
        for at in range(rounds):
            found = net(torch.rand(2, 4))
            total = total + (found @ queue.clone().T).sum()
            with torch.set_grad_enabled(not outside):
                queue[2 * at:2 * at + 2] = found.detach()
        return total

    return torchrecorder.record(program)


def test_the_place_in_a_region_may_be_that_of_the_round() -> None:
    """As that of an operation outside a region may."""
    assert counts(make_view(queued(4, outside=False))) == [4]
    assert counts(make_view(queued(4, outside=True))) == [4]


def test_what_a_loop_begins_with_stands_before_it() -> None:
    """The first round reads it, the others what the one before has written."""
    view = make_view(queued(4, outside=True))
    [queue] = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    [loop] = [cluster.id for cluster in view.clusters.values() if cluster.count > 1]
    heads = [arrow.head for arrow in view.arrows if arrow.tail == queue.id]
    assert queue.cluster == view.clusters[loop].parent and len(heads) == 2
    assert all(loop in view.nesting.around(view.boxes[head].cluster) for head in heads)


def test_constants_of_each_round_stand_in_it() -> None:
    """What NumPy or a list has given."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    data = [torch.rand(2, 4) for _ in range(4)]

    def program() -> list[torch.Tensor]:
        return [net(x).relu() for x in data]

    view = make_view(torchrecorder.record(program))
    assert counts(view) == [4]
    [constant] = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert view.clusters[constant.cluster or ""].count == 4


class Scaled(nn.Module):
    """Has a number in a region."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = x.sigmoid() * self.number
        found: torch.Tensor = self.inner(x) * scale
        return found


def test_a_number_in_the_region_of_a_module_is_a_setting() -> None:
    """Modules with other numbers in their regions are not equal."""
    x = torch.rand(2, 4)
    equal = torchrecorder.record(nn.Sequential(*(Scaled(0.5) for _ in range(3))), x)
    other = torchrecorder.record(nn.Sequential(Scaled(0.5), Scaled(0.25), Scaled(0.5)), x)
    assert counts(make_view(equal)) == [3]
    assert counts(make_view(other)) == []
    assert max(box.count for box in make_view(other).boxes.values()) == 1


def fitted(rounds: int, steps: int) -> Recording:
    """Steps of LBFGS, which keeps a direction of each round for all rounds after it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=rounds, history_size=3)
    x = torch.rand(8, 2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (net(x) - 1).pow(2).mean()
        loss.backward()
        return loss

    with torchrecorder.Recorder(net) as recorder:
        for _ in range(steps):
            optimizer.step(closure)
    return recorder.recording


def test_rounds_of_an_optimizer_may_keep_more_and_more() -> None:
    """Until its history is full; several steps are a loop around that of their rounds."""
    assert counts(make_view(fitted(rounds=8, steps=1))) == [8]
    assert sorted(counts(make_view(fitted(rounds=4, steps=3)))) == [3, 4]


def test_a_table_lists_such_rounds_once() -> None:
    """The first one, too, whose weights are those from before the run."""
    rows = str(fitted(rounds=8, steps=1).summary()).splitlines()
    (update,) = [row for row in rows if "─ optimizer LBFGS" in row]
    assert "LBFGS  ×8" in update
