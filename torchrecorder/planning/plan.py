"""plan: a run of many processes, recorded on one machine, without their devices and memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

from torchrecorder.checks import FLAG, WORD, Check, advised, check_one, shown, whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.planning.layout import Layout
from torchrecorder.planning.moved import did_the_same, known_groups, moved
from torchrecorder.planning.workers import Job, Workers, check_factory, number_of_processors
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.lanes import sort_alike
from torchrecorder.ranks.ranks import Ranks

ALL = "all"
SIZE = whole_number(1)
MESH = Check(
    "sizes by name, such as {'dp': 8, 'tp': 8}",
    lambda value: isinstance(value, Mapping) and value
    and all(isinstance(name, str) and SIZE.holds(size) for name, size in value.items()),
)


@advised
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
    """Record what the processes of a mesh would do, without any of them, on fake tensors.

    Each rank that is recorded is a process of its own, with a process group that sends nothing.
    The factory is called where tensors are made on the meta device, and gives the parallel model;
    its weights become fake tensors, and one step runs.

    Args:
        factory: Called with the ``DeviceMesh``. Gives a model and its inputs (a tensor, a tuple,
            or a mapping of keyword arguments), as a pair; or a model and a step, a function
            without arguments that runs it; or a step alone. Other processes import it: it is
            defined at the top level of a module or script.
        mesh: Sizes of the dimensions, by name: ``{"dp": 8, "tp": 8}``.
        world: How many processes there are, as a check of the sizes.
        ranks: Which are recorded; ``"all"``; or, if not given, the first and the last. If both did
            the same at their places in the mesh, all others are taken to do so. If not, it is
            found along which dimensions processes differ, and all are recorded along those.
        backward: Run the backward pass, too: from the output called ``loss``, or all outputs.
        name: Name of the run; the class of the model if not given.
        num_workers: How many ranks are recorded at a time; as many as there are processors.

    Returns:
        The run; no times are known, and nothing was waited for.

    Raises:
        InvalidArgument: The sizes do not fit, or the factory cannot be imported.
        Exception: What the factory or the model raises, with a note that says in which rank.

    Example:
        ``run = torchrecorder.plan(llama, {"dp": 8, "tp": 8})``, then ``run.render("plan.html")``.
    """
    check_factory(factory)
    check_one("mesh", mesh, MESH)
    check_one("backward", backward, FLAG)
    check_one("name", name, WORD.or_none())
    check_one("num_workers", num_workers, SIZE.or_none())
    layout = Layout.of(mesh)
    if world is not None and world != layout.world:
        sizes = ", ".join(f"{dim}={size}" for dim, size in mesh.items())
        raise InvalidArgument(f"a mesh of {sizes} has {layout.world} processes, not {shown(world)}")
    wanted = _wanted(ranks, layout.world)
    job = Job(factory, layout, backward, name or "")
    with tempfile.TemporaryDirectory(prefix="torchrecorder-") as folder:
        workers = Workers(job, Path(folder), num_workers or number_of_processors())
        if wanted is None:
            found, run = _Probed(workers, layout).digests()
        else:
            found = workers.run(wanted)
            run = {*found}
        digests = [found[rank] for rank in sorted(found)]
        firsts = [alike[0].rank.rank for alike in sort_alike(digests)]
        recordings = {rank: workers.recording(rank) for rank in firsts}
    return Ranks(digests, recordings, expected=found, assumed={*found} - run)


def _wanted(ranks: Any, world: int) -> list[int] | None:
    """The ranks to record; None if that is to be found out."""
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


class _Probed:
    """Finds along which dimensions processes differ, and records no more than that takes."""

    def __init__(self, workers: Workers, layout: Layout) -> None:
        self.workers = workers
        self.layout = layout
        self.known: dict[int, Digest] = {}

    def digests(self) -> tuple[dict[int, Digest], set[int]]:
        """The digests of all ranks, and which of them were run."""
        last = self.layout.world - 1
        self._record([0, last])
        if not self._stands_for(0, last):
            ends = [self._end(dim) for dim in range(len(self.layout.sizes))]
            self._record(ends)
            differ = [dim for dim, end in enumerate(ends) if not self._stands_for(0, end)]
            self._record(self._along(differ or range(len(ends))))
            if not self._stands_for(self._source(last, differ), last):
                self._record(range(self.layout.world))
        else:
            differ = []
        run = {*self.known}
        groups = known_groups(self.known.values())
        for rank in set(range(self.layout.world)) - run:
            source = self.known[self._source(rank, differ)]
            found = moved(source, rank, self.layout, groups)
            if found is None:
                return self._all()
            self.known[rank] = found
        return self.known, run

    def _all(self) -> tuple[dict[int, Digest], set[int]]:
        self.known = self.workers.run(range(self.layout.world))
        return self.known, {*self.known}

    def _record(self, ranks: Iterable[int]) -> None:
        self.known.update(self.workers.run(sorted({*ranks} - {*self.known})))

    def _end(self, dim: int) -> int:
        """The last rank along one dimension, first along all others."""
        place = [0 for _ in self.layout.sizes]
        place[dim] = self.layout.sizes[dim] - 1
        return self.layout.rank(tuple(place)) or 0

    def _along(self, dims: Iterable[int]) -> list[int]:
        """All ranks along these dimensions, first along the others."""
        sizes = [
            range(size) if dim in {*dims} else range(1)
            for dim, size in enumerate(self.layout.sizes)
        ]
        return [self.layout.rank(place) or 0 for place in product(*sizes)]

    def _source(self, rank: int, differ: Sequence[int]) -> int:
        """Which rank does the same, if those along the other dimensions do."""
        place = self.layout.place(rank)
        return self.layout.rank(
            tuple([index if dim in differ else 0 for dim, index in enumerate(place)])
        ) or 0

    def _stands_for(self, source: int, rank: int) -> bool:
        """Whether a rank that was run did what another did that was run."""
        groups = known_groups(self.known.values())
        found = moved(self.known[source], rank, self.layout, groups)
        return found is not None and did_the_same(found, self.known[rank])
