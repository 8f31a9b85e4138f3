"""Last rounds of loops fold with the others, although nothing reads what they wrote."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.optim import swa_utils

import torchrecorder
from tests.graph.test_consistency import changed
from torchrecorder.events import ScopeId
from torchrecorder.graph.relations import own_outputs
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


def by_hand(teacher: nn.Module, net: nn.Module) -> None:
    """An average of weights as many programs write it."""
    with torch.no_grad():
        for mean, weight in zip(teacher.parameters(), net.parameters()):
            mean.data.mul_(0.9).add_(weight.data, alpha=0.1)


def averaged(teacher: nn.Module, net: nn.Module) -> None:
    assert isinstance(teacher, swa_utils.AveragedModel)
    teacher.update_parameters(net)


def trained(
    update: Callable[[nn.Module, nn.Module], None], rounds: int, teaches: bool = True
) -> Recording:
    """A student that a moving average of itself teaches; or the average is evaluated at the end."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    mean = swa_utils.get_ema_multi_avg_fn(0.9)
    teacher = swa_utils.AveragedModel(net, multi_avg_fn=mean)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(rounds):
            x = torch.rand(2, 4)
            with torch.no_grad():
                goal = teacher(x) if teaches else torch.ones(2, 4)
            nn.functional.mse_loss(net(x), goal).backward()
            optimizer.step()
            optimizer.zero_grad()
            update(teacher, net)
        if not teaches:
            teacher(x)
    return recorder.recording


@pytest.mark.parametrize("update", [by_hand, averaged])
def test_the_round_after_which_nothing_reads_the_average(
    update: Callable[[nn.Module, nn.Module], None]
) -> None:
    """It wrote a view of each weight; the weight itself is a result where something reads it.

    The first update of PyTorch's average copies the weights.
    """
    view = make_view(trained(update, 5))
    assert max(cluster.count for cluster in view.clusters.values()) == 5


def test_the_round_after_which_the_average_is_evaluated() -> None:
    """Only from then on are the averages known as weights of a model."""
    view = make_view(trained(averaged, 5, teaches=False))
    assert max(cluster.count for cluster in view.clusters.values()) == 5
    shown = [view.recording.scopes[name].cls for name in map(ScopeId, view.clusters)
             if name in view.recording.scopes]
    assert shown.count("AveragedModel") == 1


def test_outputs_of_an_operation_that_writes_a_view() -> None:
    """Its own output is the view; the tensor around it is one as soon as it is read."""

    def written(x: torch.Tensor, read: bool) -> torch.Tensor:
        y = x * 2
        y[0].add_(1)
        return y.sum() if read else x

    values, own = [], []
    for read in (True, False):
        recording = torchrecorder.record(written, (torch.rand(3, 2), read))
        [op] = [op for op in recording.ops.values() if op.name == "add_"]
        values.append(len(op.outputs))
        own.append([recording.values[value].shape for value in own_outputs(recording.values, op)])
    assert values == [2, 1] and own == [[(2,)]] * 2


def test_parts_of_one_tensor_are_all_own_outputs() -> None:
    """What is not written may share memory: the parts that ``chunk`` returns."""
    recording = torchrecorder.record(lambda x: x.chunk(2), torch.rand(4))
    [op] = [op for op in recording.ops.values() if op.name == "chunk"]
    assert tuple(own_outputs(recording.values, op)) == op.outputs and len(op.outputs) == 2


