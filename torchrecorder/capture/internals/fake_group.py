"""A group of processes that are not there: nothing is sent, and what is received is not written."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch.distributed

from torchrecorder.capture.internals.table import FAKE_GROUPS
from torchrecorder.capture.internals.trials import find
from torchrecorder.errors import InvalidArgument


def fake_mesh(rank: int, names: Sequence[str], sizes: Sequence[int]) -> Any:
    """A mesh of such processes, of which this one is *rank* from now on.

    Raises:
        InvalidArgument: This PyTorch has no group that sends nothing.
    """
    if not FAKE_GROUPS.present:
        missing = ", ".join(FAKE_GROUPS.missing)
        raise InvalidArgument(f"this PyTorch cannot plan a run of processes: it lacks {missing}")
    from torch.distributed.device_mesh import init_device_mesh

    store = find(FAKE_GROUPS.paths[0])()
    torch.distributed.init_process_group("fake", store=store, rank=rank, world_size=prod(sizes))
    return init_device_mesh("cpu", tuple(sizes), mesh_dim_names=tuple(names))
