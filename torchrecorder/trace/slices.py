"""Slices: events of a profiler, their owners, and sums per owner.

While a profiler runs, each op and scope is a range named by its id, and each grad node has a mark
inside the slice in which the autograd engine runs it. Ops, scopes and nodes own the slices inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torchrecorder.errors import InvalidArgument
from torchrecorder.events import (
    BYTES_ALLOCATED, BYTES_FREED, FLOPS_PROFILED, KERNELS, SECONDS_OF_GAPS, SECONDS_OF_KERNELS,
    SECONDS_ON_CPU,
)
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.recording import RecordedRun, RecordingT

MARK = "torchrecorder "
"""The prefix of names of the recorder's ranges, before the id."""

ENGINE = "autograd::engine::evaluate_function"
"""The prefix of names of slices in which the engine runs a grad node."""

QUANTITIES = (
    SECONDS_ON_CPU, SECONDS_OF_KERNELS, KERNELS, SECONDS_OF_GAPS, BYTES_ALLOCATED, BYTES_FREED,
    FLOPS_PROFILED,
)
"""The quantities of each op and grad node."""


class Kernel(NamedTuple):
    """A kernel, copy or memset on a device. Times are in seconds."""

    name: str
    seconds: float
    gap: float | None  # from the launching call to the start


@dataclass(frozen=True, slots=True)
class Slice:
    """An event on a thread of the CPU, with times in microseconds, and what it did itself."""

    name: str
    begin: float
    end: float
    thread: object  # slices of one thread are nested or disjoint
    allocated: float = 0  # bytes, as *freed*
    freed: float = 0
    flops: float = 0  # if the profiler counts them
    kernels: tuple[Kernel, ...] = ()


class OwnedSlice(NamedTuple):
    """A slice with its owner, and its own time in microseconds, without inner slices."""

    slice: Slice
    owner: str | None
    own: float


def owned(slices: Iterable[Slice]) -> Iterator[OwnedSlice]:
    """Each slice with the id of its op, scope or grad node; recorder ranges have no own time."""
    for found in grouped((slice_.thread, slice_) for slice_ in slices).values():
        found.sort(key=lambda item: (item.begin, -item.end))
        yield from _in_thread(found)


def _in_thread(slices: Sequence[Slice]) -> Iterator[OwnedSlice]:
    parents = list(enclosing(slices))
    nodes = _nodes(slices, parents)
    own = [slice_.end - slice_.begin for slice_ in slices]
    owners: list[str | None] = []
    for place, (entry, parent) in enumerate(zip(slices, parents)):
        around = owners[parent] if parent >= 0 else None
        if entry.name.startswith(MARK):
            owners.append(marked(entry.name))
            continue
        outside = parent
        while outside >= 0 and slices[outside].name.startswith(MARK):
            outside = parents[outside]
        if outside >= 0:
            own[outside] -= entry.end - entry.begin
        owners.append(nodes.get(place, around))
    for item, owner, spent in zip(slices, owners, own):
        yield OwnedSlice(item, owner, 0.0 if item.name.startswith(MARK) else spent)


def enclosing(slices: Sequence[Slice]) -> Iterator[int]:
    """For each slice the index of the one around it; -1 without one."""
    around: list[int] = []
    for place, slice_ in enumerate(slices):
        while around and slices[around[-1]].end < slice_.end:
            around.pop()
        while around and slices[around[-1]].end <= slice_.begin < slice_.end:
            around.pop()
        yield around[-1] if around else -1
        around.append(place)


def _nodes(slices: Sequence[Slice], parents: Sequence[int]) -> dict[int, str]:
    """The grad nodes whose mark lies in each slice of the engine."""
    found: dict[int, str] = {}
    for slice_, parent in zip(slices, parents):
        name = marked(slice_.name)
        if name is None or not name.startswith("g"):
            continue
        while parent >= 0 and not slices[parent].name.startswith(ENGINE):
            parent = parents[parent]
        if parent >= 0:
            found[parent] = name
    return found


def marked(name: str) -> str | None:
    """The id in the name of a range of the recorder; None for other names."""
    return name[len(MARK) :].partition(" ")[0] if name.startswith(MARK) else None


def profiled(recording: RecordingT, slices: Sequence[Slice]) -> RecordingT:
    """*recording* with the measurements of its nodes; raises if *slices* are of another run."""
    ids = {marked(slice_.name) for slice_ in slices} - {None}
    known = {*recording.ops, *recording.scopes, *recording.grad_nodes}
    if not ids:
        raise InvalidArgument(
            "the profile has no range of torchrecorder: profile the block of a recorder, "
            "with profile() as prof, Recorder(model, profiler=prof) as recorder"
        )
    if strange := sorted(str(identifier) for identifier in ids - known):
        raise InvalidArgument(
            f"the profile is of another run than {recording.name}: this has no {strange[0]!r}"
        )
    found = _amounts(recording, owned(slices))
    kept = {key: one for key, one in recording.measured.items() if key not in QUANTITIES}
    return replace(recording, measured={**kept, **{key: one for key, one in found.items() if one}})


def _amounts(recording: RecordedRun, owned: Iterable[OwnedSlice]) -> Mapping[str, dict[str, float]]:
    """The sums over the slices of each op and grad node."""
    amounts: dict[str, dict[str, float]] = {quantity: {} for quantity in QUANTITIES}

    def add(quantity: str, owner: str, amount: float) -> None:
        amounts[quantity][owner] = amounts[quantity].get(owner, 0) + amount

    on_device = False
    for item, owner, own in owned:
        if owner is None or owner in recording.scopes:
            continue
        add(SECONDS_ON_CPU, owner, own / 1e6)
        add(BYTES_ALLOCATED, owner, item.allocated)
        add(BYTES_FREED, owner, item.freed)
        if item.flops:
            add(FLOPS_PROFILED, owner, item.flops)
        for kernel in item.kernels:
            on_device = True
            add(KERNELS, owner, 1)
            add(SECONDS_OF_KERNELS, owner, kernel.seconds)
            if kernel.gap is not None:
                add(SECONDS_OF_GAPS, owner, kernel.gap)
    if on_device:  # an op without a kernel has the number 0
        for owner in amounts[SECONDS_ON_CPU]:
            add(KERNELS, owner, 0)
    return amounts
