"""What the statements of a job do in each rank: ``KINDS`` has them all."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.nn.functional import all_reduce as all_reduce_with_gradients
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module,
)
from torch.utils.checkpoint import checkpoint

from tests.generated.steps.kind import COLUMNS, ROWS, Kinds, pick

KINDS = Kinds()
kind = KINDS.kind


class Block(nn.Module):
    """Runs *steps*, which add tensors of ``ROWS`` rows and ``COLUMNS`` columns to a list."""

    def __init__(self, steps: Any, mesh: DeviceMesh) -> None:
        super().__init__()
        self.steps = steps
        self.mesh = mesh
        self.parts = nn.ModuleDict()
        for place, step in enumerate(steps):
            made = KINDS[step.kind].part
            if step.body:
                self.parts[str(place)] = Block(step.body, mesh)
            elif made is not None:
                self.parts[str(place)] = made(Place(mesh, step))

    def forward(self, live):
        """All tensors: the given ones and those of the steps."""
        live = [*live]
        for place, step in enumerate(self.steps):
            name = str(place)
            part = self.parts[name] if name in self.parts else None
            made = KINDS[step.kind].run(Place(self.mesh, step, part), live, step)
            if made is not None:
                live.append(made)
        return live


class Place:
    """Where a step runs: along one dimension of the mesh, in one rank.

    Attributes:
        part: The module of the step.
        whole: The mesh.
        mesh: Its dimension.
        index: The coordinate of the rank along the dimension.
        ranks: The ranks along it.
    """

    def __init__(self, mesh: DeviceMesh, step: Any, part: Any = None) -> None:
        names = mesh.mesh_dim_names
        assert names is not None
        name = names[step.one % len(names)]
        self.part = part
        self.whole, self.mesh = mesh, mesh[name]
        self.group = mesh.get_group(name)
        self.index = mesh.get_local_rank(name)
        self.ranks = dist.get_process_group_ranks(self.group)

    @property
    def size(self) -> int:
        """The number of ranks along the dimension."""
        return len(self.ranks)


def _linear(place: Any = None) -> nn.Module:
    return nn.Linear(COLUMNS, COLUMNS)


def _copy(live: list, step: Any) -> torch.Tensor:
    """A tensor that a collective may write."""
    return pick(live, step.other).detach() * 1


_REDUCTIONS = (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.AVG)

# Without communication ----------------------------------------------------------------------


@kind(_linear)
def linear(place, live, step):
    return place.part(pick(live, step.other))


@kind()
def add(place, live, step):
    return pick(live, step.one) + pick(live, step.other)


@kind(lambda place: nn.Linear(COLUMNS, COLUMNS + place.index))
def uneven(place, live, step):
    """A layer that is larger in later ranks."""
    return place.part(pick(live, step.other))[:, :COLUMNS]


@kind()
def first_only(place, live, step):
    return pick(live, step.other).relu() if place.index == 0 else None


@kind()
def last_only(place, live, step):
    return pick(live, step.other).tanh() if place.index == place.size - 1 else None


# Collectives --------------------------------------------------------------------------------


@kind()
def all_reduce(place, live, step):
    made = _copy(live, step)
    dist.all_reduce(made, _REDUCTIONS[step.other % 3], group=place.group)
    return made


@kind()
def all_reduce_later(place, live, step):
    made = _copy(live, step)
    work = dist.all_reduce(made, group=place.group, async_op=True)
    other = pick(live, step.one).relu()
    work.wait()
    return made + other


@kind()
def all_reduce_all(place, live, step):
    """In the default group."""
    made = _copy(live, step)
    dist.all_reduce(made)
    return made


@kind()
def all_gather(place, live, step):
    made = torch.zeros(place.size * ROWS, COLUMNS)
    dist.all_gather_into_tensor(made, _copy(live, step), group=place.group)
    return made[:ROWS]


@kind()
def all_gather_list(place, live, step):
    made = [torch.zeros(ROWS, COLUMNS) for _ in place.ranks]
    dist.all_gather(made, _copy(live, step), group=place.group)
    return sum(made)


@kind()
def reduce_scatter(place, live, step):
    made = torch.zeros(ROWS, COLUMNS)
    dist.reduce_scatter_tensor(made, _copy(live, step).repeat(place.size, 1), group=place.group)
    return made


@kind()
def all_to_all(place, live, step):
    given = _copy(live, step).repeat(place.size, 1)
    made = torch.zeros_like(given)
    dist.all_to_all_single(made, given, group=place.group)
    return made[:ROWS]


@kind()
def broadcast(place, live, step):
    made = _copy(live, step)
    dist.broadcast(made, place.ranks[step.other % place.size], group=place.group)
    return made


@kind()
def reduce(place, live, step):
    made = _copy(live, step)
    dist.reduce(made, place.ranks[step.other % place.size], group=place.group)
    return made


# A plan that records the ends of each dimension does not see what only a rank between them does,
# as the root of these two.


@kind()
def scatter(place, live, step):
    made, root = _copy(live, step), step.other % 2 * (place.size - 1)
    given = [made * number for number in place.ranks] if place.index == root else None
    dist.scatter(made, given, place.ranks[root], group=place.group)
    return made


@kind()
def gather(place, live, step):
    given, root = _copy(live, step), step.other % 2 * (place.size - 1)
    made = [torch.empty_like(given) for _ in place.ranks] if place.index == root else None
    dist.gather(given, made, place.ranks[root], group=place.group)
    return sum(made) if made else given


@kind()
def uneven_exchange(place, live, step):
    """Each rank sends as many rows to each as its number, as experts do."""
    rows = [1 + index for index in range(place.size)]
    given = torch.ones(place.size * (1 + place.index), COLUMNS)
    made = torch.empty(sum(rows), COLUMNS)
    dist.all_to_all_single(
        made, given, rows, [1 + place.index] * place.size, group=place.group
    )
    return made[:1] + _copy(live, step)


@kind(lambda place: _Pairs())
def in_pairs(place, live, step):
    """In groups of two neighbors, which the program makes."""
    made = _copy(live, step)
    dist.all_reduce(made, group=place.part.group)
    return made


class _Pairs(nn.Module):
    """The group of two neighbors, or of the last one alone."""

    def __init__(self):
        super().__init__()
        world = dist.get_world_size()
        for first in range(0, world, 2):
            ranks = [*range(first, min(first + 2, world))]
            group = dist.new_group(ranks)
            if dist.get_rank() in ranks:
                self.group = group


@kind()
def barrier(place, live, step):
    dist.barrier(group=place.group)


@kind()
def functional_all_reduce(place, live, step):
    return functional.all_reduce(pick(live, step.other).detach(), "sum", place.group) * 1


@kind()
def gathered_with_gradients(place, live, step):
    found = functional.all_gather_tensor_autograd(pick(live, step.other), 0, place.group)
    return (found * 1)[:ROWS]


@kind()
def reduced_with_gradients(place, live, step):
    return all_reduce_with_gradients(pick(live, step.other) * 1, group=place.group)


# Messages -----------------------------------------------------------------------------------


@kind()
def ring(place, live, step):
    """Each rank sends to the next one, and the last to the first."""
    if place.size == 1:
        return None
    made, given = torch.zeros(ROWS, COLUMNS), _copy(live, step)
    after = place.ranks[(place.index + 1) % place.size]
    before = place.ranks[place.index - 1]
    for work in dist.batch_isend_irecv([
        dist.P2POp(dist.isend, given, after, place.group),
        dist.P2POp(dist.irecv, made, before, place.group),
    ]):
        work.wait()
    return made


@kind(_linear)
def stage(place, live, step):
    """Each rank continues with what the one before has made."""
    x = pick(live, step.other)
    if place.index > 0:
        received = torch.zeros(ROWS, COLUMNS)
        dist.recv(received, place.ranks[place.index - 1], group=place.group, tag=step.other)
        x = x + received
    made = place.part(x)
    if place.index < place.size - 1:
        dist.send(
            made.detach(), place.ranks[place.index + 1], group=place.group, tag=step.other
        )
    return made


# Parallel layers ----------------------------------------------------------------------------


@kind(lambda place: fully_shard(_linear(), mesh=place.mesh))
def sharded(place, live, step):
    return place.part(pick(live, step.other))


def _replicated_shards(place: Any) -> nn.Module:
    names = place.whole.mesh_dim_names
    return fully_shard(_linear(), mesh=place.whole[names[:2]] if len(names) > 1 else place.whole)


@kind(_replicated_shards)
def sharded_and_replicated(place, live, step):
    """Sharded along one dimension, and replicated along another one, if there are two."""
    return place.part(pick(live, step.other))


def _split(place: Any) -> nn.Module:
    layers = nn.Sequential(nn.Linear(COLUMNS, 12), nn.ReLU(), nn.Linear(12, COLUMNS))
    return parallelize_module(
        layers, place.mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )


@kind(_split)
def split(place, live, step):
    return place.part(pick(live, step.other))


def _split_rows(place: Any) -> nn.Module:
    layer = nn.Sequential(nn.LayerNorm(COLUMNS))
    return parallelize_module(layer, place.mesh, {"0": SequenceParallel(sequence_dim=0)})


@kind(_split_rows)
def split_rows(place, live, step):
    return place.part(pick(live, step.other).repeat(place.size, 1)).full_tensor()[:ROWS]


@kind()
def redistributed(place, live, step):
    x = DTensor.from_local(pick(live, step.other), place.mesh, [Shard(0)])
    wanted = [Replicate(), Shard(1)][step.other % 2]
    return x.redistribute(placements=[wanted]).full_tensor()[:ROWS]


# Blocks -------------------------------------------------------------------------------------


@kind(block=True)
def module(place, live, step):
    return place.part(live)[-1]


@kind(block=True)
def loop(place, live, step):
    x = pick(live, step.other)
    for _ in range(1 + step.one % 3):
        x = place.part([x])[-1]
    return x


@kind(block=True)
def without_gradients(place, live, step):
    with torch.no_grad():
        return place.part(live)[-1]


@kind(block=True)
def checkpointed(place, live, step):
    def inner(x):
        return place.part([x])[-1]

    return checkpoint(inner, pick(live, step.other), use_reentrant=False)


@kind(block=True)
def first_stage(place, live, step):
    """Only in the first ranks along the dimension, whose groups are those across it."""
    return place.part(live)[-1] if place.index == 0 else None


# A fault ------------------------------------------------------------------------------------


@kind()
def mistake(place, live, step):
    """One rank calls what others do not, or gives another size."""
    wrong = dist.get_rank() == step.other % dist.get_world_size()
    if wrong or step.one % 2:
        dist.all_reduce(torch.ones(3 if wrong else 2))
