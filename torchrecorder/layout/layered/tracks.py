"""Gaps: the space between two rows, where lines run sideways, each on a track of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.constants import (
    ARROW,
    ASIDE,
    BAND,
    BEFORE,
    CLOSE,
    GAP,
    INSET,
    LEVEL,
    PORTS,
    TRACK,
)


class Run(NamedTuple):
    """The extent of one net in a gap: where it comes from, and how far it goes to both sides."""

    origin: float
    left: float
    right: float


def tracks(runs: Mapping[int, Run]) -> dict[int, int]:
    """The track of each net that moves sideways; nets whose ways overlap have different ones.

    The order keeps lines that run to the same side from crossing each other.
    """
    moving = [net for net, run in runs.items() if run.right - run.left >= LEVEL]
    moving.sort(key=lambda net: _order(runs[net], net))
    track: dict[int, int] = {}
    used: list[list[Run]] = []
    for net in moving:
        run = runs[net]
        below = len(used)
        while below and not _meet(run, used[below - 1]):
            below -= 1
        if below == len(used):
            used.append([])
        used[below].append(run)
        track[net] = below
    return track


def _meet(run: Run, others: Iterable[Run]) -> bool:
    """Whether a line would run into one of *others* on the same track."""
    left, right = run.left - 2, run.right + 2
    return any(other.right >= left and other.left <= right for other in others)


def _order(run: Run, net: int) -> tuple[float, ...]:
    """To the right: what comes from furthest right first; to the left: from furthest left."""
    rightwards = run.right - run.origin >= run.origin - run.left
    return (0, -run.origin, net) if rightwards else (1, run.origin, net)


def height(track: Mapping[int, int], straight: float = GAP) -> float:
    """How high a gap with these tracks is; *straight* if there are none."""
    count = max(track.values(), default=-1) + 1
    return BEFORE + pitch(count) * (count - 1) + ARROW if count else straight


def pitch(count: int) -> float:
    """Points from one to the next of *count* tracks."""
    return min(TRACK, BAND / max(count, 1))


def slots(wanted: Sequence[float], center: float, width: float) -> list[float]:
    """Where lines that come from *wanted* meet a side of a box, in the same order.

    Where all of them can, they come straight. Else the one that comes nearest to the middle
    takes it, or a place near it to be straight, and the others stand beside it.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda number: (wanted[number], number))
    if _fits([wanted[number] for number in order], center, width):
        return list(wanted)
    nearest = min(range(len(order)), key=lambda seat: (abs(wanted[order[seat]] - center), seat))
    room = max(width / 2 - INSET, 1.0)
    apart = min(PORTS, 2 * room / max(len(order) - 1, 1))
    left, right = nearest * apart, (len(order) - 1 - nearest) * apart
    straight = wanted[order[nearest]]
    middle = straight if abs(straight - center) <= ASIDE else center
    middle = max(center + left - room, min(middle, center + room - right))
    found = [0.0] * len(order)
    for seat, number in enumerate(order):
        found[number] = middle + (seat - nearest) * apart
    return found


def _fits(wanted: Sequence[float], center: float, width: float) -> bool:
    """Whether lines can meet a side just where they come from: around its middle, and apart."""
    middle = (wanted[0] + wanted[-1]) / 2
    return (
        abs(middle - center) <= ASIDE
        and max(center - wanted[0], wanted[-1] - center) <= width / 2 - INSET
        and all(after - before >= CLOSE for before, after in zip(wanted, wanted[1:]))
    )
