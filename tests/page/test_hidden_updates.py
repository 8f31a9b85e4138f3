"""Buffers that ops without a box update: a page counts them as a figure does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder
from tests.page.test_data import Page, data_of
from torchrecorder.export.dot import output_labels
from torchrecorder.export.page_data.box_appearance import hidden_updates
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.bundles import FlowKind, bundles
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.tree import Tree


def twice() -> tuple[nn.Module, Recording]:
    """A model with batch norms at two levels, called twice in training mode."""
    inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4))
    model = nn.Sequential(inner, nn.BatchNorm1d(4))
    with torchrecorder.Recorder(model) as recorder:
        model(model(torch.rand(2, 4)))
    return model, recorder.recording


def buffer_counts(page: Page) -> dict[str, str]:
    """For each module the text of the line on which all updated buffers leave it."""
    tensors, ids = page.data["tensors"], page.items["id"]
    first = len(tensors["text"]) - len(page.data["tensor_trunks"])
    texts = [page.data["strings"][text] for text in tensors["text"][first:]]
    pairs = zip(tensors["producer"][first:], texts)
    return {ids[item]: text for item, text in pairs if text.endswith("buffers")}


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_updated_buffers_are_counted_as_in_the_figure(depth: int) -> None:
    """In the captions of closed modules and on the lines between them, at every depth."""
    model, recording = twice()
    view = make_view(recording, ViewOptions(depth=depth, fold=False))
    page = Page(data_of(recording, fold=False))
    captions = [
        (item, text.text) for item, text in output_labels(draw(view, Style())).items()
        if "buffers" in text.text
    ]
    assert captions
    for item, caption in captions:
        assert page.lines(page.items["label"][page.items["id"].index(item)])[-1] == caption
    drawn = [each for each in bundles(view) if each.flow is FlowKind.BUFFER]
    counts = buffer_counts(page)
    assert drawn
    for bundle in drawn:
        assert counts[bundle.first.tail] == f"{len(bundle.arrows)} buffers"
    if depth == 0:
        assert len(drawn[0].arrows) == len(list(model.buffers()))


def test_every_reader_of_a_hidden_update_is_a_module_with_that_buffer() -> None:
    """The panel of a closed module lists all buffers that it takes from the call before."""
    _, recording = twice()
    page = Page(data_of(recording, fold=False))
    tensors, ids = page.data["tensors"], page.items["id"]
    first = len(tensors["text"]) - len(page.data["tensor_trunks"])
    read = [
        (ids[tail], ids[head])
        for tail, heads in zip(tensors["producer"][:first], tensors["consumers"])
        for head in heads
        if tail >= 0 and ids[tail] in recording.scopes and ids[head] in recording.scopes
    ]
    names = {scope.id: (scope.path, scope.call) for scope in recording.scopes.values()}
    assert sorted((names[tail], names[head]) for tail, head in read) == [
        ((path, 0), (path, 1)) for path in ("0.1", "0.2", "1")
    ]


def test_what_is_drawn_has_no_hidden_update() -> None:
    """With the parameters, the ops that count batches have boxes and arrows of their own."""
    _, recording = twice()
    found = []
    for parameters in (None, True):
        view = make_view(recording, ViewOptions(fold=False, parameters=parameters))
        assert view.unfolded is not None
        found.append(hidden_updates(Tree(view.unfolded())))
    assert [len(updates) for updates in found] == [3, 0]


def test_updates_are_in_the_order_of_the_run() -> None:
    """Two runs of one model write the same page."""
    model = nn.Sequential(*(nn.BatchNorm1d(4) for _ in range(12)))
    with torchrecorder.Recorder(model) as recorder:
        model(model(torch.rand(2, 4)))
    view = make_view(recorder.recording, ViewOptions(fold=False))
    assert view.unfolded is not None
    heads = [update.head for update in hidden_updates(Tree(view.unfolded()))]
    assert len(heads) == 12 and heads == sorted(heads)


class Counting(nn.Module):
    """Counts its calls in a region of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two operations beside the count."""
        with torch.no_grad():
            self.calls.add_(1)
        return x.sin().cos()


def test_the_count_of_a_hidden_region_is_that_of_the_module_around_it() -> None:
    """The next call reads it."""
    model = Counting()
    with torchrecorder.Recorder(model) as recorder:
        model(model(torch.rand(2, 4)))
    view = make_view(recorder.recording, ViewOptions(fold=False, hide=("no_grad",)))
    assert view.unfolded is not None
    tree = Tree(view.unfolded())
    (update,) = hidden_updates(tree)
    scopes = recorder.recording.scopes
    ends = [tree.places[place].id for place in (update.tail, update.head)]
    assert ends == [scope.id for scope in scopes.values() if scope.cls == "Counting"]
