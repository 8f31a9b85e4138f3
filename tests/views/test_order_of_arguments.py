"""Arrows into closed modules, in the order of the arguments."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.export.nested import Placed
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.views.pipeline import ViewOptions, make_view


class GraphConvolution(nn.Module):
    """Looks at a scale that it is not passed, then at the edges, then at the features."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = torch.ones(4)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Sums over neighbors."""
        scale, (source, target) = self.scale.abs(), edges.unbind()
        return torch.zeros_like(x).index_add(0, target, self.linear(x * scale)[source])


class GraphNetwork(nn.Module):
    """Two convolutions over the same edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(), GraphConvolution()

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Both, with an activation in between, and a scale that they look up."""
        self.first.scale = self.second.scale = x.mean(0)
        return self.second(self.first(x, edges).relu(), edges)


def recorded() -> Recording:
    """A run of the network."""
    arguments = torch.randn(3, 4), torch.tensor([[0, 1, 2], [1, 2, 0]])
    return torchrecorder.record(GraphNetwork(), arguments)


def test_a_closed_module_is_entered_in_the_order_of_its_arguments() -> None:
    """Not in the order in which its operations read them; what is no argument comes last."""
    closed = make_view(recorded(), ViewOptions(depth=1))
    entering: dict[str, list[str]] = {}
    for arrow in closed.arrows:
        if arrow.head in closed.recording.scopes:
            entering.setdefault(arrow.head, []).append(arrow.slot)
    assert [*entering.values()] == [["x", "edges", ""], ["x", "edges", ""]]


def test_the_features_come_before_the_edges() -> None:
    """The main flow is left of the line that passes by its boxes."""
    figure = draw(make_view(recorded(), ViewOptions(depth=1)))
    placed = Placed.lay_out(figure, 60.0)
    boxes = placed.boxes()
    x, edges = (boxes[shape.id] for shape in figure.shapes if shape.kind == "input")
    assert x.x < edges.x
    ends = [route[-1][0] for route in placed.routes()]
    into = {(line.head, line.tail): end for line, end in zip(figure.lines, ends)}
    tail = next(shape.id for shape in figure.shapes if shape.label[0].text == "edges")
    for head in {head for head, one in into if one == tail}:
        features = min(end for (box, _), end in into.items() if box == head)
        assert features < into[head, tail]
