"""The sweep notices what is wrong, and leaves out what does not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from tests.sweep import __main__ as program, facts
from tests.zoo.case import Run


def small() -> Run:
    """Two layers with a norm that depends on the mode."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    return Run(model, (torch.rand(5, 3),))


def without_gradient() -> Run:
    """A model whose result has none."""
    return Run(nn.Embedding(4, 2).requires_grad_(False), (torch.tensor([1, 2]),))


def broken() -> Run:
    """A model that is given what it does not take."""
    return Run(nn.Linear(3, 4), (torch.rand(5, 7),))


@pytest.mark.parametrize("make", [small, without_gradient])
def test_what_is_right(make: Any) -> None:
    """Nothing is found."""
    assert facts.forward_problems(make) == []
    assert facts.training_problems(make) == []


def test_a_recording_of_another_run_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The witness heard another call."""
    other = torchrecorder.record(nn.Sequential(nn.Linear(3, 2)), torch.rand(5, 3))
    monkeypatch.setattr(torchrecorder, "record", lambda *given: other)
    assert facts.forward_problems(small)


def test_a_recorder_that_changes_gradients_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws other random numbers for the dropout."""

    class Changing(torchrecorder.Recorder):
        def __enter__(self) -> Any:
            torch.manual_seed(7)
            return super().__enter__()

    def noisy() -> Run:
        return Run(nn.Sequential(nn.Linear(3, 4), nn.Dropout()), (torch.rand(5, 3),))

    assert facts.training_problems(noisy) == []
    monkeypatch.setattr(torchrecorder, "Recorder", Changing)
    assert facts.training_problems(noisy) == ["other gradients: 0.weight, 0.bias"]


def test_the_program_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each problem, numbers at the end, and an exit code."""

    def models() -> Iterator[Any]:
        yield from {"small": small, "broken": broken}.items()

    def wrong(make: Any) -> list[str]:
        raise ValueError("of the check")

    monkeypatch.setattr(program, "LIBRARIES", {"mine": models})
    assert program.main([]) == 0
    assert capsys.readouterr().out == "2 right, 0 wrong, 2 left out\n"
    monkeypatch.setattr(program, "CHECKS", {"forward": wrong})
    assert program.main(["mine", "--only", "sm"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("mine small, forward: ") and "of the check" in said
    assert said.endswith("0 right, 1 wrong, 0 left out\n")
    with pytest.raises(SystemExit):
        program.main(["yours"])
    assert "no such library: yours" in capsys.readouterr().err
