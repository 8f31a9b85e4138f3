"""Witness: what a rank communicates, as PyTorch's dispatcher sees it, without a recorder."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NAMES = {
    "allreduce_": "all_reduce", "allgather_": "all_gather", "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter", "alltoall_base_": "all_to_all",
    "broadcast_": "broadcast", "reduce_": "reduce", "scatter_": "scatter", "gather_": "gather",
    "barrier": "barrier", "send": "send", "recv_": "recv", "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}
"""Operators of ``c10d`` and ``_c10d_functional``, with the names of what they do."""

PEERS = {"send": 2, "recv_": 2, "broadcast_": 2, "reduce_": 3, "scatter_": 3, "gather_": 3}
"""The argument with the other rank, as its number in the group."""


class Call(NamedTuple):
    """One collective or message of a rank.

    Attributes:
        name: What it is.
        group: What its group is for, ``"mesh_tp"``; empty if the program does not say.
        ranks: The ranks of its group.
        bytes: Of what it gives or receives, whichever is more; 0 of a barrier.
        peer: The other rank, or the root; -1 without one.
        tag: Of a message; -1 of others.
    """

    name: str
    group: str
    ranks: tuple[int, ...]
    bytes: int
    peer: int
    tag: int


class Witness(TorchDispatchMode):
    """Lists what is communicated while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        space, _, name = func._schema.name.partition("::")
        if space in ("c10d", "_c10d_functional") and name in NAMES:
            self._add(space, name, args, made)
        return made

    def _add(self, space: str, name: str, args: Any, made: Any) -> None:
        group = next(filter(None, map(_group, reversed(args))))
        ranks = tuple(dist.get_process_group_ranks(group))
        lists = args if space == "c10d" else (args, made)
        sizes = [_bytes(each) for each in lists]
        peer = -1
        if name in PEERS:
            peer = ranks[args[PEERS[name]]]
        size = 0 if name == "barrier" else max(sizes)
        tag = args[3] if name in ("send", "recv_") else -1
        purpose = group.group_desc.replace("undefined", "")
        self.calls.append(Call(NAMES[name], purpose, ranks, size, peer, tag))


def _group(argument: Any) -> Any:
    if isinstance(argument, torch.ScriptObject) and "ProcessGroup" in str(argument._type()):
        return dist.ProcessGroup.unbox(argument)
    if isinstance(argument, str):
        return dist.distributed_c10d._resolve_process_group(argument)
    return argument if isinstance(argument, dist.ProcessGroup) else None


def _bytes(argument: Any) -> int:
    tensors = [leaf for leaf in tree_leaves(argument) if isinstance(leaf, Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
