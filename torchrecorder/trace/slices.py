"""Slices: what a profiler saw, whose it is, and what it adds up to.

While a profiler runs, each op and scope is a range named by its id, and each grad node leaves a
mark inside the slice in which autograd's engine runs it. Whatever lies in these is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from torchrecorder.errors import InvalidArgument
from torchrecorder.events import (
    BYTES_ALLOCATED,
    BYTES_FREED,
    FLOPS_PROFILED,
    KERNELS,
    SECONDS_ON_CPU,
    SECONDS_OF_GAPS,
    SECONDS_OF_KERNELS,
)
from torchrecorder.graph.recording import Made, RecordedRun

MARK = "torchrecorder "
"""What the names of our ranges begin with; the id follows."""

ENGINE = "autograd::engine::evaluate_function"
"""What the names of the slices begin with in which the engine runs a grad node."""

QUANTITIES = (
    SECONDS_ON_CPU, SECONDS_OF_KERNELS, KERNELS, SECONDS_OF_GAPS, BYTES_ALLOCATED, BYTES_FREED,
    FLOPS_PROFILED,
)
"""What is said of each op and grad node."""


class Kernel(NamedTuple):
    """Something that ran on a device: a kernel, a copy, a memset. Times in seconds.

    Attributes:
        gap: From the call that launched it until it began; None where that is not known.
    """

    name: str
    seconds: float
    gap: float | None


@dataclass(frozen=True, slots=True)
class Slice:
    """What ran on a thread of the CPU from one time to another, in microseconds.

    Attributes:
        thread: Any name of the thread: slices of one thread lie in each other or apart.
        sequence: Autograd's number for it; -1 if it has none.
        allocated: Bytes that it asked for itself.
        freed: Bytes that it gave back itself.
        flops: Floating-point operations, where the profiler counts them.
        kernels: What it launched itself.
    """

    name: str
    begin: float
    end: float
    thread: object
    sequence: int = -1
    allocated: float = 0
    freed: float = 0
    flops: float = 0
    kernels: tuple[Kernel, ...] = ()


class Owned(NamedTuple):
    """A slice with its owner, and the microseconds in it that are in no slice inside of it."""

    slice: Slice
    owner: str | None
    own: float


def owned(slices: Iterable[Slice]) -> Iterator[Owned]:
    """Each slice with the id of the op, scope or grad node that it belongs to.

    Our own ranges take no time: what they hold is in the slices inside of them.
    """
    threads: dict[object, list[Slice]] = {}
    for slice_ in slices:
        threads.setdefault(slice_.thread, []).append(slice_)
    for found in threads.values():
        found.sort(key=lambda item: (item.begin, -item.end))
        yield from _in_thread(found)


def _in_thread(slices: Sequence[Slice]) -> Iterator[Owned]:
    parents = list(_parents(slices))
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
        yield Owned(item, owner, 0.0 if item.name.startswith(MARK) else spent)


def _parents(slices: Sequence[Slice]) -> Iterator[int]:
    """For each slice the place of the one around it; -1 if there is none."""
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
    """The id in the name of one of our ranges; None if it is another."""
    return name[len(MARK) :].partition(" ")[0] if name.startswith(MARK) else None


def profiled(recording: Made, slices: Sequence[Slice]) -> Made:
    """*recording* with what *slices* say of its ops and grad nodes.

    Raises:
        InvalidArgument: They have none of our ranges, or those of another run.
    """
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
    measured = {**kept, **{key: MappingProxyType(one) for key, one in found.items() if one}}
    return replace(recording, measured=MappingProxyType(measured))


def _amounts(recording: RecordedRun, found: Iterable[Owned]) -> Mapping[str, dict[str, float]]:
    """What the slices of each op and grad node add up to."""
    amounts: dict[str, dict[str, float]] = {quantity: {} for quantity in QUANTITIES}

    def add(quantity: str, owner: str, amount: float) -> None:
        amounts[quantity][owner] = amounts[quantity].get(owner, 0) + amount

    on_device = False
    for item, owner, own in found:
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
    if on_device:  # an op without a kernel has none, which is a number too
        for owner in amounts[SECONDS_ON_CPU]:
            add(KERNELS, owner, 0)
    return amounts
