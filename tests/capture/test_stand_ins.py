"""What ``node.fn`` and `LiveModules` give once the model is gone."""

from __future__ import annotations

import gc
import weakref

import torch
from torch import nn

import torchrecorder


class Net(nn.Module):
    """Two layers, one without bias, and a buffer."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        """One after the other."""
        return self.norm(self.conv(x))


def test_a_styler_gets_the_layers_of_a_deleted_model():
    """As scripts of 1.x do: the model is a temporary of the call that records it."""
    seen = {}

    class Styler(torchrecorder.GraphvizStyler):
        def style_node(self, node):
            seen[node.name] = node.fn
            return super().style_node(node)

    recording = torchrecorder.record(Net(), input_shapes=(1, 3, 8, 8))
    gc.collect()
    torchrecorder.make_dot(recording, styler_cls=Styler)
    conv, norm = seen["conv"], seen["norm"]
    assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
    assert (conv.in_channels, conv.kernel_size, conv.bias) == (3, (3, 3), None)
    assert conv.weight.is_meta and conv.weight.shape == (4, 3, 3, 3)
    assert norm.eps == 1e-5 and norm.running_mean.is_meta
    assert "kernel_size=(3, 3)" in repr(conv)


def test_the_living_model_itself_is_given():
    """As long as it lives."""
    model = Net()
    recording = torchrecorder.record(model, input_shapes=(1, 3, 8, 8))
    scope = next(scope for scope in recording.scopes.values() if scope.name == "conv")
    assert recording.live.fn(recording, scope.id) is model.conv


def test_stand_ins_keep_no_tensor_alive():
    """Neither parameters nor tensors in other attributes."""
    model = Net()
    model.held, model.listed = torch.ones(2), [torch.ones(3)]
    tensors = [weakref.ref(t) for t in (*model.parameters(), model.held, model.listed[0])]
    recording = torchrecorder.record(model, input_shapes=(1, 3, 8, 8))
    del model
    gc.collect()
    assert [tensor() for tensor in tensors] == [None] * len(tensors)
    assert recording.live.fn(recording, "s0").training is True
