"""What a page shows before anything is clicked."""

from __future__ import annotations

import pytest
import torch

import torchrecorder
from tests.comparison.test_overlay import laid
from tests.figures import network
from tests.page.test_data import Page, data_of
from tests.views.test_fold import stack
from torchrecorder.recording import Recording


def test_open_at_first_is_what_the_view_has_open() -> None:
    """Folds are closed, whatever the depth."""
    assert Page(data_of(network(), depth=0)).data["open"] == []
    page = Page(data_of(stack(12), depth=2))
    assert [page.items["id"][item] for item in page.data["open"]] == ["s0"]
    page = Page(data_of(stack(12), depth=2, fold=False))
    assert len(page.data["open"]) == 13


@pytest.mark.parametrize("trains", [True, False])
def test_rounds_that_train_are_open_at_first(trains: bool) -> None:
    """One of them, with the model in it; of other loops, nothing is open."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Tanh()))

    def run(batches: list[torch.Tensor]) -> None:
        for x in batches:
            loss = model(x).square().mean()
            if trains:
                loss.backward()

    page = Page(data_of(torchrecorder.record(run, ([torch.ones(2, 4)] * 3,))))
    shown = [number for number in page.data["open"] if page.items["fold"][number]]
    assert len(shown) == trains
    for fold in shown:
        rounds = [n for n in page.data["open"] if page.items["parent"][n] == fold]
        assert rounds == [fold + 1]


@pytest.mark.parametrize("layers", [4, 60])
def test_siblings_that_differ_are_open_at_first(layers: int) -> None:
    """The first one shows how; those that do not differ stay closed."""
    def run(activation: type[torch.nn.Module]) -> Recording:
        blocks = [[torch.nn.Linear(4, 4), activation(), torch.nn.Tanh()] for _ in range(layers)]
        same = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(3)]
        model = torch.nn.Sequential(*[torch.nn.Sequential(*block) for block in blocks], *same)
        return torchrecorder.record(model, torch.ones(2, 4))

    page = Page(data_of(laid(run(torch.nn.ReLU), run(torch.nn.GELU)).recording))
    folds = [number for number in page.data["open"] if page.items["fold"][number]]
    inside = [number for number in page.data["open"] if page.items["parent"][number] in folds]
    assert len(folds) == len(inside) == 1
