"""What is compiled elsewhere runs eagerly while it is recorded, and the recording says so."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.errors import Notice


def other_backend(graph, inputs):
    """A backend that is not PyTorch's own."""
    return graph.forward


@torch.compile(backend="aot_eager")
def loss_of(output, target):
    """A compiled function outside of the model."""
    return (output - target).pow(2).mean()


def test_in_a_training_step():
    """A note and a warning name the function; its operations are recorded."""
    model = nn.Linear(2, 2)
    with pytest.warns(Notice, match="loss_of ran eagerly .* compiled by aot_eager"):
        with torchrecorder.Recorder(model) as recorder:
            loss_of(model(torch.ones(1, 2)), torch.zeros(1, 2)).backward()
    recording = recorder.recording
    (note,) = recording.run.notes
    assert note == (
        "loss_of ran eagerly while it was recorded, and not as compiled by aot_eager: "
        "numbers may differ in their last bits"
    )
    assert {"sub", "pow", "mean"} <= {op.name for op in recording.ops.values()}


@pytest.mark.parametrize("tracked", [True, False])
def test_numbers_are_those_of_the_eager_run(tracked):
    """Bit for bit, whatever the backend would make of it, with and without gradients."""
    wrong = torch.compile(lambda x: x.sin() * 3, backend=lambda graph, inputs: lambda *x: x)
    x = torch.ones(3)
    with pytest.warns(Notice, match="<lambda> ran eagerly"):
        with torchrecorder.Recorder(), torch.set_grad_enabled(tracked):
            y = wrong(x)
    assert torch.equal(y, x.sin() * 3)


def test_a_look_only_notes():
    """`record` warns of nothing, as no numbers are kept of it; modules have their class names."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(model, backend=other_backend)
        recording = torchrecorder.record(compiled, torch.ones(1, 2))
    (note,) = recording.run.notes
    assert note.startswith("Sequential ran eagerly") and "by other_backend" in note


def test_an_object_has_its_own_name():
    """Not that of the function whose signature it shows, as tools
    that imitate a function set it."""
    class Doubles:
        __wrapped__ = staticmethod(loss_of)

        def __call__(self, x):
            return x * 2

    compiled = torch.compile(Doubles(), backend=other_backend)
    with pytest.warns(Notice, match="^Doubles ran eagerly"), torchrecorder.Recorder():
        compiled(torch.ones(2))


def test_the_eager_backend_is_not_reported():
    """It gives the same numbers."""
    double = torch.compile(lambda x: x * 2, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torchrecorder.Recorder() as recorder:
            double(torch.ones(2))
    assert recorder.recording.run.notes == ()


CODE = """
import sys, torch, torchrecorder
with torchrecorder.Recorder() as recorder:
    assert "torch._dynamo" not in sys.modules
    torch.compile(lambda x: x.sin(), backend="inductor")(torch.ones(2))
(note,) = recorder.recording.run.notes
assert "compiled by inductor" in note, note
"""


def test_a_compiler_that_is_imported_meanwhile():
    """The first use of it may be inside the block."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], check=True)
