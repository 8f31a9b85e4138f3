"""The note on the user's exception names the module and the line that raised; and warnings."""

from __future__ import annotations

import traceback

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.capture.hooks.source import PACKAGE
from torchrecorder.errors import Notice


class Breaks(torch.autograd.Function):
    """A function whose backward raises."""

    @staticmethod
    def forward(ctx, x):
        """Doubles."""
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        """Raises."""
        raise ValueError("no gradient today")  # raised in backward


class Inner(nn.Module):
    """Calls the function."""

    def forward(self, x):
        """And adds one."""
        return Breaks.apply(x) + 1


def pick(table, key):
    """Raises outside of every operation."""
    return table[key]  # raised in a helper


class Picks(nn.Module):
    """Raises in a helper function, after an operation."""

    def forward(self, x):
        """Doubles before it raises."""
        y = x * 2
        return pick({}, "a") + y


def line_of(comment):
    """The number of the line in this file that ends with a comment."""
    with open(__file__, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if line.endswith(f"# {comment}\n"))


def note_of(model, **options):
    """The note on what *model* raises."""
    with pytest.raises((ValueError, KeyError)) as caught:
        torchrecorder.record(model, torch.ones(2, 3), **options)
    (note,) = caught.value.__notes__
    return note


def test_custom_function_that_fails_in_backward_is_in_its_module():
    """With the module's path, the function, and the line that raised."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), Inner()))
    note = note_of(model, backward=True)
    assert "made by `1.1` (Inner), autograd.Function `Breaks`, op `mul`" in note
    assert f"test_notes.py:{line_of('raised in backward')}, made by" in note


def test_the_line_that_raised_is_reported_not_the_callers():
    """Where no operation failed."""
    note = note_of(nn.Sequential(Picks()))
    assert note.startswith("torchrecorder: while running `0` (Picks), at ")
    assert note.endswith(f"test_notes.py:{line_of('raised in a helper')}")


def test_a_backward_that_fails_in_pytorch_names_no_line_of_backward():
    """Only the line that called the op whose gradient is missing; and those at fault."""
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError) as caught, torchrecorder.Recorder():
        y = x.exp()
        y.detach().mul_(2)
        y.add_(1)
        y.sum().backward()
    note, cause = caught.value.__notes__
    assert "ExpBackward0" in note and "raised at" not in note
    assert "exp() at" in cause and "mul_() at" in cause and "(and 1 more)" in cause


def test_a_failure_that_was_handled_is_not_the_one_that_ends_the_run():
    """One in backward says nothing of one in forward after it, nor the other way round."""
    x = torch.ones(3, requires_grad=True)
    picks, inner = nn.Sequential(Picks()), nn.Sequential(Inner())
    with pytest.raises(KeyError) as caught, torchrecorder.Recorder():
        with pytest.raises(ValueError):
            inner(x).sum().backward()
        picks(x)
    recording = torchrecorder.recording_of(caught.value)
    failure = recording.run.failure
    assert failure.error == "KeyError" and not failure.backward
    assert failure.op is failure.grad is None
    assert recording.scopes[failure.scope].cls == "Picks"
    with pytest.raises(ValueError) as caught, torchrecorder.Recorder():
        with pytest.raises(KeyError):
            picks(x)
        inner(x).sum().backward()
    recording = torchrecorder.recording_of(caught.value)
    failure = recording.run.failure
    assert failure.backward and recording.ops[failure.op].name == "mul"
    assert recording.grad_nodes[failure.grad].name == "BreaksBackward"


@pytest.mark.parametrize("blocking", ["", "1"])
def test_errors_of_kernels_may_come_late(monkeypatch, blocking):
    """The note says so, and how to find the operation."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", blocking)

    def forward(x):
        x = x.exp()
        raise RuntimeError("CUDA error: device-side assert triggered\nCompile with ...")

    with pytest.raises(RuntimeError) as caught:
        torchrecorder.record(forward, torch.ones(2))
    (note,) = caught.value.__notes__
    assert note.startswith("torchrecorder: while running `forward`")
    assert ("with CUDA_LAUNCH_BLOCKING=1 in the environment" in note) == (blocking != "1")


class Yields(torch.nn.Module):
    """Gives its results one by one."""

    def forward(self, x):
        for _ in range(2):
            x = x.exp()
            yield x


class Waits(torch.nn.Module):
    """Gives its result to those who await it."""

    async def forward(self, x):
        return x.exp()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("model, kind", [(Yields(), "generator"), (Waits(), "coroutine")])
def test_what_runs_later_is_not_recorded(model, kind):
    """A warning says so, and what to do."""
    with pytest.warns(Notice, match=f"the result is a {kind}.*record a function that does this"):
        recording = torchrecorder.record(model, torch.ones(2))
    assert not recording.ops
    recording = torchrecorder.record(lambda x: list(Yields()(x)), torch.ones(2))
    assert [op.name for op in recording.ops.values()] == ["exp", "exp"]


class Flattens(nn.Module):
    """Fails in a torch function, and raises an error of its own from that."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        """Expects three features."""
        try:
            return self.norm(x)
        except RuntimeError as error:
            raise ValueError("three features, please") from error


def files_and_lines(error):
    """Of the traceback, without PyTorch's frames, of which a run with hooks has others."""
    frames = traceback.extract_tb(error.__traceback__)
    return [(frame.filename, frame.line) for frame in frames if frame.filename == __file__]


def files(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def test_tracebacks_have_the_frames_of_the_program():
    """Also those of the cause."""
    model = Flattens()

    def run():
        model(torch.ones(2, 4))

    with pytest.raises(ValueError, match="three") as plain:
        run()
    with pytest.raises(ValueError, match="three") as found, torchrecorder.Recorder(model):
        run()
    for error, without in (
        (found.value, plain.value), (found.value.__cause__, plain.value.__cause__),
    ):
        assert not [file for file in files(error) if file.startswith(PACKAGE)]
        assert files_and_lines(error)[-1:] == files_and_lines(without)[-1:]
        assert files(error)[-1] == files(without)[-1]


def test_errors_of_the_package_keep_their_frames(tmp_path):
    """As those of a file that the program reads."""
    with pytest.raises(FileNotFoundError) as found, torchrecorder.Recorder():
        torchrecorder.load(tmp_path / "missing.json")
    assert [file for file in files(found.value) if file.startswith(PACKAGE)]
