"""Which call of its module a box is: shown once, where it is new."""

from __future__ import annotations

import torch
from torch import nn

import torchrecorder
from torchrecorder.export.table.rows import every_row
from torchrecorder.style.weights import Weights


class Shared(nn.Module):
    """Calls a part twice, and another once, in each of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.often = nn.Sequential(nn.Linear(3, 3))
        self.once = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.once(self.often(self.often(x)))  # type: ignore[no-any-return]


def call_numbers(calls: int) -> list[tuple[str, str]]:
    """The path of each call of a module with weights, and the text of its number."""
    model, x = Shared(), torch.ones(1, 3)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(calls):
            x = model(x)
    recording = recorder.recording
    weights = Weights(recording)
    found = [(scope.path, weights.call(scope)) for scope in recording.scopes.values()]
    notes = {row.ids[0]: row.notes for row in every_row(recording)}
    assert [notes[scope.id][:1] for scope in recording.scopes.values()] == [
        (text,) if text else () for _, text in found
    ]
    return found


def test_a_part_that_is_called_more_often_than_its_model() -> None:
    """The layer in it says nothing: it is called as often as what it is in."""
    assert call_numbers(1) == [
        ("", ""), ("often", "call 1 of 2"), ("often.0", ""), ("often", "call 2 of 2"),
        ("often.0", ""), ("once", ""),
    ]


def test_a_model_that_is_called_twice() -> None:
    """Its part that runs once in each call says nothing; the other counts its own calls."""
    assert call_numbers(2) == [
        ("", "call 1 of 2"), ("often", "call 1 of 4"), ("often.0", ""), ("often", "call 2 of 4"),
        ("often.0", ""), ("once", ""),
        ("", "call 2 of 2"), ("often", "call 3 of 4"), ("often.0", ""), ("often", "call 4 of 4"),
        ("often.0", ""), ("once", ""),
    ]