def test_parts_of_a_result_beside_what_is_written_are_own_outputs() -> None:
    """An operation of a library may write two buffers, and return two parts of a new tensor."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("update", run.input("x"), outputs=5)
    recording = run.recording()
    [op] = recording.ops.values()
    for value, storage in zip(op.outputs, (1, 2, 2, 3, 3)):
        recording = changed(recording, "values", value, storage=storage)
    recording = changed(recording, "ops", op.id, writes=op.outputs[:3])
    [op], (mean, var, _, *parts) = recording.ops.values(), op.outputs
    assert [*own_outputs(recording.values, op)] == [mean, var, *parts]


def test_a_scope_that_reads_what_it_wrote_through_a_view() -> None:
    """Is not equal to one that reads another tensor there."""

    class Written(nn.Module):
        def __init__(self, own: bool) -> None:
            super().__init__()
            self.own = own

        def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y[0].add_(1)
            return torch.exp(y if self.own else other)

    for second in (True, False):
        net = nn.ModuleList([Written(True), Written(second)])
        x = torch.rand(3, 2)
        recording = torchrecorder.record(lambda: [layer(x, x + 1) for layer in net])
        layers = [scope.id for scope in recording.scopes.values() if scope.cls == "Written"]
        digests = {recording.structures[layer] for layer in layers}
        assert len(digests) == (1 if second else 2)


def test_the_buffers_of_a_function_that_only_later_rounds_read() -> None:
    """Its results are what is read outside it: in the last round not what it has updated."""
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def loss(x: torch.Tensor) -> torch.Tensor:
        return net(x).square().mean()

    def program() -> None:
        for _ in range(5):
            loss(torch.rand(3, 4)).backward()

    recording = torchrecorder.record(program)
    view = make_view(recording, ViewOptions(functions=True))
    assert [cluster.count for cluster in view.clusters.values() if cluster.count > 1] == [5]


def test_functions_of_which_other_results_are_passed_on_do_not_fold_together() -> None:
    """Each pair of the four is joined by another result."""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = net(x)
        return y.sin(), y.cos()

    def program(x: torch.Tensor) -> torch.Tensor:
        for number in (0, 1, 0, 0):
            x = both(x)[number]
        return x

    recording = torchrecorder.record(program, torch.rand(3, 4))
    view = make_view(recording, ViewOptions(functions=True, depth=1))
    assert [box.count for box in view.boxes.values() if box.kind is BoxKind.MODULE] == [2, 2]


def test_the_round_after_which_a_copy_of_the_model_is_evaluated() -> None:
    """Until then nothing has called the copy, so that its weights have no names."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    average = copy.deepcopy(net)
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(4):
            x = torch.rand(2, 4)
            net(x)
            own, others = average.state_dict().values(), net.state_dict().values()
            with torch.no_grad():
                torch._foreach_lerp_([*own], [*others], weight=0.1)
        average(x)
    view = make_view(recorder.recording)
    assert max(cluster.count for cluster in view.clusters.values()) == 4


def test_the_round_after_which_nothing_reads_the_gradients() -> None:
    """As where the inputs are attacked, and each round drops the gradients of the one before."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))

    def attack() -> None:
        for _ in range(4):
            x = torch.rand(2, 4, requires_grad=True)
            loss = net(x).square().mean()
            net.zero_grad()
            loss.backward()
            assert x.grad is not None
            net(x + x.grad.sign()).argmax(1)

    with torchrecorder.Recorder(net) as recorder:
        attack()
    passes = [op for op in recorder.recording.ops.values() if op.name == "backward"]
    assert [len(op.outputs) for op in passes] == [5, 5, 5, 1]
    view = make_view(recorder.recording, ViewOptions(depth=0))
    assert [cluster.count for cluster in view.clusters.values()] == [4]
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(3):
            attack()
    view = make_view(recorder.recording, ViewOptions(depth=0, functions=True))
    assert [box.count for box in view.boxes.values() if box.kind is BoxKind.MODULE] == [3]


class Centered(nn.Module):
    """Computes a moving average of what it returns anew in each call."""

    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x)
        self.mean = 0.9 * self.mean + y.detach().mean(0)
        return y - self.mean


def test_the_round_after_which_no_call_reads_the_buffer_that_it_made() -> None:
    """It is a buffer there too: an average of the model reads it in every round."""
    net = nn.Sequential(Centered(), Centered())
    average = swa_utils.AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            net(torch.rand(2, 4)).square().mean().backward()
            optimizer.step()
            average.update_parameters(net)
    made = [value for value in recorder.recording.values.values() if value.names == ("0.mean",)]
    assert len(made) == 1 + 4
    view = make_view(recorder.recording, ViewOptions(depth=0))
    view.check()
    assert [cluster.count for cluster in view.clusters.values()] == [4]
