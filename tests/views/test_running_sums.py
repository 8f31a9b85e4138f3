"""Sums that begin with the number 0 are part of all rounds of their loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import torchrecorder
from tests.views.loops import loops, made, name_of, recorded as of_loops, texts, view_of
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.style.unread import unread


def rounds(number: int = 4) -> Iterator[torch.Tensor]:
    """The loss of each round: of steps of training."""
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(number):
        loss = net(torch.rand(2, 3)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.detach()


def in_place() -> torch.Tensor:
    """The usual way."""
    total: torch.Tensor | int = 0
    for loss in rounds():
        total += loss
    assert isinstance(total, torch.Tensor)
    return total / 4


def new_each_time() -> torch.Tensor:
    """With a decimal point."""
    total: torch.Tensor | float = 0.0
    for loss in rounds():
        total = total + loss
    assert isinstance(total, torch.Tensor)
    return total / 4


def of_a_generator() -> torch.Tensor:
    """The program does not write the 0."""
    total = sum(rounds())
    assert isinstance(total, torch.Tensor)
    return total / 4


def of_a_tensor() -> torch.Tensor:
    """There is no number."""
    total = torch.zeros(())
    for loss in rounds():
        total = total + loss
    return total / 4


def policy_gradient() -> torch.Tensor:
    """Losses whose sign is that of a gain."""
    loss: torch.Tensor | int = 0
    for gain in rounds():
        loss = loss - gain
    assert isinstance(loss, torch.Tensor)
    return loss / 4


def recorded(program: Callable[[], torch.Tensor]) -> Recording:
    """A run."""
    with torchrecorder.Recorder() as recorder:
        program()
    return recorder.recording


@pytest.mark.parametrize("program", [
    in_place, new_each_time, of_a_generator, of_a_tensor, policy_gradient,
])
def test_all_rounds_are_one(program: Callable[[], torch.Tensor]) -> None:
    """The sum is passed on, and what reads it comes after the loop."""
    view = view_of(recorded(program))
    ((names, count),) = loops(view)
    assert count == 4 and names[-1] in ("add", "rsub", "detach")
    (cluster,) = [one for one in view.clusters.values() if one.count > 1]
    figure = draw(view, Style())
    (group,) = [one for one in figure.groups if one.id == cluster.id]
    assert "scalar" in group.label[-1].text
    (add,) = [one for one in figure.shapes if one.label[0].text in ("add", "+", "sub")]
    assert [text.text for text in add.label[1:]] == []


def test_what_a_line_adds_and_subtracts_stay_apart() -> None:
    """Both are in each round, in the order of the line."""

    def program(x: torch.Tensor) -> torch.Tensor | int:
        total: torch.Tensor | int = 0
        for row in range(5):
            total = total + x[row] - x[row]
        return total

    view = view_of(torchrecorder.record(program, torch.rand(5, 3)))
    ((names, count),) = loops(view)
    assert count == 5 and [name for name in names if name in ("add", "sub")] == ["add", "sub"]


def test_a_sum_of_weights_does_not_add_0_in_each_round() -> None:
    """Its box is that of all rounds, of which the first alone begins with 0."""
    net = made()
    recording = of_loops(net, lambda: sum(weight.square().sum() for weight in net.parameters()))
    view = view_of(recording)
    assert [count for _, count in loops(view)] == [8]
    assert "+ 0" not in texts(view, "add")


@pytest.mark.parametrize("start", [lambda: 0, lambda: torch.zeros(())])
@pytest.mark.parametrize("is_in_place", [True, False])
def test_rounds_are_not_hidden_readers_of_their_sum(
    start: Callable[[], torch.Tensor | int], is_in_place: bool
) -> None:
    """What reads the sum after the loop is: it is asked for here, unless a round writes it."""

    def program() -> torch.Tensor:
        total = start()
        for loss in rounds():
            if is_in_place:
                total += loss
            else:
                total = total + loss
        assert isinstance(total, torch.Tensor)
        total.item()
        return total

    view = view_of(recorded(program))
    (add,) = [box.id for box in view.boxes.values() if name_of(view, box.id) in ("add", "add_")]
    assert unread(view).get(add) == (None if is_in_place else "read by item")


def test_a_sum_that_is_not_folded_says_that_it_begins_with_0() -> None:
    """Each operation has the label of its own arguments."""
    view = view_of(recorded(in_place), fold=False)
    labels = [[text.text for text in shape.label] for shape in draw(view, Style()).shapes]
    assert [label for label in labels if label[0] in ("add", "+")] == [["add", "+ 0"], *[["+"]] * 3]


def test_sums_on_two_lines_are_apart() -> None:
    """What adds to another sum, or begins with another number, is no round of it."""

    def program() -> torch.Tensor:
        x = torch.rand(3)
        total: torch.Tensor | int = 0
        total = total + x.exp()
        total = total + x.sin()
        other: torch.Tensor | int = 2
        for _ in range(4):
            other = other + x.cos()
        return total + other

    recording = recorded(program)
    assert recording.running_sums == frozenset()
    assert [count for _, count in loops(view_of(recording))] in ([], [3])
