"""What a page shows before anything is clicked."""

from __future__ import annotations

import pytest
import torch

import torchrecorder
from tests.figures import network
from tests.page.test_data import Page, data_of
from tests.views.test_fold import stack


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
