"""Errors that the program caught, and the one that ended the run."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests.zoo.case import net


class Broken(torch.autograd.Function):
    """Its backward pass fails."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, given):
        raise ValueError("no gradient here")


def broken(self, x):
    return Broken.apply(self.layer(x))


def stopping(self, x):
    raise KeyError("first")


def texts(recording: tr.Recording, depth: int = 9) -> dict[str, str]:
    """The lines below the titles of red boxes, by title."""
    shapes = tr.figure(recording, depth=depth).shapes
    red = [shape.label for shape in shapes if shape.look.bold]
    return {title.text: " ".join(line.text for line in lines) for title, *lines in red}


def test_a_backward_pass_that_the_program_caught():
    """It is red; the run did not fail, so that nothing in the forward pass is."""
    model = net(broken, layer=nn.Linear(4, 4))
    with tr.Recorder(model) as recorder:
        with contextlib.suppress(ValueError):
            model(torch.rand(2, 4)).sum().backward()
    recording = recorder.recording
    assert recording.run.failure is None
    assert [op.name for op in recording.ops.values() if op.failed] == ["backward"]
    assert texts(recording) == {"backward": "failed"}


def test_each_error_is_told_where_it_was_raised():
    """A later error is not that of a module or backward pass of which the program caught one."""
    model = net(broken, layer=nn.Linear(4, 4))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as raised:
        with tr.Recorder(model):
            with contextlib.suppress(ValueError):
                model(torch.rand(2, 4)).sum().backward()
            with contextlib.suppress(KeyError):
                net(stopping)(torch.rand(2))
            model(torch.rand(2, 3))
    recording = tr.recording_of(raised.value)
    assert recording is not None
    found = texts(recording)
    assert "mat1 and mat2 shapes cannot be multiplied" in found.pop("linear")
    assert found == {"backward": "failed", "Net": "failed"}


def failed_inside() -> tr.Recording:
    """A run of a module whose forward runs the backward pass of another, which fails."""

    def forward(self, x):
        self.inner(x).sum().backward()

    model = net(forward, inner=net(broken, layer=nn.Linear(4, 4)))
    with pytest.raises(ValueError, match="no gradient") as raised:
        tr.record(model, torch.rand(2, 4))
    recording = tr.recording_of(raised.value)
    assert recording is not None
    return recording


def test_a_backward_pass_inside_a_module():
    """The operation has the error, and so have closed modules around the pass; its call has not."""
    recording = failed_inside()
    line = Broken.backward.__code__.co_firstlineno + 2
    error = f"in backward: ValueError at test_caught_errors.py:{line}: no gradient here"
    assert texts(recording) == {"mul": f"× 2 {error}", "backward": "failed"}
    assert texts(recording, depth=0)["Net"].endswith(error)


@pytest.mark.parametrize("part", ["inner", "inner.layer"])
@pytest.mark.parametrize("suffix", ["svg", "html", "txt"])
def test_a_part_of_a_run_that_failed_in_backward(part: str, suffix: str, tmp_path: Path) -> None:
    """It is drawn, with the error if that was raised there; the call of the pass is elsewhere."""
    path = failed_inside().render(tmp_path / f"part.{suffix}", focus=part)
    if part == "inner" and suffix != "txt":
        assert "no gradient here" in path.read_text(encoding="utf-8")
