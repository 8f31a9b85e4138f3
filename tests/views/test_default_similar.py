"""Siblings that differ fold by default if there are too many of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from torchrecorder.capture.record import record
from torchrecorder.recording import Recording
from torchrecorder.views.page_view import page_view
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View


class Tables(nn.Module):
    """Embedding tables of other sizes, side by side."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(9 + number, 4) for number in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([table(x) for table in self.tables]).sum(0)


def tables(count: int) -> Recording:
    """A run of so many tables."""
    return record(Tables(count), torch.zeros(2, dtype=torch.int64))


def folds(view: View) -> list[int]:
    """The counts of its folds."""
    return [box.count for box in view.boxes.values() if box.count > 1]


@pytest.mark.parametrize(
    "options, folded",
    [
        ({}, True),
        ({"max_boxes": 60}, False),
        ({"depth": 1}, False),
        ({"fold": False}, False),
        ({"max_boxes": 2}, False),
    ],
)
def test_many_siblings_that_differ_fold(options: dict[str, Any], folded: bool) -> None:
    """Unless there are at most *max_boxes*, or more even then, or a depth is set."""
    assert folds(make_view(tables(50), ViewOptions(**options))) == [50] * folded


def test_a_page_shows_the_same() -> None:
    """Also how many siblings of a page are one box."""
    for count in (30, 50):
        view = page_view(tables(count)).unfolded()
        assert view.similar == (count == 50)
        assert [len(group) for group in view.repeats] == [count] * (count == 50)
