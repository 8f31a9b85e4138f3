"""Which values carry data: masks, positions, constants and what they give carry none."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchrecorder import record
from torchrecorder.graph.data_flow import side_values


class Tokens(nn.Module):
    """Embeds tokens and positions, with a mask, a query that is learned, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(9, 4), nn.Embedding(9, 4)
        self.query = nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, ids: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        places = self.places(torch.cumsum(mask, 1) * mask - torch.arange(3))
        hidden = self.table(ids.clone().view(-1, 3)).abs() + places.neg() * self.scale.exp()
        return hidden * mask.float().unsqueeze(2) + self.query.sin() + image.cos()


def test_tokens_images_and_what_is_learned_are_data() -> None:
    """Masks, positions that are counted from them, and buffers are not."""
    ones = torch.ones(1, 3, dtype=torch.long)
    recording = record(Tokens(), (ones, ones.clone(), torch.ones(4)))
    side = side_values(recording)
    assert {slot.name: slot.value in side for slot in recording.inputs} == {
        "ids": False, "mask": True, "image": False
    }
    assert recording.outputs[0].value not in side
    found = {op.name for op in recording.ops.values() if side.issuperset(op.outputs)}
    carry = {op.name for op in recording.ops.values() if side.isdisjoint(op.outputs)}
    assert found >= {"cumsum", "sub", "arange", "neg", "exp", "float", "unsqueeze"}
    assert carry >= {"clone", "view", "abs", "sin", "cos", "add"}
    assert carry & found == {"embedding", "mul"}
