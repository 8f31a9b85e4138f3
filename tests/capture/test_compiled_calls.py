"""The calls that are made again, compiled: in the modes of PyTorch that were around them."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.overrides import BaseTorchFunctionMode

import torchrecorder as tr
from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder
from torchrecorder.events import COMPILED_GRAPH

pytest.importorskip("torch._dynamo")


class Asking(nn.Module):
    """Breaks its graph with what it is told of the modes around it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.heard = []

    def forward(self, x):
        """Run."""
        result = self.linear(x)
        new = torch.zeros(1)
        torch._dynamo.graph_break()
        self.heard.append((result.dtype, new.device.type, result.requires_grad))
        return result


MODES = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "half": lambda: torch.autocast("cpu", torch.float16),
    "device": lambda: torch.device("meta"),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "none": contextlib.nullcontext,
}


@pytest.mark.parametrize("mode", MODES)
def test_a_call_is_made_again_as_it_was_made(mode):
    """The model hears the same of the modes around it both times."""
    model, x = Asking(), torch.ones(2, 4)
    with tr.Recorder(model, compiled=True) as recorder:
        with MODES[mode]():
            model(x)
    first, second = model.heard
    assert first == second
    assert len(recorder.recording.compiled_graphs) >= 1
    assert not torch.is_autocast_enabled("cpu") and torch._C._len_torch_function_stack() == 0


def test_modes_outside_of_the_block_are_entered_once():
    """What is still around the second run is not entered again."""
    model = Asking()
    with torch.device("meta"), torch.autocast("cpu", torch.bfloat16):
        with tr.Recorder(model, compiled=True):
            model(torch.ones(2, 4, device="cpu"))
        assert torch._C._len_torch_function_stack() == 1
    assert model.heard == [(torch.bfloat16, "meta", True)] * 2


def test_modes_outside_of_the_block_leave_those_in_it():
    """Each is entered where the call had it."""
    model = Asking()
    with BaseTorchFunctionMode(), tr.Recorder(model, compiled=True), torch.device("meta"):
        model(torch.ones(2, 4, device="cpu"))
    assert model.heard == [(torch.float32, "meta", True)] * 2


def _compiled_in_place(net):
    net.compile(backend="eager")
    return net


def _called_by_compiled_function(net):
    return torch.compile(lambda x: net(x).tanh(), backend="eager")


@pytest.mark.parametrize("made", [_compiled_in_place, _called_by_compiled_function])
def test_of_a_program_that_compiles(made):
    """A recorder that ends in the middle of what the program compiles finds the same graphs."""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    program = made(net)
    with DeferredRecorder(lambda module, frame: module is net, 1, {"compiled": True}) as awaited:
        results = [program(torch.ones(2, 4)) for _ in range(2)]
    assert torch.equal(*results)
    (graph,) = awaited.recording.compiled_graphs
    assert graph.calls == 2 and graph.unmatched == ()
    torch._dynamo.reset()


class Otherwise(nn.Module):
    """Runs other lines when it is compiled: the first in another function, the rest in a loop."""

    def __init__(self, times=2):
        super().__init__()
        self.times = times

    def forward(self, x):
        """Run."""
        x = x.sin()
        if torch.compiler.is_compiling():
            x = x.unsqueeze(0).exp()
            for _ in range(2):
                x = x.cos()
        else:
            x = unsqueezed(x).exp()
            for _ in range(self.times):
                x = x.cos()
        return x.tanh()


def unsqueezed(x):
    """As one line of the model does it, when that is compiled."""
    return x.unsqueeze(0)


@pytest.mark.parametrize(("times", "unmatched"), [(2, ()), (3, ("cos", "cos"))])
def test_other_lines_when_compiled(times, unmatched):
    """Calls on other lines are ops where there are as many, of the same shapes, in between."""
    recording = tr.record(Otherwise(times), torch.ones(3), compiled=True)
    (graph,) = recording.compiled_graphs
    assert tuple(each.name for each in graph.unmatched) == unmatched
    numbers = recording.measured[COMPILED_GRAPH]
    graphs = {op.name: numbers.get(op.id) for op in recording.ops.values()}
    assert graphs == dict.fromkeys(("sin", "unsqueeze", "exp", "tanh"), 1) | {
        "cos": None if unmatched else 1
    }
