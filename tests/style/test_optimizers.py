"""Which modules each of several optimizers updates."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.events import Role
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.recording import Recording
from torchrecorder.style.labels import usual_dtype
from torchrecorder.style.region_captions import modules_of_optimizers


class Net(nn.Module):
    """Two layers in a module around both, a head, and a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
        self.head = nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.body(x)) * self.scale
        return found


def trained(net: Net, *parts: Iterable[nn.Parameter], steps: int = 1) -> Recording:
    """Steps of training, with an optimizer for each of these weights."""
    optimizers = [torch.optim.Adam(part) for part in parts]
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(steps):
            net(torch.rand(3, 4)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    return recorder.recording


def captions(recording: RecordedRun) -> list[str]:
    return [*modules_of_optimizers(recording).values()]


def test_each_optimizer_names_its_module() -> None:
    """In every step, also where weights are known by their gradients only."""
    net = Net()
    recording = trained(net, net.body.parameters(), net.head.parameters(), steps=2)
    assert captions(recording) == ["for body", "for head"] * 2


def test_one_optimizer_names_none() -> None:
    net = Net()
    assert captions(trained(net, net.parameters(), steps=2)) == []


def test_some_weights_of_a_module_do_not_stand_for_what_is_around_it() -> None:
    """The inner ``Sequential`` has all weights of the outer one; its first layer has not."""
    net = Net()
    first, second = net.body[0]
    assert isinstance(first, nn.Linear)
    recording = trained(net, first.parameters(), second.parameters(), net.head.parameters())
    assert captions(recording) == ["for body.0.0", "for body.0.1", "for head"]


def test_optimizers_for_the_same_module_do_not_name_it() -> None:
    """As one for matrices and one for biases, or one whose weights have gradients by turns."""
    net = Net()
    parts = [[layer.weight for layer in net.body[0]], [layer.bias for layer in net.body[0]]]
    assert captions(trained(net, *parts)) == []


def test_two_modules_are_listed_and_more_are_not() -> None:
    net = Net()
    first, second = net.body[0]
    recording = trained(net, [*first.parameters(), *net.head.parameters()], second.parameters())
    assert captions(recording) == ["for body, head", "for body.0.1"]
    wide = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abcd"})
    weights = {name: [*layer.parameters()] for name, layer in wide.items()}
    three, one = (torch.optim.SGD(part, 0.1) for part in (sum((weights[n] for n in "abc"), []),
                                                          weights["d"]))
    with torchrecorder.Recorder(wide) as recorder:
        sum(layer(torch.rand(2, 4)).sum() for layer in wide.values()).backward()
        three.step()
        one.step()
    assert captions(recorder.recording) == ["for d"]


def test_a_weight_of_the_root_has_its_own_name() -> None:
    net = Net()
    recording = trained(net, net.body.parameters(), [net.scale])
    assert captions(recording) == ["for body", "for scale"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
def test_all_weights_of_the_model_are_its_class() -> None:
    """Also if a single child has all of them, and beside weights of another model."""
    net = nn.Sequential(nn.Linear(4, 2))
    critic = nn.Linear(2, 1)
    both = torch.optim.SGD([*net.parameters(), critic.weight])
    own = [torch.optim.SGD(part.parameters()) for part in (net, critic)]
    with torchrecorder.Recorder(net) as recorder:
        critic(net(torch.rand(3, 4))).sum().backward()
        for optimizer in (*own, both):
            optimizer.step()
    assert captions(recorder.recording) == [
        "for Sequential", "for critic", "for Sequential, critic"
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
def test_models_of_a_program_are_named_without_one_around_them() -> None:
    """No model is recorded whose weights all could be those of one optimizer."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 1)
    with torchrecorder.Recorder() as recorder:
        optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in (first, second)]
        second(first(torch.rand(3, 4))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert captions(recorder.recording) == ["for first", "for second"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
def test_a_trained_tensor_of_no_module_has_its_name(tmp_path: Path) -> None:
    """A leaf from before the run that has its own optimizer is a parameter, and carried over."""
    net, log_alpha = nn.Linear(4, 2), torch.zeros(1, requires_grad=True)
    scale = torch.ones(2)
    parts = [torch.optim.SGD(net.parameters()), torch.optim.SGD([log_alpha], lr=0.1)]
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(3):
            (net(torch.rand(3, 4)) * scale * log_alpha.exp()).sum().backward()
            for optimizer in parts:
                optimizer.step()
    recording = recorder.recording
    found = {value.names[0]: value for value in recording.values.values() if value.producer is None}
    assert found["log_alpha"].role is Role.PARAMETER and found["log_alpha"].trainable
    assert found["scale"].role is not Role.PARAMETER
    assert captions(recording) == ["for Linear", "for log_alpha"] * 3
    assert recording.annotations["trainable"].total() == 11
    figure = recording.render(tmp_path / "net.dot").read_text()
    assert "carried over: gradients, weights" in figure


def test_a_tensor_without_a_name_is_not_named_by_its_operation() -> None:
    """Its gradient has the name of the op that made it, which says nothing of what is trained."""
    net = nn.Linear(4, 2)
    with torchrecorder.Recorder(net) as recorder:
        masks = [nn.Parameter(torch.rand(3, 4))]
        optimizers = [torch.optim.Adam(net.parameters()), torch.optim.Adam(masks)]
        net(torch.rand(3, 4) * next(iter(masks))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    recording = recorder.recording
    assert ("alias.grad",) in {value.names for value in recording.values.values()}
    assert captions(recording) == ["for Linear"]


def test_figures_and_tables_name_the_module(tmp_path: Path) -> None:
    net = Net()
    recording = trained(net, net.body.parameters(), net.head.parameters())
    figure = recording.render(tmp_path / "net.dot").read_text()
    for text in (figure, str(recording.summary())):
        assert "for body" in text and "for head" in text


def test_a_fold_of_optimizers_names_what_all_update(tmp_path: Path) -> None:
    """One optimizer for each weight: not the module of the first alone."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizers = [torch.optim.SGD([weight], lr=0.1) for weight in net.parameters()]
    with torchrecorder.Recorder(net) as recorder:
        net(torch.rand(3, 4)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    recording = recorder.recording
    for text in (recording.render(tmp_path / "net.dot").read_text(), str(recording.summary())):
        assert "×4" in text and "for 0" not in text


def test_a_backward_pass_shows_both_of_its_gradients(tmp_path: Path) -> None:
    """Their shapes, if they are too few to be counted; both go to the optimizer."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with torchrecorder.Recorder(net) as recorder:
        net(torch.rand(3, 4)).sum().backward()
        optimizer.step()
    figure = recorder.recording.render(tmp_path / "step.dot").read_text()
    assert "→ 2×4, [2]" in figure


class HalfPrecision(torch.optim.Optimizer):
    """Orthogonalizes updates in bfloat16, as Muon does."""

    def __init__(self, params: Iterable[nn.Parameter]) -> None:
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for weight in self.param_groups[0]["params"]:
            if weight.grad is not None:
                update = weight.grad.bfloat16()
                for _ in range(20):
                    update = 1.5 * update - 0.5 * update * update * update
                weight.sub_(update.to(weight.dtype), alpha=0.1)


def test_dtypes_inside_an_optimizer_are_not_the_usual_ones() -> None:
    """A float32 model does not say so at each tensor because its optimizer computes in bfloat16."""
    net = nn.Linear(4, 2)
    optimizer = HalfPrecision(net.parameters())
    with torchrecorder.Recorder(net) as recorder:
        net(torch.rand(3, 4)).sum().backward()
        optimizer.step()
    recording = recorder.recording
    dtypes = [value.dtype for value in recording.values.values()]
    assert dtypes.count("bfloat16") > dtypes.count("float32")
    assert usual_dtype(recording) == "float32"


class Adapted(nn.Module):
    """A frozen layer with a trained weight beside it, which has a box of its own in a figure."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.scale = nn.Linear(4, 4).requires_grad_(False), nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An operation reads the trained weight."""
        return self.base(x) * self.scale


def test_a_weight_with_a_box_is_carried_over(tmp_path: Path) -> None:
    """The step writes it for the next iteration, with its own state."""
    model, x = Adapted(), torch.rand(2, 4)
    optimizer = torch.optim.Adam([model.scale])
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(3):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for name in "net.dot", "net.html":
        figure = recorder.recording.render(tmp_path / name).read_text()
        assert "carried over: weights, state tensors" in figure
