"""Questions about one name after another: what all need is computed once for a recording."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.work import growth
from torchrecorder.errors import NotThere
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def chain(number: int) -> Recording:
    """A model with so many layers, each with a weight."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for place in range(number):
            with run.scope(f"fc{place}", "Linear"):
                x = run.op("linear", x, run.parameter("weight"))
    return run.recording()


def each_layer(recording: Recording) -> list[str]:
    """The names of the layers."""
    return [scope.path for scope in recording.scopes.values() if scope.path]


@pytest.mark.parametrize(
    "ask",
    [
        lambda recording, layer: recording[layer],
        lambda recording, layer: recording.find(f"{layer}.weight"),
        lambda recording, layer: recording.find(f"{layer}: linear"),
        lambda recording, layer: layer in recording,
    ],
)
def test_names_are_looked_up(ask: Callable[[Recording, str], Any]) -> None:
    """The second name is not searched among all parts again."""
    def asking(number: int) -> Callable[[], Any]:
        recording = chain(number)
        return lambda: [ask(recording, layer) for layer in each_layer(recording)]

    assert all(asking(3)())
    assert growth(asking, 16) < 2.2


def test_gradients_that_arrived_are_listed_once() -> None:
    """A loop over all parameters, which have gradients, is no search of the run for each."""
    import torch

    import torchrecorder

    def asking(number: int) -> Callable[[], Any]:
        model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(number)))
        recording = torchrecorder.record(model, torch.ones(1, 2), backward=True)
        names = [name for name, _ in model.named_parameters()]
        return lambda: [recording.why_no_gradient(name) for name in names]

    assert asking(2)() == [None] * 4
    assert growth(asking, 16) < 2.2


def test_updates_are_listed_once() -> None:
    """Nor is one for the updates of all parameters, of which an optimizer leaves out half."""
    import torch

    import torchrecorder

    def asking(number: int) -> Callable[[], Any]:
        model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(number)))
        optimizer = torch.optim.SGD(model[: number // 2].parameters(), lr=0.1)
        with torchrecorder.Recorder(model) as recorder:
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        names, recording = [name for name, _ in model.named_parameters()], recorder.recording
        return lambda: [recording.why_no_update(name) for name in names]

    reasons = [found.reason if found is not None else None for found in asking(2)()]
    assert reasons == [None, None, "left out", "left out"]
    assert growth(asking, 16) < 2.2


def test_parts_that_a_pattern_matches_are_in_run_order() -> None:
    """Also where a later one has the name of an earlier one; each is listed once."""
    run = Builder("Net")
    with run.scope("Net"):
        for name in ("add", "addmm", "add", "mul"):
            run.op(name, run.input("x"))
    found = run.recording().find("add*")
    assert [part.id for part in found] == ["o0", "o1", "o2"]


def test_a_copy_has_its_own_names() -> None:
    """A copy with other scopes finds these; nothing of the search is saved."""
    recording = chain(2)
    assert recording["fc1"].id == "m2"
    scopes = {id: scope.replace(cls="Other") for id, scope in recording.scopes.items()}
    other = replace(recording, scopes=scopes)
    assert [*recording.find("Linear")] and not recording.find("Other")
    assert {part.id for part in other.find("Other")} == {*scopes}
    assert {*vars(pickle.loads(pickle.dumps(other)))} == {*other.__getstate__()}
    with pytest.raises(NotThere):
        recording["Other"]
