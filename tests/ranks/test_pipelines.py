"""Pipelines: micro-batches are one box each, and messages of activations and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.callers import called
from tests.ranks.made import recorded
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS
from torchrecorder.export.page_data.data import page_data
from torchrecorder.graph.consistency import problems
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view

pytestmark = pytest.mark.skipif(
    not COLLECTIVE_CALLS.present, reason="messages are no operations in this PyTorch"
)

X = torch.ones(2, 4)
STAGES = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)]
LAST = len(STAGES) - 1
STAGE = called("stage: Sequential  ×4", "Sequential  ×4")

GPIPE = ("F0", "F1", "F2", "F3", "B0", "B1", "B2", "B3")
ONE_F_ONE_B = ("F0", "F1", "F2", "B0", "F3", "B1", "B2", "B3")


def _pipeline(order):
    """Three stages that run the steps of *order*, each with its messages."""
    def run(rank):
        stage, given, made = STAGES[rank], {}, {}
        for step in order:
            direction, batch = step[0], int(step[1])
            if direction == "F":
                x = torch.zeros(2, 4)
                if rank > 0:
                    dist.recv(x, rank - 1, tag=batch)
                given[batch] = x.requires_grad_()
                made[batch] = stage(given[batch])
                if rank < LAST:
                    dist.send(made[batch].detach(), rank + 1, tag=batch)
                continue
            if rank < LAST:
                gradient = torch.zeros(2, 4)
                dist.recv(gradient, rank + 1, tag=10 + batch)
                made[batch].backward(gradient)
            else:
                made[batch].square().mean().backward()
            if rank > 0:
                dist.send(given[batch].grad, rank - 1, tag=10 + batch)
    return run


def _joined(order):
    run = torchrecorder.merge(recorded(_pipeline(order), world=3))
    assert run.problems == () and list(problems(run.recording)) == []
    return run


def _texts(shapes, around):
    return sorted(shape.label[0].text for shape in shapes if shape.group == around)


@pytest.mark.parametrize("order", [GPIPE, ONE_F_ONE_B])
def test_micro_batches_are_one_box_in_any_order(order):
    """Each step of a stage is drawn once with the number of micro-batches."""
    figure = torchrecorder.figure(_joined(order).recording, depth=1)
    first, middle, last = (group.id for group in figure.groups)
    assert {STAGE, "recv  ×4", "send  ×4", "backward  ×4"} <= {
        *_texts(figure.shapes, first)
    }
    assert _texts(figure.shapes, middle).count("recv  ×4") == 2
    assert _texts(figure.shapes, middle).count("send  ×4") == 2
    assert {"square  ×4", "mean  ×4"} <= {*_texts(figure.shapes, last)}


def test_folds_of_messages_on_the_page():
    """What is read is not called unread, although a closed fold is made without its arrows."""
    data = page_data(make_view(_joined(GPIPE).recording, ViewOptions()), Style())
    labels = [[data["strings"][text] for text, _ in label] for label in data["labels"]]
    titles = {label[0] for label in labels}
    assert {"send ×4", "recv ×4", "square ×4", "mean ×4"} <= {" ".join(t.split()) for t in titles}
    assert not [label for label in labels if "unused" in label]


@pytest.mark.parametrize("ops", [False, True])
def test_rows_of_micro_batches_have_names(ops):
    """Also those of a single operation."""
    (middle,) = recorded(_pipeline(GPIPE), world=3)[1:2]
    rows = [line.lstrip("├─└│ ") for line in middle.summary(ops=ops).splitlines()]
    assert not any(row.startswith("(") for row in rows)
    assert not ops or any(row.startswith("recv()  ×4") for row in rows)


def test_each_step_can_be_looked_at():
    """Nothing is lost by folding: every call, message and pass is in one box."""
    run = _joined(ONE_F_ONE_B)
    view = torchrecorder.view(run.recording, depth=1)
    view.check()
    folded = torchrecorder.view(run.recording, depth=1, fold=False)
    members = {member for box in view.boxes.values() for member in box.members}
    assert members == {member for box in folded.boxes.values() for member in box.members}
    assert len(view.boxes) < len(folded.boxes) / 3


def test_lanes_that_are_similar_fold_with_their_micro_batches():
    """With fold="similar" stages are one box, in which micro-batches still are."""
    figure = torchrecorder.figure(_joined(GPIPE).recording, depth=1, fold="similar")
    (group,) = figure.groups
    assert group.count == 3
    assert {STAGE, "backward  ×4"} <= {*_texts(figure.shapes, group.id)}


def test_messages_of_gradients_are_dashed():
    """Forward and backward messages differ in line and label, and say how often."""
    figure = torchrecorder.figure(_joined(GPIPE).recording, depth=1)
    group = {shape.id: shape.group for shape in figure.shapes}
    place = [each.id for each in figure.groups]
    between = [line for line in figure.lines if group[line.tail] != group[line.head]]
    told = [
        (place.index(group[line.head]) - place.index(group[line.tail]), line.label, line.look.dash)
        for line in between
    ]
    ahead, back = (1, "2×4 (32 B) ×4", "solid"), (-1, "gradient 2×4 (32 B) ×4", "dashed")
    assert sorted(told) == sorted([ahead, back] * 2)


def test_stages_stand_side_by_side(tmp_path):
    """In the order of the ranks, though gradients run back; unless told otherwise."""
    run = _joined(ONE_F_ONE_B)
    assert run.render(tmp_path / "run.dot").read_text().count('rankdir="LR"') == 1
    assert 'rankdir="TB"' in run.render(tmp_path / "run.dot", direction="TB").read_text()
    drawn = _corners(run.render(tmp_path / "run.svg", depth=1).read_text(), run)
    assert drawn == sorted(drawn) and len(set(drawn)) == 3
    same = torchrecorder.merge(recorded(lambda rank: dist.all_reduce(X.clone()), world=2))
    assert 'rankdir="LR"' not in same.render(tmp_path / "same.dot").read_text()


def _corners(svg, run):
    """Where the frame of each lane begins, from left to right."""
    import re

    found = []
    for lane in run.lanes:
        frame = svg[: svg.index(f">{lane.name}<")].rpartition("<rect")[2]
        found.append(float(re.search(r' x="(-?[\d.]+)"', frame)[1]))
    return found


def test_calls_of_two_stages_of_a_process_are_distinguished():
    """Interleaved stages have messages to the same process, and each is folded on its own."""
    def run(rank):
        one, two = nn.Linear(4, 4), nn.Linear(4, 4)
        for model in (one, two):
            for batch in range(3):
                x = torch.zeros(2, 4)
                dist.recv(x, 1 - rank, tag=batch)
                dist.send(model(x).detach(), 1 - rank, tag=batch)

    recording = recorded(run, world=2)[0]
    view = torchrecorder.view(recording, depth=0)
    counts = sorted(
        (recording.ops[name].name, box.count) for name, box in view.boxes.items()
        if name in recording.ops and box.count > 1
    )
    assert counts.count(("send", 3)) == counts.count(("recv", 3)) == 2
    assert [box.count for box in view.boxes.values() if box.kind.value == "module"] == [3, 3]


def test_what_differs_between_micro_batches_stays_apart():
    """A message of another size, and steps that no message leads to."""
    def run(rank):
        stage = nn.Linear(4, 4)
        stage(X)
        for size in (2, 2, 1):
            x = torch.zeros(size, 4)
            dist.recv(x, 1 - rank)
            dist.send(stage(x).detach().relu().relu(), 1 - rank)

    recording = recorded(run, world=2)[0]
    view = torchrecorder.view(recording, depth=0)
    assert sorted(box.count for box in view.boxes.values() if box.kind.value == "module") == [
        1, 1, 2
    ]
    relus = [box for name, box in view.boxes.items()
             if name in recording.ops and recording.ops[name].name == "relu"]
    assert all(box.count == 1 for box in relus) and len(relus) == 6


def test_steps_of_one_stage_between_other_messages_stay_apart():
    """Two processes send to one stage: what follows it is folded for each of them."""
    def run(rank):
        stage = nn.Linear(4, 4)
        for source in (0, 2, 0, 2) if rank == 1 else ():
            x = torch.zeros(2, 4)
            dist.recv(x, source)
            dist.send(stage(x).detach().relu(), 3)

    recording = recorded(run)[1]
    view = torchrecorder.view(recording, depth=0)
    found = [
        box.count for name, box in view.boxes.items()
        if name in recording.ops and recording.ops[name].name == "relu"
    ]
    assert found == [2, 2]


def test_steps_beside_all_messages_are_not_of_a_micro_batch():
    """They read nothing that was received, and nothing that they make is sent."""
    def run(rank):
        for batch in range(3):
            x = torch.zeros(2, 4)
            dist.recv(x, 1 - rank)
            dist.send(x.relu(), 1 - rank)
            if batch < 2:
                X.exp()

    recording = recorded(run, world=2)[0]
    view = torchrecorder.view(recording, depth=0)
    counts = {recording.ops[name].name: box.count for name, box in view.boxes.items()
              if name in recording.ops}
    assert counts == {"zeros": 3, "recv": 3, "relu": 3, "send": 3, "exp": 1}
