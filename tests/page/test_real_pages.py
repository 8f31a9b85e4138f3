"""Pages of real architectures: everything is in them, and adds up."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import torchrecorder
from tests import real_models
from tests.page.test_data import Page, data_of
from torchrecorder.export.html import embedded
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Models may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", real_models.available())
def test_everything_is_in_the_page(name: str) -> None:
    """All ops that a figure of every op shows, all weights, and enough to place them."""
    run: Any = real_models.make(name)
    recording = torchrecorder.record(run.model, run.args, run.kwargs)
    data = json.loads(embedded(data_of(recording)))
    page = Page(data)
    _has_every_op(page, recording)
    if isinstance(run.model, torch.nn.Module) and recording.modules:
        # Lazy modules have counted now; what is tied counts once.
        weights = sum(each.numel() for each in run.model.parameters())
        roots = [item for item, around in enumerate(page.items["parent"]) if around == -1]
        counts = [each for each in data["annotations"] if each["key"] == "parameters"]
        found = max((column["values"][root] or 0 for column in counts for root in roots), default=0)
        assert found == weights
    scopes = [number for number in page.items["template"] if number >= 0]
    assert set(scopes) | {data["root"]} == set(range(len(data["templates"])))


def _has_every_op(page: Page, recording: Recording) -> None:
    view = make_view(recording, ViewOptions(fold=False, depth=sys.maxsize))
    drawn = {box for box in view.boxes if box in recording.ops}
    assert drawn == {item for item in page.items["id"] if item in recording.ops}
