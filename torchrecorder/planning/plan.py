"""Plan: records a distributed run on one machine, without its devices and memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torchrecorder.checks import FLAG, WORD, Check, check_one, shown, suggests_names, whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.planning.translate import MeshLayout, is_equal, known_groups, translated
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
            Otherwise, all ranks along the dimensions in which ranks differ are recorded.
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
    job = PlanJob(factory, layout, backward, name or "")
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


def _wanted(ranks: Any, world: int) -> list[int] | None:
    """The ranks to record; None if `_RankSampling` selects them."""
    if ranks is None:
        return None
    if isinstance(ranks, str) and ranks == ALL:
        return list(range(world))
    if isinstance(ranks, Iterable) and not isinstance(ranks, (str, bytes)):
        found = list(ranks)
        if found and all(whole_number(0).holds(rank) and rank < world for rank in found):
            return sorted({int(rank) for rank in found})
    raise InvalidArgument(
        f"ranks must be 'all' or a list of numbers from 0 to {world - 1}, not {shown(ranks)}"
    )


class _RankSampling:
    """Finds the dimensions along which ranks differ, and records only the ranks that this needs."""

    def __init__(self, workers: Workers, layout: MeshLayout) -> None:
        self.workers = workers
        self.layout = layout
        self.known: dict[int, Digest] = {}

    def digests(self) -> tuple[dict[int, Digest], set[int]]:
        """The digests of all ranks, and the ranks that were recorded."""
        last = self.layout.world - 1
        self._record([0, last])
        if not self._represents(0, last):
            ends = [self._source(last, [dim]) for dim in range(len(self.layout.sizes))]
            self._record(ends)
            differ = [dim for dim, end in enumerate(ends) if not self._represents(0, end)]
            self._record(self._source(rank, differ) for rank in range(self.layout.world))
            if not self._represents(self._source(last, differ), last):
                self._record(range(self.layout.world))
        else:
            differ = []
        run = {*self.known}
        groups = known_groups(self.known.values())
        for rank in set(range(self.layout.world)) - run:
            source = self.known[self._source(rank, differ)]
            found = translated(source, rank, self.layout, groups)
            if found is None:
                self.known = self.workers.run(range(self.layout.world))
                return self.known, {*self.known}
            self.known[rank] = found
        return self.known, run

    def _record(self, ranks: Iterable[int]) -> None:
        self.known.update(self.workers.run(sorted({*ranks} - {*self.known})))

    def _source(self, rank: int, differ: Sequence[int]) -> int:
        """The first rank along all dimensions that are not in *differ*: *rank* equals it."""
        place = self.layout.place(rank)
        return self.layout.rank(
            tuple([index if dim in differ else 0 for dim, index in enumerate(place)])
        ) or 0

    def _represents(self, source: int, rank: int) -> bool:
        """Whether two recorded ranks are equal, apart from their coordinates."""
        groups = known_groups(self.known.values())
        found = translated(self.known[source], rank, self.layout, groups)
        return found is not None and is_equal(found, self.known[rank])
