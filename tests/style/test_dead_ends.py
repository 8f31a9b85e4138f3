"""Boxes that no line leaves: a figure, and a page, say why."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import torchrecorder
from tests.page.test_data import data_of
from torchrecorder.style.draw import draw
from torchrecorder.views.pipeline import ViewOptions, make_view


class Both(nn.Module):
    """A layer that updates two kinds of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.movie = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, user: Tensor, movie: Tensor) -> tuple[Tensor, Tensor]:
        """Each reads the other."""
        return self.user(movie).relu(), self.movie(user).relu()


class Stack(nn.Module):
    """Layers of which the second result is read by the next one only."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Both() for _ in range(3))

    def forward(self, user: Tensor, movie: Tensor) -> Tensor:
        """The first result of the last layer."""
        for layer in self.layers:
            user, movie = layer(user, movie)
        return user


def test_a_chain_says_what_only_its_next_module_reads() -> None:
    """Otherwise a box in it would lead nowhere."""
    recording = torchrecorder.record(Stack(), (torch.rand(2, 4), torch.rand(2, 4)))
    figure = draw(make_view(recording, ViewOptions(depth=2)))
    (fold,) = (group for group in figure.groups if "×3" in group.label[0].text)
    assert fold.loop is not None
    assert [text.text for text in fold.label[1:]] == ["carried over: movie, user"]


class Idle(nn.Module):
    """Its pooler computes what nobody reads, in two steps; its head reads the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.select = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.pooler = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        """The result of the head."""
        x = self.layer(x)
        self.pooler(self.select(x))
        out: Tensor = self.head(x)
        return out


def test_a_closed_module_of_a_page_is_unused_as_in_a_figure() -> None:
    """With a dotted outline, if nothing reads it or what does is unused."""
    recording = torchrecorder.record(Idle(), (torch.rand(1, 4),))
    shapes = draw(make_view(recording, ViewOptions(depth=1))).shapes
    drawn = {shape.label[0].text: ([text.text for text in shape.label[1:]], shape.look.dash)
             for shape in shapes if shape.kind == "module"}
    assert drawn["pooler: Sequential"] == (["unused"], "dotted")
    data = data_of(recording, depth=1)
    strings, items = data["strings"], data["items"]
    for item, label in enumerate(items["label"]):
        title, *rest = (strings[text] for text, _ in data["labels"][label])
        look = data["looks"][items["look"][item]]["light"]
        if title in drawn:
            lines, dash = drawn.pop(title)
            assert look["dash"] == dash and ("unused" in rest) == ("unused" in lines), title
    assert not drawn
