"""Plan: records a distributed run on one machine, without its devices and memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torchrecorder.checks import FLAG, WORD, Check, check_one, shown, suggests_names, whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.planning.translate import MeshLayout, Translator, is_equal, known_groups
from torchrecorder.planning.workers import PlanJob, Workers, check_factory, number_of_processors
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.lanes import first_ranks
from torchrecorder.ranks.ranks import Ranks

ALL = "all"
SIZE = whole_number(1)
MESH = Check(
    "sizes by name, such as {'dp': 8, 'tp': 8}",
    lambda value: isinstance(value, Mapping) and value
    and all(isinstance(name, str) and SIZE.holds(size) for name, size in value.items()),
)


@suggests_names
def plan(
    factory: Callable[[Any], Any],
    mesh: Mapping[str, int],
    *,
    world: int | None = None,
    ranks: Sequence[int] | Literal["all"] | None = None,
    backward: bool = True,
    name: str | None = None,
    num_workers: int | None = None,
) -> Ranks:
    """Record the ranks of a device mesh on one machine, with fake tensors.

    Each rank is recorded in a process of its own, with a fake process group that sends nothing. The
    factory is called with the meta device as the default device, and returns the parallel model.
    Its parameters are replaced by fake tensors, and one step runs.

    Args:
        factory: Called with the ``DeviceMesh``. Returns a pair of a model and its inputs (a tensor,
            a tuple, or a mapping of keyword arguments); a pair of a model and a step, which is a
            function without arguments; or a step alone. Other processes import the factory, so it
            must be defined at the top level of a module or script.
        mesh: The sizes of the mesh dimensions by name: ``{"dp": 8, "tp": 8}``.
        world: The world size, to check the product of the sizes.
        ranks: The ranks to record, or ``"all"``. By default the first and the last; if they are
            equal apart from their coordinates in the mesh, all others are assumed to be equal.
            Otherwise, all ranks along the dimensions in which ranks differ are recorded; of more
            than 32 along one dimension, as of uneven shards, only those that are needed to find
            where they change, and ranks between two equal ones are assumed to be equal.
        backward: Also run the backward pass, from the output named ``loss`` or from all outputs.
        name: The name of the run; by default the class of the model.
        num_workers: The number of ranks recorded in parallel; by default the number of CPUs.

    Returns:
        The joined run, without times and waits.

    Raises:
        InvalidArgument: The sizes do not match *world*, or the factory cannot be imported.
        Exception: An exception of the factory or the model, with a note that names the rank.

    Example:
        ``run = torchrecorder.plan(llama, {"dp": 8, "tp": 8})``, then ``run.render("plan.html")``.
    """
    check_factory(factory)
    check_one("mesh", mesh, MESH)
    check_one("backward", backward, FLAG)
    check_one("name", name, WORD.or_none())
    check_one("num_workers", num_workers, SIZE.or_none())
    layout = MeshLayout.from_sizes(mesh)
    if world is not None and world != layout.world:
        sizes = ", ".join(f"{dim}={size}" for dim, size in mesh.items())
        raise InvalidArgument(f"a mesh of {sizes} has {layout.world} processes, not {shown(world)}")
    wanted = _wanted(ranks, layout.world)
    job = PlanJob(factory, layout, backward, name)
    with tempfile.TemporaryDirectory(prefix="torchrecorder-") as folder:
        workers = Workers(job, Path(folder), num_workers or number_of_processors())
        if wanted is None:
            found, run = _RankSampling(workers, layout).digests()
        else:
            found = workers.run(wanted)
            run = {*found}
        digests = [found[rank] for rank in sorted(found)]
        firsts = first_ranks(digests)
        recordings = {rank: workers.recording(rank) for rank in firsts}
    return Ranks(digests, recordings, expected=found, assumed={*found} - run)


def _wanted(ranks: Any, world: int) -> set[int] | None:
    """The ranks to record; None if `_RankSampling` selects them."""
    if ranks is None:
        return None
    if isinstance(ranks, str) and ranks == ALL:
        return {*range(world)}
    if isinstance(ranks, Iterable) and not isinstance(ranks, (str, bytes)):
        found = list(ranks)
        if found and all(whole_number(0).holds(rank) and rank < world for rank in found):
            return {int(rank) for rank in found}
    raise InvalidArgument(
        f"ranks must be 'all' or a list of numbers from 0 to {world - 1}, not {shown(ranks)}"
    )


MANY = 32
"""The number of ranks along one dimension that are all recorded if they differ. Stages of pipelines
may differ in any order, and are few; shards of weights are sorted by size."""


class _RankSampling:
    """Finds the dimensions along which ranks differ, and records only the ranks that this needs."""

    def __init__(self, workers: Workers, layout: MeshLayout) -> None:
        self.workers = workers
        self.layout = layout
        self.known: dict[int, Digest] = {}
        # for each coordinate along each dimension, the one that it is equal to
        self.firsts = [[0] * size for size in layout.sizes]

    def digests(self) -> tuple[dict[int, Digest], set[int]]:
        """The digests of all ranks, and the ranks that were recorded."""
        last = self.layout.world - 1
        self._record([0, last])
        if not self._represents(0, last):
            ends = [self._along(dim, size - 1) for dim, size in enumerate(self.layout.sizes)]
            self._record(ends)
            for dim, end in enumerate(ends):
                if not self._represents(0, end):
                    self._find_firsts(dim)
            self._record(map(self._source, range(self.layout.world)))
            if not self._represents(self._source(last), last):
                self._record(range(self.layout.world))
        run, translator = {*self.known}, self._translator()
        for rank in set(range(self.layout.world)) - run:
            found = translator.digest(self.known[self._source(rank)], rank)
            if found is None:
                self.known = self.workers.run(range(self.layout.world))
                return self.known, {*self.known}
            self.known[rank] = found
        return self.known, run

    def _find_firsts(self, dim: int) -> None:
        """Find which coordinates along *dim*, whose ends differ, are equal to an earlier one."""
        firsts = self.firsts[dim]
        last = len(firsts) - 1
        if last < MANY:
            firsts[:] = range(len(firsts))
            return
        waiting = [(0, last)]  # between ranks that were recorded; the first is the lowest
        while waiting:
            low, high = waiting.pop()
            if self._represents(self._along(dim, low), self._along(dim, high)):
                for index in range(low + 1, high + 1):
                    firsts[index] = firsts[low]
            elif high - low == 1:
                firsts[high] = high
            else:
                middle = (low + high) // 2
                self._record([self._along(dim, middle)])
                waiting += [(middle, high), (low, middle)]

    def _record(self, ranks: Iterable[int]) -> None:
        self.known.update(self.workers.run({*ranks} - {*self.known}))

    def _along(self, dim: int, index: int) -> int:
        """The rank at this coordinate along *dim*, and the first along all others."""
        sizes = self.layout.sizes
        return self.layout.rank(tuple([index * (dim == other) for other in range(len(sizes))]))

    def _source(self, rank: int) -> int:
        """The recorded rank that *rank* is equal to."""
        place = zip(self.firsts, self.layout.place(rank))
        return self.layout.rank(tuple([firsts[index] for firsts, index in place]))

    def _translator(self) -> Translator:
        return Translator(self.layout, known_groups(self.known.values()))

    def _represents(self, source: int, rank: int) -> bool:
        """Whether two recorded ranks are equal, apart from their coordinates."""
        found = self._translator().digest(self.known[source], rank)
        return found is not None and is_equal(found, self.known[rank])
