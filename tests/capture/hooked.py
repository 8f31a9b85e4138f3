"""A small model whose gradients have hooks, a step of it, and what its recording says of them."""

import torch
from torch import nn

import torchrecorder as tr
from torchrecorder.events import OpKind


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def inputs():
    return torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()


def recorded(model, run):
    """The recording of a step that *run* makes."""
    with tr.Recorder(model if isinstance(model, nn.Module) else None) as recorder:
        run(model)
    recording = recorder.recording
    assert not recording.run.lost
    return recording


def step(model):
    model(inputs()).square().sum().backward()


def called(recording, name):
    """The calls of this function, in the order of the run."""
    ops = recording.ops.values()
    return [op for op in ops if op.name == name and op.kind is OpKind.CALLED]


def maker(recording, op, place=0):
    """The operation that made an input of *op*, seen through aliases."""
    made = recording.ops[recording.values[op.inputs[place].value].producer]
    return maker(recording, made) if made.kind is OpKind.PASS else made


def on_parameters(model, hook):
    for parameter in model.parameters():
        parameter.register_hook(hook)
