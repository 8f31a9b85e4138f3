"""Training loops over batches that the block itself has made."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import torchrecorder
from torchrecorder.views.view import BoxKind, View


def batches(number: int) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(4, 6), torch.randint(0, 3, (4,))) for _ in range(number)]


def accumulated(number: int) -> None:
    """A step of the optimizer for every second batch."""
    model, data = nn.Linear(6, 3), batches(number)
    optimizer = torch.optim.SGD(model.parameters())
    for place, (x, y) in enumerate(data):
        cross_entropy(model(x), y).backward()
        if place % 2:
            optimizer.step()
            optimizer.zero_grad()


def epochs(number: int) -> None:
    """Each epoch reads the batches again."""
    model, data = nn.Linear(6, 3), batches(number)
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(3):
        for x, y in data:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()


def drawn(program, *given) -> View:
    with torchrecorder.Recorder() as recorder:
        program(*given)
    return torchrecorder.view(recorder.recording)


def made(view: View) -> list[tuple[str, int]]:
    """The boxes of the batches, and how many each stands for."""
    ops = view.recording.ops
    boxes = [box for box in view.boxes.values() if box.kind is BoxKind.OP]
    return sorted((ops[box.id].name, box.count) for box in boxes
                  if ops[box.id].name in ("randn", "randint"))


@pytest.mark.parametrize(("program", "wanted"), [
    (accumulated, [("randint", 4), ("randint", 4), ("randn", 4), ("randn", 4)]),
    (epochs, [("randint", 8), ("randn", 8)]),
])
def test_they_fold_as_those_from_before_the_block(program, wanted) -> None:
    """The figure is as large as for more of them, and has an arrow from each kind of batch."""
    view, larger = drawn(program, 8), drawn(program, 12)
    assert made(view) == wanted
    assert len(view.boxes) == len(larger.boxes)
    members = [member for box in view.boxes.values() for member in box.members]
    assert set(members) >= {op.id for op in view.recording.ops.values()
                            if op.name in ("randn", "randint", "cross_entropy")}
    tails = [view.recording.ops[arrow.tail].name for arrow in view.arrows
             if view.boxes[arrow.tail].kind is BoxKind.OP]
    assert tails.count("randn") == tails.count("randint") == len(wanted) / 2


def in_order(*order: int) -> View:
    """Steps on batches in this order, with the function that makes them as one box."""
    model, losses = nn.Sequential(nn.Linear(6, 3), nn.ReLU()), []
    optimizer = torch.optim.SGD(model.parameters())
    with torchrecorder.Recorder(model) as recorder:
        data = batches(max(order) + 1)
        for x, y in map(data.__getitem__, order):
            optimizer.zero_grad()
            losses.append(cross_entropy(model(x), y))
            losses[-1].backward()
            optimizer.step()
    return torchrecorder.view(recorder.recording, functions=True, depth=0)


def results_read(view: View) -> list[int]:
    """Which results of the function have an arrow."""
    maker = next(scope for scope in view.recording.scopes.values() if scope.name == "batches")
    made = [slot.value for slot in maker.outputs]
    return sorted(made.index(arrow.value) for arrow in view.arrows if arrow.tail == maker.id)


def test_steps_on_results_of_one_closed_function_fold() -> None:
    """Each reads the next two; the arrows are those of the first step."""
    view = in_order(0, 1, 2, 3)
    assert [cluster.count for cluster in view.clusters.values()] == [4]
    assert results_read(view) == [0, 1]
    assert len(view.boxes) == len(in_order(*range(7)).boxes)


def test_a_step_on_a_batch_that_another_step_has_read_is_drawn() -> None:
    """In a frame with the others, it would read one of its own."""
    view = in_order(0, 1, 2, 0)
    assert [cluster.count for cluster in view.clusters.values()] == [3]
    assert results_read(view) == [0, 0, 1, 1]


def test_two_calls_are_drawn() -> None:
    """As of a Siamese network, whose inputs are compared."""
    model = nn.Sequential(nn.Linear(6, 3), nn.ReLU())

    def program() -> Tensor:
        (one, _), (two, _) = batches(2)
        return (model(one) - model(two)).norm()

    view = drawn(program)
    assert made(view).count(("randn", 1)) == 2


def test_batches_of_other_lines_are_other_batches() -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.ReLU())

    def program() -> Tensor:
        one = torch.randn(4, 6)
        two = torch.randn(4, 6)
        three = torch.randn(4, 6)
        return model(one) + model(two) * model(three)

    assert made(drawn(program)) == [("randn", 1)] * 3
