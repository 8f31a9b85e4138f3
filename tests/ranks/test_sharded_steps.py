"""Training steps of a sharded model fold, and have no boxes for the memory that they use again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind

from tests.capture.processes import process_group

fully_shard = pytest.importorskip("torch.distributed.fsdp").__dict__.get("fully_shard")

pytestmark = pytest.mark.skipif(
    fully_shard is None or not hasattr(torch.cpu.Stream, "record_event"),
    reason="needs fully_shard on the CPU",
)


class Block(nn.Module):
    """Two layers with a skip connection around them."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Their sum with the input."""
        result: torch.Tensor = x + self.b(self.a(x).relu())
        return result


@pytest.mark.parametrize("world", [1, 2])
def test_steps_fold(world: int) -> None:
    """Weights are gathered into the same memory in each step, which is no part of the flow."""
    from torch.distributed.device_mesh import init_device_mesh

    with process_group(world=world):
        mesh = init_device_mesh("cpu", (world,))
        model = nn.Sequential(Block(), Block())
        for block in model:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

        def step() -> None:
            optimizer.zero_grad()
            model(torch.rand(2, 4)).sum().backward()
            optimizer.step()

        step()  # the first makes the memory
        with torchrecorder.Recorder(model) as recorder:
            for _ in range(4):
                step()
    assert recorder.recording.run.lost == 0
    view = make_view(recorder.recording, ViewOptions(depth=1))
    view.check()
    assert [cluster.count for cluster in view.clusters.values()].count(4) == 1
    assert not any(box.kind is BoxKind.CONSTANT for box in view.boxes.values())


def test_each_weight_is_given_to_the_next_step_once() -> None:
    """FSDP reads the local part of a weight, and the optimizer the whole: they are one."""
    from torch.distributed.device_mesh import init_device_mesh

    with process_group(world=2):
        model = nn.Sequential(*(Block() for _ in range(4)))
        mesh = init_device_mesh("cpu", (2,))
        for block in model:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        with torchrecorder.Recorder(model) as recorder:
            for _ in range(2):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    recording = torchrecorder.merge([recorder.recording]).recording
    for found in (recorder.recording, recording):
        dot = torchrecorder.make_dot(found).source
        assert "→ 16 gradients" in dot and "→ 16 weights, 48 state tensors" in dot
    view = make_view(recording, ViewOptions(depth=3))
    assert sorted(cluster.count for cluster in view.clusters.values())[-2:] == [4, 4]
