"""Rings: processes that each send to the next one, and the last to the first, are one lane."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.ranks.made import X, recorded
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS
from torchrecorder.graph.consistency import problems

pytestmark = pytest.mark.skipif(
    not COLLECTIVE_CALLS.present, reason="sends are no operations in this PyTorch"
)


class Ring(nn.Module):
    """Adds up what all processes have, which goes round."""

    def __init__(self, rounds, first="send"):
        super().__init__()
        self.rounds, self.first = rounds, first

    def forward(self, x):
        total = x
        for _ in range(self.rounds):
            x = self.shift(x)
            total = total + x
        return total

    def shift(self, x):
        """What the process before has."""
        rank, world = dist.get_rank(), dist.get_world_size()
        received = torch.empty_like(x)
        calls = [
            dist.P2POp(dist.isend, x, (rank + 1) % world),
            dist.P2POp(dist.irecv, received, (rank - 1) % world),
        ]
        for work in dist.batch_isend_irecv(calls if self.first == "send" else calls[::-1]):
            work.wait()
        return received


def _joined(world, **options):
    return torchrecorder.merge(recorded(lambda rank: Ring(**options)(X), world=world))


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("first", ["send", "receive"])
def test_a_ring_is_one_lane(world, first):
    """Each message of a round leads from the send of the lane to its receive."""
    run = _joined(world, rounds=2, first=first)
    (lane,) = run.lanes
    assert lane.ranks == (*range(world),) and run.problems == ()
    assert len(run.collectives) == 2 * world
    recording = run.recording
    assert [*problems(recording)] == []
    sends = [op for op in recording.ops.values() if op.name == "isend"]
    receives = [op for op in recording.ops.values() if op.name == "irecv"]
    assert [op.outputs[-1] for op in sends] == [op.inputs[0].value for op in receives]
    assert {slot.name for op in receives for slot in op.inputs} == {"message"}
    assert "message" not in {slot.name for slot in recording.scopes[recording.roots[0]].inputs}


def _exchange(*messages):
    """Run these sends, with the rank that each goes to, and receives, with that it comes from."""
    for work in dist.batch_isend_irecv([dist.P2POp(kind, X.clone(), peer)
                                        for kind, peer in messages]):
        work.wait()


@pytest.mark.parametrize(("step", "after", "before"), [
    (1, "rank+1", "rank-1"), (3, "rank-1", "rank+1"), (2, "rank+2", "rank-2"),
])
def test_neighbors_are_relative_to_the_rank(step, after, before):
    """One lane has the messages of all ranks; also of several rings."""
    run = torchrecorder.merge(recorded(lambda rank: _exchange(
        (dist.isend, (rank + step) % 4), (dist.irecv, (rank - step) % 4)
    )))
    assert [lane.ranks for lane in run.lanes] == [(0, 1, 2, 3)]
    arguments = {op.name: dict(op.arguments) for op in run.recording.ops.values()}
    assert arguments["isend"]["group_dst"] == after
    assert arguments["irecv"]["group_src"] == before


def test_a_row_is_no_ring():
    """Where the last does not send to the first, ends and middle differ."""
    run = torchrecorder.merge(recorded(lambda rank: _exchange(
        *[(dist.isend, rank + 1)] * (rank < 3), *[(dist.irecv, rank - 1)] * (rank > 0)
    )))
    assert [lane.ranks for lane in run.lanes] == [(0,), (1,), (2,), (3,)]


def test_one_rank_of_a_ring_can_do_more():
    """It has a lane of its own, the others share one; each send sends one message, to both."""
    def logged(rank):
        result = Ring(rounds=2)(X)
        if rank == 0:
            print(result.mean().item())

    run = torchrecorder.merge(recorded(logged))
    assert [lane.ranks for lane in run.lanes] == [(0,), (1, 2, 3)] and run.problems == ()
    recording = run.recording
    assert [*problems(recording)] == []
    ops = recording.ops.values()
    sends, receives = ([op for op in ops if op.name == name] for name in ("isend", "irecv"))
    assert len(sends) == len(receives) == 4
    (first, *_), (*_, last) = ([op.outputs for op in sends], [op.inputs for op in receives])
    assert len(first) == 1 and len(last) == 2  # of rank 3 alone, and of ranks 0 to 2
    assert [_peer(op) for op in sends] == ["1", "1", "rank+1", "rank+1"]
    assert [_peer(op) for op in receives] == ["3", "3", "rank-1", "rank-1"]


def _peer(op):
    return next(text for name, text in op.arguments if name.startswith("group_"))


def test_ranks_that_send_to_others_are_named_relative_to_them():
    """Two lanes with two ranks each, which have different neighbors in the same group."""
    run = torchrecorder.merge(recorded(lambda rank: _exchange(
        (dist.isend, rank + 2) if rank < 2 else (dist.irecv, rank - 2)
    )))
    assert [lane.ranks for lane in run.lanes] == [(0, 1), (2, 3)]
    assert [_peer(op) for op in run.recording.ops.values() if op.name in ("isend", "irecv")] == [
        "rank+2", "rank-2"
    ]


def test_the_figure_of_a_ring_has_its_rounds(tmp_path):
    """From top to bottom, with the function that shifts, and without buffers; a message counts
    once in a round."""
    run = _joined(4, rounds=30)
    calls = [call.name.rpartition(".")[2] for call in run.recording.function_calls.values()]
    assert calls.count("shift") == 30
    assert not any(op.name == "empty_like" for op in run.recording.ops.values())
    text = run.render(tmp_path / "ring.dot", depth="ops").read_text()
    assert "×30" in text and "shift" in text and 'rankdir="TB"' in text
    assert "(48 B)" in text and "(48 B) ×" not in text
    closed = torchrecorder.figure(run.recording, depth=2, functions=True).shapes
    (shift,) = (shape for shape in closed if shape.label[0].text.startswith("shift"))
    assert "send, 48 B" in [text.text for text in shift.label]
