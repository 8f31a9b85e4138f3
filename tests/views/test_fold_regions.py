"""Equal regions, such as checkpointed layers, fold like modules."""

from __future__ import annotations

import contextlib
import functools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder
from tests.callers import called
from torchrecorder.export.dot import dot_text
from torchrecorder.graph.structural_hash import structures
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view


class Layer(nn.Module):
    """Two linear layers and two ops."""

    def __init__(self, width: int = 4):
        super().__init__()
        self.linear = nn.Linear(4, width)
        self.back = nn.Linear(width, 4)

    def forward(self, x):
        return x + self.back(torch.relu(self.linear(x)))


class Net(nn.Module):
    """Layers of these widths, each checkpointed in one of both ways or not, and a head."""

    def __init__(self, *widths: int, reentrant: bool | None = False):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for width in widths)
        self.head = nn.Linear(4, 2)
        self.reentrant = reentrant

    def forward(self, x):
        for layer in self.layers:
            if self.reentrant is None:
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(x)


def titles(recording, fold=True):
    """The first lines of all clusters of the default figure."""
    view = make_view(recording, ViewOptions(fold=fold))
    figure = draw(view, Style())
    assert dot_text(figure)
    return [
        " ".join(line.text for line in group.label if line.part == "title")
        for group in figure.groups
    ]


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers(reentrant):
    """They are one region with a count, and what is in it has the range of their names."""
    x = torch.rand(2, 4, requires_grad=True)
    recording = torchrecorder.record(Net(4, 4, 4, reentrant=reentrant), x)
    assert titles(recording) == ["Net", "checkpoint  ×3", "layers.0 … layers.2: Layer"]
    assert titles(recording, "similar") == titles(recording)
    assert len(titles(recording, fold=False)) == 7


def test_layers_that_differ():
    """Regions with other layers in them are no repeats of each other."""
    recording = torchrecorder.record(Net(4, 4, 5), torch.rand(2, 4))
    assert titles(recording) == [
        "Net", "checkpoint  ×2", "layers.0, layers.1: Layer", "checkpoint", "layers.2: Layer"
    ]


def test_names_in_modules_count():
    """Two modules with children of other names have other structures, whatever region is in it."""

    class Other(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.add_module(name, nn.Linear(4, 4))

        def forward(self, x):
            (child,) = self.children()
            return child(x)

    model = nn.Sequential(Other("fc"), Other("gate"), Other("fc"))
    recording = torchrecorder.record(model, torch.rand(2, 4))
    one, two, same = (structures(recording)[scope.id] for scope in recording.scopes.values()
                      if scope.cls == "Other")
    assert one == same != two


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_backward_repeats_is_no_end_of_the_run(reentrant):
    """Layers that are recomputed, outside of the model's call, give no outputs and take no
    inputs of the run."""
    x = torch.rand(2, 4, requires_grad=True)
    recording = torchrecorder.record(Net(4, 4, reentrant=reentrant), x, backward=True)
    again = [scope for scope in recording.scopes.values() if scope.recompute]
    assert any(scope.parent is None for scope in again)
    assert [recording.values[slot.value].shape for slot in recording.outputs] == [(2, 2)]
    assert [recording.values[slot.value].names for slot in recording.inputs] == [("x",)]


def arrows(recording, **options):
    """The titles of the boxes at both ends of each arrow of a figure."""
    figure = draw(make_view(recording, ViewOptions(**options)), Style())
    title = {shape.id: shape.label[0].text for shape in figure.shapes}
    return {(title[line.tail], title[line.head]) for line in figure.lines}


def test_a_constant_that_a_module_is_given_lies_outside_of_it():
    """It is an argument, and no part of the closed module; one that only code in it reads is."""

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x) + hidden

    hidden, given, model = torch.ones(4), torch.rand(2, 4), nn.Sequential(Reads())
    recording = torchrecorder.record(lambda: model(given))
    assert arrows(recording, depth=1) == {
        ("given", "model: Sequential"), ("model: Sequential", "output")
    }
    assert ("given", "linear: Linear") in arrows(recording)
    assert (called("hidden", "constant"), "+") in arrows(recording)


def test_rounds_of_a_loop_with_data_of_their_own():
    """Batches and targets, read by modules or operations, are ranges of names in one round."""
    batches = [(torch.rand(2, 4), torch.rand(2, 4)) for _ in range(4)]
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def epoch():
        for x, target in batches:
            loss = nn.functional.mse_loss(model(x), target)
            loss.backward()
            for weight in model.parameters():
                weight.grad = None

    recording = torchrecorder.record(epoch)
    found = arrows(recording)
    assert ("batches.0.0 … batches.3.0", "0: Linear") in found
    assert ("batches.0.1 … batches.3.1", "mse_loss") in found
    similar = arrows(recording, fold="similar")
    assert ("batches.0.1 … batches.3.1", "mse_loss") in similar


