"""Inner loops over what grows, such as the layers of a cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import torchrecorder
from tests.views.test_varying_sizes import folds, view_of


class Reordered(nn.Module):
    """Keys of three layers, of the tokens so far, and of a sentence that does not change."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, token: Tensor, cache: list[Tensor], given: list[Tensor]) -> Tensor:
        """The features of the next token. It adds two keys to *cache*."""
        for number, layer in enumerate(self.layers):
            keys = layer(token)[:, None].expand(-1, 2, -1)
            cache[number] = torch.cat([cache[number], keys], 1)
            token = token + cache[number].sum(1) + given[number].mean(1)
        return token


def reorder(keys: list[Tensor], places: Tensor) -> None:
    """Replace the keys of each layer."""
    for number, each in enumerate(keys):
        keys[number] = each.index_select(0, places)


def shorten(keys: list[Tensor]) -> None:
    """Remove the last key of each layer."""
    for number, each in enumerate(keys):
        keys[number] = each[:, :-1]


def test_inner_loops_over_what_grows_fold() -> None:
    """The lines that reorder the keys of all layers, and also keys of a fixed size."""
    model = Reordered()

    def search(token: Tensor) -> Tensor:
        cache, given = [torch.zeros(2, 1, 4)] * 3, [torch.ones(2, 9, 4)] * 3
        for _ in range(5):
            token = model(token, cache, given)
            places = token.sum(1).argsort()
            reorder(cache, places)
            reorder(given, places)
        return token

    assert 5 in folds(view_of(torchrecorder.record(search, torch.ones(2, 4))))


def test_one_line_reached_by_two_calls_is_two_lines() -> None:
    """A size that one of the calls reads is read by the other one in a later step."""
    model, draft = Reordered(), Reordered()

    def search(token: Tensor) -> Tensor:
        given = [torch.ones(2, 9, 4)] * 3
        long, short = [torch.zeros(2, 3, 4)] * 3, [torch.zeros(2, 2, 4)] * 3
        for _ in range(5):
            token = model(draft(token, long, given), short, given)
            shorten(long)
            shorten(short)
        return token

    assert 5 in folds(view_of(torchrecorder.record(search, torch.ones(2, 4))))
