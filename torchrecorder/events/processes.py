"""What a process that is one of several states of itself, and of what it sends."""

from __future__ import annotations

from typing import NamedTuple

from torchrecorder.events.vocabulary import GradId, OpId, ScopeId, ValueId


TO_ONE = ("send", "recv")
"""The names of communications between two processes; the others are of a whole group."""


class RankGroup(NamedTuple):
    """A process group that this process is a member of."""

    name: str  # what PyTorch calls it
    ranks: tuple[int, ...]  # its members, by their rank among all processes
    purpose: str  # what it says that it is for, "mesh_tp"; empty if nothing
    backend: str  # what it sends by, "gloo", "nccl", "fake"


class Mesh(NamedTuple):
    """A mesh of processes, and the place of this process in it."""

    names: tuple[str, ...]  # of its dimensions, ("dp", "tp")
    shape: tuple[int, ...]
    place: tuple[int, ...]  # empty for a process that is not in it

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in zip(self.names, self.shape))


class Rank(NamedTuple):
    """The process that was recorded, among those it worked with.

    Attributes:
        rank: Its number, counted from 0.
        world: How many there were.
        host: The name of the machine; empty in files without times.
        groups: That of all processes, and those it sent something in.
    """

    rank: int
    world: int
    host: str
    groups: tuple[RankGroup, ...]
    meshes: tuple[Mesh, ...]  # that its tensors lay over


class Shard(NamedTuple):
    """The part of a tensor that this process had, where others had others.

    Attributes:
        mesh: Over which processes it lay, ``"dp=2, tp=4"``.
        placements: How, along each dimension of the mesh: ``"Shard(0)"``, ``"Replicate()"``.
        shape: The sizes of the part.
        bytes: The size of the part.
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
        reduction: How numbers are put together, ``"sum"``, if they are.
        group: Its name.
        order: Its number in the group; of a send, among those with this peer and tag.
        peer: The rank it went to, came from, or started at as the root; -1 if there is none.
        tag: What tells messages apart; -1 for a collective.
        given: Bytes that went in.
        received: Bytes that came out.
        scope: The scope it ran in; in backward, that whose forward made the grad node.
        op: The op that sent; None in backward.
        grad: The grad node that was running; None at the end of a backward pass.
        seconds: From the call until it was done; None where that is not heard.
        blocked_seconds: How long the program waited for it; None where that is not heard.
        waited_seconds: How long for the rank that came *last*, where ranks were put together.
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
