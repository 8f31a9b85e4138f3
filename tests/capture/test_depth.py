"""Up to a thousand modules inside each other: whatever PyTorch can run is recorded and drawn."""

from __future__ import annotations

import contextlib
import sys
import warnings

import pytest
import torch
from torch import nn

import torchrecorder
from tests.structure import structure
from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.tape import Tape


class Level(nn.Module):
    """A module that calls the next."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x if self.inner is None else self.inner(x) + 1


def _nested(levels):
    model = None
    for _ in range(levels):
        model = Level(model)
    return model


@contextlib.contextmanager
def _limit(frames):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _runs(levels):
    try:
        with _limit(8 * levels):
            _nested(levels)(torch.ones(1))
    except RecursionError:
        return False
    return True


LEVELS = next(filter(_runs, (1000, 150)))
"""Python 3.12 has a limit of its own for calls from C, as of a module, which nobody can raise."""


def _least(model, x):
    """The lowest recursion limit under which PyTorch runs the model."""
    low, high = 2 * LEVELS, 8 * LEVELS
    while high - low > 1:
        middle = (low + high) // 2
        try:
            with _limit(middle):
                model(x)
            high = middle
        except RecursionError:
            low = middle
    return high


@pytest.mark.parametrize("options", [{}, {"backward": True}])
def test_what_runs_is_recorded(options, monkeypatch):
    """Under the lowest limit at which the model runs at all, it is recorded whole."""
    monkeypatch.setattr(Tape, "strict", True)
    model, x = _nested(LEVELS), torch.ones(1, requires_grad=True)
    least = _least(model, x)
    with _limit(least):
        recording = torchrecorder.record(model, x, **options)
        assert sys.getrecursionlimit() == least
    assert len(recording.scopes) == LEVELS
    assert [op.name for op in recording.ops.values()].count("add") == LEVELS - 1
    assert structure(recording) == []


def test_what_is_recorded_is_drawn(tmp_path):
    """With no more than the usual limit: closed, a little open, all open, saved and loaded."""
    with _limit(8 * LEVELS):
        recording = torchrecorder.record(_nested(LEVELS), torch.ones(1))
    assert sys.getrecursionlimit() < 8 * LEVELS
    for suffix, depth in (("svg", None), ("svg", 3), ("dot", LEVELS), ("txt", 3), ("json", None)):
        path = tmp_path / f"model.{suffix}"
        recording.render(path, depth=depth)
        assert path.stat().st_size > 0
    text = (tmp_path / "model.dot").read_text()
    assert text.count("subgraph") >= LEVELS - 1
    torchrecorder.save(recording, tmp_path / "saved.json.gz")
    assert torchrecorder.load(tmp_path / "saved.json.gz") == recording


def test_a_model_without_end():
    """Endless recursion is the user's own error, as without us; the limit is as before."""

    class Endless(nn.Module):
        def forward(self, x):
            return self(x)

    before = sys.getrecursionlimit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # instruments may have lost something at the very end
        with pytest.raises(RecursionError):
            torchrecorder.record(Endless(), torch.ones(1))
    assert sys.getrecursionlimit() == before


def test_the_programs_own_limit_stays():
    """A limit that the program sets inside the block is the one it has afterwards."""
    before = sys.getrecursionlimit()
    try:
        with Recorder():
            sys.setrecursionlimit(before + 77)
            with Recorder():
                pass
        assert sys.getrecursionlimit() == before + 77
    finally:
        sys.setrecursionlimit(before)
