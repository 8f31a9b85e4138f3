"""A fake process group, which sends nothing and writes no results."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch.distributed

from torchrecorder.capture.internals.table import FAKE_GROUPS, STAGE_VOTES
from torchrecorder.capture.internals.trials import find
from torchrecorder.errors import InvalidArgument


def fake_mesh(rank: int, mesh: Mapping[str, int]) -> Any:
    """Initialize ``torch.distributed`` as *rank* of a fake group; returns a mesh of these sizes.

    Raises:
        InvalidArgument: This PyTorch has no fake process group.
    """
    if not FAKE_GROUPS.present:
        missing = ", ".join(FAKE_GROUPS.missing) or "fake tensors in collectives"
        raise InvalidArgument(
            f"plan needs fake process groups; this PyTorch lacks {missing}. "
            f"Install PyTorch {FAKE_GROUPS.since} or newer"
        )
    from torch.distributed.device_mesh import init_device_mesh

    store = find(FAKE_GROUPS.paths[0])()
    world = prod(mesh.values())
    torch.distributed.init_process_group("fake", store=store, rank=rank, world_size=world)
    return init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))


def agree_on_static_shapes() -> None:
    """Make the pipeline stages of this process assume that all others know their shapes.

    Before its first micro-batch, a pipeline asks its stages whether each was given the shapes of
    its inputs and outputs, and reads the answer from a tensor. In a fake group nobody answers.
    """
    if "torch.distributed.pipelining" in sys.modules and STAGE_VOTES.present:
        stage, _, name = STAGE_VOTES.paths[0].rpartition(".")
        setattr(find(stage), name, _all_agree(getattr(find(stage), name)))


def _all_agree(vote: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(vote)
    def agreed(*args: Any, **kwargs: Any) -> Any:
        vote(*args, **kwargs)  # the messages are those of a real run
        return torch.tensor([1], dtype=torch.int32)

    return agreed
