"""Where the tensors come from that an operation could not work with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests.query.test_failed_backward import argument, failed


def notes(model: Any, *args: Any) -> list[str]:
    """What is noted on the exception of a model that fails."""
    with pytest.raises(RuntimeError) as caught:
        tr.record(model, args)
    found: list[str] = caught.value.__notes__
    return found


class Joins(nn.Module):
    """Joins its input with what a layer makes of another size."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.up(x)[1:], x], 1)


def test_what_made_the_inputs() -> None:
    """The operation, with its module and line; inputs of the run and weights were not made."""
    place, cause = notes(Joins(), torch.ones(3, 4))
    assert "op `cat`" in place
    assert cause.startswith("torchrecorder: tensors.1 is the result of getitem() in Joins at ")
    assert "test_failed_inputs.py:" in cause and ";" not in cause


def test_nothing_is_shown_of_what_the_run_was_given() -> None:
    """One note, with the place."""
    assert len(notes(nn.Linear(4, 4), torch.ones(3, 5))) == 1


def test_nothing_is_stated_where_no_operation_failed() -> None:
    """An exception of the user's own."""
    class Refuses(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError(f"{x.exp().shape} is refused")

    assert len(notes(Refuses(), torch.ones(3))) == 1


def test_the_first_are_listed() -> None:
    """Each tensor once, and how many more there are."""
    def joins(x: torch.Tensor) -> torch.Tensor:
        parts = [x.exp() for _ in range(6)]
        return torch.stack([*parts, parts[0], x])[0] @ torch.stack([*parts, x.sum()])

    cause = notes(joins, torch.ones(3))[1]
    sentences = cause.split("; ")
    assert len(sentences) == 5 and sentences[-1] == "3 more"
    assert [text.rpartition("tensors.")[2].split()[0] for text in sentences[:4]] == [*"0123"]
    assert all("is the result of exp()" in text for text in sentences[:4])


def test_devices_that_differ_are_in_the_note():
    """Where all inputs of an operation are on one device, it is not said."""
    with pytest.raises(RuntimeError) as caught, tr.Recorder():
        torch.mm(torch.ones(2, 2), torch.ones(3, 2, device="meta"))
    note = caught.value.__notes__[0]
    assert "float32[2, 2] on cpu" in note and "float32[3, 2] on meta" in note
    assert " on cpu" not in failed(argument)[1].__notes__[0]
