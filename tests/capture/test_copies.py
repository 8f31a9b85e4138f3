"""What Python copies while a model runs."""

from __future__ import annotations

import copy

import torch
from torch import nn

import torchrecorder

from tests.notation import flow
from tests.zoo.case import net


def test_module_that_is_copied():
    """The weights of a copy come from those of the module; they were not there before."""

    def forward(self, x):
        return copy.deepcopy(self.fc)(x) + self.fc(x)

    recording = torchrecorder.record(net(forward, fc=nn.Linear(3, 3)), torch.ones(2, 3))
    assert flow(recording).splitlines() == [
        "transfer deepcopy:",
        "    data = data(fc.weight)",
        "    clone = clone(data)",
        "    data2 = data(fc.bias)",
        "    clone2 = clone(data2)",
        "    return",
        "alias = alias(clone)",
        "alias2 = alias(clone2)",
        "Linear:",
        "    linear = linear(x, alias, alias2)",
        "    return linear",
        "fc:",
        "    linear2 = linear(x, fc.weight, fc.bias)",
        "    return linear2",
        "add = add(linear, linear2)",
        "return add",
    ]
