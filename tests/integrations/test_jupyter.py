"""What a recording shows in a notebook."""

import pytest
import torch
from IPython.core.formatters import DisplayFormatter

import torchrecorder
from torchrecorder.errors import LayoutFailed
from torchrecorder.export.graphviz import Svg


@pytest.fixture
def recording():
    """A small run."""
    return torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))


def test_ipython_finds_the_figure(recording):
    """IPython's own formatter gets an SVG and a line of text."""
    data, _ = DisplayFormatter().format(recording)
    assert data["image/svg+xml"].startswith("<?xml")
    assert data["text/plain"] == "<Recording of Linear: 1 scopes, 1 ops, 4 values>"


def test_only_what_is_asked_for(recording):
    """A front end may include or exclude forms."""
    assert list(recording._repr_mimebundle_(include={"text/plain"})) == ["text/plain"]
    assert "image/svg+xml" not in recording._repr_mimebundle_(exclude={"image/svg+xml"})


def test_figure_too_large_is_closed(recording, monkeypatch):
    """If the layout takes too long, a simpler figure is shown, and at last only text."""
    monkeypatch.setattr(Svg, "export", _never)
    assert "image/svg+xml" not in recording._repr_mimebundle_()


def _never(*given):
    raise LayoutFailed("too slow")
