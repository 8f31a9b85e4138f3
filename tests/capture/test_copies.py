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


def test_the_state_of_a_model_is_copied_in_one_region():
    """A checkpoint that the program keeps is one step, not one for each weight."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def run(x):
        best = copy.deepcopy(model.state_dict())
        out = model(x)
        model.load_state_dict(best)
        return out

    recording = torchrecorder.record(run, torch.ones(2, 3))
    (copied,) = [scope for scope in recording.scopes.values() if scope.name == "deepcopy"]
    places = [op.scope for op in recording.ops.values() if op.name == "deepcopy"]
    assert places == [copied.id] * len(model.state_dict())


def test_a_dictionary_inside_of_what_is_copied_is_no_state_of_a_model():
    """The attributes of an object, and an item of a list."""

    class Cache:
        def __init__(self, keys):
            self.keys = keys

    def run(x):
        cache, (item,) = copy.deepcopy(Cache(x * 2)), copy.deepcopy([{"key": x * 3}])
        return cache.keys + item["key"]

    recording = torchrecorder.record(run, torch.ones(2, 3))
    assert [scope.name for scope in recording.scopes.values()] == ["run"]
    assert [op.name for op in recording.ops.values()].count("deepcopy") == 2
