"""What modules own, by their dotted paths."""

from __future__ import annotations


import torch
from torch import nn

import torchrecorder
from torchrecorder.annotations.parameter_owners import ParameterOwners
from torchrecorder.recording import Recording


def _paths(recording: Recording, path: str) -> list[str]:
    modules = recording.modules
    (asked,) = [each.id for each in modules.values() if path in each.names]
    return [modules[each].names[0] for each in ParameterOwners(recording).modules(asked)]


def test_what_only_begins_alike_is_not_below() -> None:
    """Neither a longer name nor one with a letter that sorts before the dot."""
    model = nn.Module()
    for name in ("a", "ab", "a-b", "a_b", "a0"):
        setattr(model, name, nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    model.forward = lambda x: model.a(x)  # type: ignore[method-assign]
    recording = torchrecorder.record(model, torch.ones(1, 2))
    assert _paths(recording, "a") == ["a", "a.0", "a.1"]
    assert _paths(recording, "a-b") == ["a-b", "a-b.0", "a-b.1"]
    assert len(_paths(recording, "")) == 16


def test_a_module_with_two_names_is_below_both() -> None:
    """And counts once."""
    model = nn.Module()
    model.one = nn.Sequential(nn.Linear(2, 2))
    model.two = nn.Sequential(model.one[0])
    model.forward = lambda x: model.two(model.one(x))  # type: ignore[method-assign]
    recording = torchrecorder.record(model, torch.ones(1, 2))
    assert _paths(recording, "one") == ["one", "one.0"]
    assert _paths(recording, "two") == ["one.0", "two"]
    assert recording.annotations["parameters"].total() == 6


class _Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.weight = inner, nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_deep_models_are_counted_once() -> None:
    """What lies below a module is found through every path around it, each weight once."""
    model: nn.Module = nn.ReLU()
    for _ in range(150):
        model = _Wrapped(model)
    recording = torchrecorder.record(model, torch.ones(1))
    assert recording.annotations["parameters"].of([recording.roots[0]]) == 150
