"""Events of distributed runs: the process, its groups and meshes, shards, communication."""

from __future__ import annotations

from typing import NamedTuple

from torchrecorder.events.vocabulary import GradId, OpId, ScopeId, ValueId

POINT_TO_POINT = ("send", "recv")
"""The names of communications between two processes; the others are of a whole group."""

MESSAGE = "message"
"""The argument of a receive with the message of the other rank, in joined recordings."""

GRADIENT_MESSAGE = "gradient message"
"""The argument of a receive with the message of the other rank, if that is a gradient."""


class RankGroup(NamedTuple):
    """A process group that this process is a member of."""

    name: str  # its name in PyTorch
    ranks: tuple[int, ...]  # its members, by their rank among all processes
    purpose: str  # its description, "mesh_tp"; may be empty
    backend: str  # "gloo", "nccl", "fake"


class Mesh(NamedTuple):
    """A device mesh, and the coordinate of this process in it."""

    names: tuple[str, ...]  # of its dimensions, ("dp", "tp")
    shape: tuple[int, ...]
    place: tuple[int, ...]  # empty for a process that is not in it

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in zip(self.names, self.shape))


JOINED = -1
"""In place of a rank, in the joined run of several processes."""


class Rank(NamedTuple):
    """The recorded process, and the groups in which it communicated.

    Attributes:
        rank: Its number, counted from 0; -1 for the joined run of several processes.
        world: The number of processes.
        host: The name of the machine; empty in files without times.
        groups: The group of all processes, and those it communicated in.
    """

    rank: int
    world: int
    host: str
    groups: tuple[RankGroup, ...]
    meshes: tuple[Mesh, ...]  # of its distributed tensors


class Shard(NamedTuple):
    """The part of a distributed tensor in this process.

    Attributes:
        mesh: The device mesh of the tensor, ``"dp=2, tp=4"``.
        placements: One per dimension of the mesh: ``"Shard(0)"``, ``"Replicate()"``.
        shape: The shape of the local part.
        bytes: The size of the local part.
    """

    value: ValueId
    mesh: str
    placements: tuple[str, ...]
    shape: tuple[int, ...]
    bytes: int


class Communication(NamedTuple):
    """A collective, a send or a receive, as this process ran it.

    Attributes:
        name: ``"all_reduce"``, ``"reduce_scatter"``, ``"broadcast"``, ``"send"`` ...
        reduction: The reduction, ``"sum"``; empty without one.
        group: The name of its process group.
        order: Its number in the group; for a send, among those with this peer and tag.
        peer: The destination, the source, or the root of a collective; -1 without one.
        tag: The tag of a message; -1 for a collective.
        given: Bytes of the input.
        received: Bytes of the output.
        scope: The scope it ran in; in backward, the scope whose forward created the grad node.
        op: The op that ran it; None in backward.
        grad: The grad node that ran it; None at the end of a backward pass.
        seconds: From the call to its completion; None if the completion is unknown.
        blocked_seconds: The time that it blocked the program; None if unknown.
        waited_seconds: The time that it waited for the slowest rank, *last*; only in joined runs.
    """

    name: str
    reduction: str
    group: str
    order: int
    peer: int
    tag: int
    given: int
    received: int
    scope: ScopeId | None
    op: OpId | None
    grad: GradId | None
    backward: bool  # a backward pass was running
    seconds: float | None
    blocked_seconds: float | None
    waited_seconds: float | None = None
    last: int = -1