def test_a_closed_region_shows_which_module_it_runs():
    """Also of one that runs something else."""
    model = Layer()

    def alone(x):
        with torch.no_grad():
            return model(x)

    def beside(x):
        with torch.no_grad():
            return model(x) + 1

    for step in (alone, beside):
        recording = torchrecorder.record(step, torch.rand(2, 4))
        figure = draw(make_view(recording, ViewOptions(depth=1)), Style())
        (region,) = [shape for shape in figure.shapes if shape.label[0].text == "no_grad"]
        assert "calls model: Layer" in [line.text for line in region.label]


@pytest.mark.parametrize("depth", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("max_boxes", [5, 12, 40])
def test_a_checkpoint_is_no_level(depth, max_boxes):
    """At each depth, and by default, the same boxes are drawn with it and without."""
    drawn = []
    for model in (Net(4, 5, 6), Net(4, 5, 6, reentrant=None)):
        recording = torchrecorder.record(nn.Sequential(nn.Tanh(), model), torch.rand(2, 4))
        options = ViewOptions(depth=depth, max_boxes=max_boxes)
        figure = draw(make_view(recording, options), Style())
        drawn.append([shape.label[0].text for shape in figure.shapes])
    assert drawn[0] == drawn[1]


def test_parts_in_checkpoints_open_below_the_depth_of_all():
    """One part is too wide to be opened, the other deep: as without checkpoints."""
    wide = nn.Sequential(*(nn.Linear(4 + i, 5 + i) for i in range(14)), nn.Linear(18, 4))
    drawn = []
    for reentrant in (False, None):
        model = nn.Sequential(wide, Net(5, 6, reentrant=reentrant))
        recording = torchrecorder.record(model, torch.rand(2, 4))
        figure = draw(make_view(recording, ViewOptions(max_boxes=14)), Style())
        drawn.append([shape.label[0].text for shape in figure.shapes])
    assert drawn[0] == drawn[1]
    assert drawn[0].count("linear: Linear") == 2 and "0: Sequential" in drawn[0]


def test_an_outermost_checkpoint_is_one():
    """There is no module around it whose level it could have."""
    with torchrecorder.Recorder() as recorder:
        checkpoint(nn.Sequential(nn.Linear(4, 4)), torch.rand(2, 4), use_reentrant=False)
    (shape,) = draw(make_view(recorder.recording, ViewOptions(depth=0)), Style()).shapes[-1:]
    assert shape.label[0].text == "checkpoint"


def test_modes_give_a_loop_no_name() -> None:
    """The modules in them do."""
    weight, x, teacher = torch.ones(4, 1, requires_grad=True), torch.ones(8, 4), nn.Linear(4, 1)

    def steps(called: bool) -> torchrecorder.Recording:
        with torchrecorder.Recorder() as recorder:
            for _ in range(4):
                ((x @ weight).square().mean() * 2).backward()
                with torch.no_grad():
                    weight.sub_(teacher(x).mean() if called else weight.grad)
        return recorder.recording

    titles = [group.label[0].text for group in torchrecorder.figure(steps(False)).groups]
    assert titles == ["loop  ×4", "no_grad"]
    titles = [group.label[0].text for group in torchrecorder.figure(steps(True)).groups]
    assert f"{called('teacher', 'Linear')}  ×4" in titles


def test_a_construction_that_runs_a_module_stays_closed() -> None:
    """As spectral_norm does."""
    with torchrecorder.Recorder() as recorder:
        model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.ReLU())
        model(torch.ones(2, 4))
    view = torchrecorder.view(recorder.recording)
    made = [scope.id for scope in recorder.recording.scopes.values()
            if scope.kind.value == "construction"]
    assert made and not set(made) & set(view.clusters)


class Counting(nn.Module):
    """Counts its calls in regions of these kinds, each in the one before."""

    def __init__(self, *regions):
        super().__init__()
        self.regions = regions
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        with contextlib.ExitStack() as stack:
            for region in self.regions:
                stack.enter_context(region())
            self.calls.add_(1)
        return x.sin()


AUTOCAST = functools.partial(torch.autocast, "cpu")


@pytest.mark.parametrize("regions", [(torch.no_grad,), (torch.no_grad, AUTOCAST)])
@pytest.mark.parametrize("depth", [None, 9])
def test_calls_of_a_model_that_counts_them_fold(regions, depth):
    """A region that only counts is a closed box at any depth: open, it would be empty."""
    model = nn.Sequential(Counting(*regions), nn.Tanh())
    with torchrecorder.Recorder(model) as recorder:
        model(model(torch.ones(2)))
    recording = recorder.recording
    view = make_view(recording, ViewOptions(depth=depth))
    assert view.clusters[recording.roots[0]].count == 2
    kinds = [recording.scopes[box].kind.value for box in view.boxes if box in recording.scopes]
    assert kinds[0] == ("no_grad" if len(regions) == 1 else "autocast")
