"""Full backward hooks: the custom function in which PyTorch wraps their module is not drawn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.events import ScopeId
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.views.auto_depth import max_depth
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View

NAME = "BackwardHookFunction"


def block(channels: int) -> nn.Module:
    """A convolution, a norm and an activation."""
    return nn.Sequential(nn.Conv2d(channels, 2, 3), nn.BatchNorm2d(2), nn.ReLU())


def recorded(*, hooks: bool, grad: bool = False, model: nn.Module | None = None) -> Recording:
    """A training step of blocks and of a layer, each with hooks or none with."""
    model = model or nn.Sequential(block(1), block(2), nn.Flatten(), nn.Linear(2, 3), nn.Tanh())
    for module in model.modules() if hooks else ():
        if not [*module.children()]:
            module.register_full_backward_hook(lambda module, given, made: None)
    x = torch.ones(2, 1, 5, 5, requires_grad=grad)
    with torchrecorder.Recorder(model) as recorder:
        model(x).sum().backward()
    return recorder.recording


def looks(recording: Recording, **options: Any) -> list[tuple[object, ...]]:
    """What each box of a figure says, its colors, and the boxes that its arrows lead to."""
    view = make_view(recording, ViewOptions(**options))
    figure = draw(view)
    texts = {shape.id: "\n".join(text.text for text in shape.label) for shape in figure.shapes}
    arrows = sorted((texts[arrow.tail], texts[arrow.head]) for arrow in view.arrows)
    return [(texts[shape.id], shape.look) for shape in figure.shapes] + arrows


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("options", [{}, {"depth": 1}, {"depth": "ops"}, {"fold": False}])
def test_figures_are_those_without_hooks(options: dict[str, Any], grad: bool) -> None:
    """So are tables: layers stay closed, and have their colors and what they consist of."""
    plain, hooked = (recorded(hooks=hooks, grad=grad) for hooks in (False, True))
    assert NAME in {scope.cls for scope in hooked.scopes.values()}
    assert looks(hooked, **options) == looks(plain, **options)
    assert str(hooked.summary()) == str(plain.summary())


def test_one_layer_stays_closed() -> None:
    """Also as the whole model; it opens if all operations are drawn."""
    layer = nn.Conv2d(1, 3, 5)
    plain = recorded(hooks=False, model=layer)
    hooked = recorded(hooks=True, grad=True, model=layer)
    assert looks(hooked) == looks(plain) and max_depth(hooked) == max_depth(plain)
    assert NAME not in torchrecorder.make_dot(hooked, depth=9).source
    assert NAME in torchrecorder.make_dot(hooked, depth=9, queries=True).source
    assert NAME in str(hooked.summary(ops=True))


def test_in_the_backward_view_their_nodes_are_in_the_module() -> None:
    """The hooks run in these nodes, which have a place in the order; no frame is around them."""
    plain, hooked = (
        make_view(recorded(hooks=hooks, grad=True), ViewOptions(view="backward", depth=9))
        for hooks in (False, True)
    )

    def frames(view: View) -> list[str]:
        return sorted(view.recording.scopes[ScopeId(item)].path for item in view.clusters
                      if item in view.recording.scopes)

    assert frames(hooked) == frames(plain)
    nodes = [grad for grad in hooked.recording.grad_nodes.values() if grad.name.startswith(NAME)]
    around = {hooked.recording.scopes[ScopeId(str(hooked.boxes[grad.id].cluster))].cls
              for grad in nodes}
    assert around == {"Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear", "Tanh"}
