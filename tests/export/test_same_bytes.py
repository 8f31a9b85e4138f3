"""Two runs of the same model write the same bytes in every format."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.export import EXPORTERS


def recorded():
    """One training step, with everything measured."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    return torchrecorder.record(model, torch.ones(2, 3), backward=True, stats=True, flops=True)


SHOWN: list[dict[str, Any]] = [{}, {"grad_nodes": True, "depth": 9}, {"view": "backward"}]


def _options(exporter):
    return {"times": False} if "times" in {one.name for one in fields(exporter)} else {}


@pytest.mark.filterwarnings("ignore:.* no effect on .json")
@pytest.mark.parametrize("shown", SHOWN, ids=str)
@pytest.mark.parametrize("exporter", EXPORTERS, ids=lambda exporter: exporter.suffix)
def test_two_runs_write_the_same_bytes(exporter, shown, tmp_path):
    """Without times where the format holds them; figures hold none, nor do autograd's nodes."""
    paths = [tmp_path / f"{number}{exporter.suffix}" for number in range(2)]
    for path in paths:
        recorded().render(path, **shown, **_options(exporter))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_times_are_written_unless_they_are_left_out(tmp_path):
    """In GraphML and node-link JSON, as in the others that hold them."""
    recording = recorded()
    for suffix in (".graphml", ".nodelink.json"):
        texts = {}
        for times in (True, False):
            path = recording.render(tmp_path / f"{times}{suffix}", times=times)
            texts[times] = path.read_text()
        assert "forward_time" in texts[True] and "forward_time" not in texts[False]
        assert "parameter_bytes" in texts[False]
