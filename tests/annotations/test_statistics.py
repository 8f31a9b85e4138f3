"""Statistics of tensors and gradients, on request."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from torchrecorder.capture.record import record
from torchrecorder.select.focus import Focus


@pytest.mark.parametrize("part", [("1", None, None), (None, "1", None), (None, None, "1")])
def test_a_part_has_the_statistics_of_what_is_in_it(
    part: tuple[str | None, ...], tmp_path: Path
) -> None:
    """Pages and files with numbers of a part of a run need no nodes from outside."""
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    recording = record(layers, torch.rand(2, 4), backward=True, stats=True)
    found = Focus(*part)(recording)
    assert 0 < len(found.statistics) < len(recording.statistics)
    assert {one.node for one in found.statistics} <= {*found.values, *found.grad_nodes}
    chosen = dict(zip(("focus", "since", "until"), part))
    for name in ("page.html", "run.graphml"):
        assert recording.render(tmp_path / name, **chosen).stat().st_size > 0
