"""Which values carry data: masks, positions, constants and what they give carry none."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.graph.test_consistency import changed
from torchrecorder import record
from torchrecorder.graph.data_flow import side_values
from torchrecorder.graph.memory_access import contents_read
from torchrecorder.testing import Builder


class Tokens(nn.Module):
    """Embeds tokens and positions, with a mask, a shift that is learned, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(9, 4), nn.Embedding(9, 4)
        self.shift = nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, ids: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        places = self.places(torch.cumsum(mask, 1) * mask - torch.arange(3))
        hidden = self.table(ids.clone().view(-1, 3)).abs() + places.neg() * self.scale.exp()
        return hidden * mask.float().unsqueeze(2) + self.shift.sin() + image.cos()


def test_tokens_and_images_are_data() -> None:
    """Masks, positions that are counted from them, buffers, and what is learned are not."""
    ones = torch.ones(1, 3, dtype=torch.long)
    recording = record(Tokens(), (ones, ones.clone(), torch.ones(4)))
    side = side_values(recording)
    assert {slot.name: slot.value in side for slot in recording.inputs} == {
        "ids": False, "mask": True, "image": False
    }
    assert recording.outputs[0].value not in side
    found = {op.name for op in recording.ops.values() if side.issuperset(op.outputs)}
    carry = {op.name for op in recording.ops.values() if side.isdisjoint(op.outputs)}
    assert found >= {"cumsum", "sub", "arange", "neg", "exp", "float", "unsqueeze", "sin"}
    assert carry >= {"clone", "view", "abs", "cos", "add"}
    assert carry & found == {"embedding", "mul"}


def test_what_is_learned_is_data_unless_it_only_joins_data() -> None:
    """A query comes first, and so does what is read as a query and as a summand; a table of
    positions and a weight that is computed join data. What nothing reads is data."""
    query, pair, both, places, weight = (nn.Parameter(torch.ones(3, 3)) for _ in range(5))

    def run(x: Tensor) -> tuple[Tensor, ...]:
        first, second, third = pair.floor()
        table = torch.cat([places.sin(), places.cos()])[:3]
        keys = nn.functional.linear(table + x, weight.neg().exp())
        mixed = both.tanh()
        kept = query.sqrt().square() @ keys + mixed, mixed.abs() @ x
        return *kept, x + weight.sigmoid().sum(), first + x, second @ x, third * x

    recording = record(run, (torch.ones(3, 3),))
    side = side_values(recording)
    found = {op.name for op in recording.ops.values() if side.issuperset(op.outputs)}
    assert found == {"sin", "cos", "cat", "getitem", "neg", "exp", "sigmoid", "sum"}
    recording = record(lambda x: (weight.neg() + weight.exp(), x.sin()), (torch.ones(3),))
    assert not side_values(recording)


def test_what_only_buffers_are_read_and_written_for() -> None:
    """Such as a count; nothing else is read or written, and it did not fail."""
    run = Builder("Net")
    with run.scope("Net"):
        x, count = run.input("x"), run.buffer("count")
        count = run.op("count", count, writes=count)
        run.op("read", count)
        run.op("store", count, x, writes=count)
        run.op("load", count, writes=x)
        run.op("break", count, writes=count)
    recording = run.recording()
    assert {recording.ops[op].name for op in recording.bookkeeping} == {"count", "break"}
    broken = changed(recording, "ops", "o4", failed=True)
    assert {recording.ops[op].name for op in broken.bookkeeping} == {"count"}


def test_whose_contents_are_read() -> None:
    """Not those of what is written to, in a part or as a whole, nor of what gives its form."""
    run = Builder("Net")
    x, y = run.input("x"), run.input("y")
    run.op("setitem", x, y, slots=("self", "value"))
    run.op("copy_", x, y, slots=("self", "src"))
    run.op("zeros_like", x)
    run.op("add", x, y, slots=("self", "other"))
    read = [[slot.value for slot in contents_read(op)] for op in run.recording().ops.values()]
    assert read == [[y], [y], [], [x, y]]
