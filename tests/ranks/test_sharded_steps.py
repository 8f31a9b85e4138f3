"""Training steps of a sharded model fold, and have no boxes for the memory that they use again."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import torchrecorder
from tests.capture.processes import process_group
from torchrecorder.views.bundles import FlowClassifier, FlowKind
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind

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


def sharded(kind: str) -> nn.Module:
    """A model of blocks, or of layers alone, each sharded by FSDP1 or by FSDP2."""
    world = torch.distributed.get_world_size()
    if kind in ("blocks", "layers"):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (world,))
        parts = Block() if kind == "layers" else nn.ModuleList((Block(), Block()))
        model = nn.Sequential(*parts.children())
        for part in model:
            fully_shard(part, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    return FullyShardedDataParallel(
        nn.Sequential(Block(), Block()), device_id=torch.device("cpu"),
        auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=kind == "original",
    )


def recorded_steps(kind: str, rank: int, world: int) -> torchrecorder.Recording:
    """Three training steps, of which the first makes the memory for the gathered weights."""
    with process_group(rank=rank, world=world):
        model = sharded(kind)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        with torchrecorder.Recorder(model) as recorder:
            for _ in range(3):
                model(torch.rand(2, 4)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    assert recorder.recording.run.lost == 0
    return recorder.recording


KINDS = ["blocks", "layers", "original", "flat"]


@pytest.mark.filterwarnings("ignore:FSDP", "ignore:.*[Ff]ullyShardedDataParallel")
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_fold(kind: str, world: int) -> None:
    """Weights are gathered into the same memory in each step, which is no part of the flow; nothing
    but weights and optimizer state is carried over."""
    view = make_view(recorded_steps(kind, 0, world))
    view.check()
    (steps,) = (cluster for cluster in view.clusters.values() if cluster.count == 3)
    flows = FlowClassifier(view)
    kinds = {flows.kind(arrow, is_between_rounds=True) for arrow in steps.carried}
    assert kinds == {FlowKind.WEIGHT, FlowKind.STATE}
    assert not any(box.kind is BoxKind.CONSTANT for box in view.boxes.values())


@pytest.mark.filterwarnings("ignore:FSDP", "ignore:.*[Ff]ullyShardedDataParallel")
@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_each_rank_fold(kind: str) -> None:
    """Also if ranks have parts of different sizes: these are no sizes that depend on data."""
    ranks = [recorded_steps(kind, rank, 2) for rank in range(2)]
    view = make_view(torchrecorder.merge(ranks).recording)
    counts = [cluster.count for cluster in view.clusters.values()]
    assert counts.count(3) == (2 if kind == "original" else 1)


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
        dot = torchrecorder.make_dot(found, fold=False).source
        (updated,) = re.findall("→ .*16 weights.*", dot)
        assert "→ 16 gradients" in dot and "48 state tensors" in updated
    view = make_view(recording, ViewOptions(depth=3))
    assert sorted(cluster.count for cluster in view.clusters.values())[-2:] == [2, 4]
