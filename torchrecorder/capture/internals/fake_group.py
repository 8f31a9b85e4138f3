"""A fake process group, which sends nothing and writes no results."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch.distributed

from torchrecorder.capture.internals.table import FAKE_GROUPS
from torchrecorder.capture.internals.trials import find
from torchrecorder.errors import InvalidArgument


def fake_mesh(rank: int, names: Sequence[str], sizes: Sequence[int]) -> Any:
    """Initialize ``torch.distributed`` as *rank* of a fake group; returns its device mesh.

    Raises:
        InvalidArgument: This PyTorch has no fake process group.
    """
    if not FAKE_GROUPS.present:
        missing = ", ".join(FAKE_GROUPS.missing)
        raise InvalidArgument(f"plan needs fake process groups; this PyTorch lacks {missing}")
    from torch.distributed.device_mesh import init_device_mesh

    store = find(FAKE_GROUPS.paths[0])()
    torch.distributed.init_process_group("fake", store=store, rank=rank, world_size=prod(sizes))
    return init_device_mesh("cpu", tuple(sizes), mesh_dim_names=tuple(names))
