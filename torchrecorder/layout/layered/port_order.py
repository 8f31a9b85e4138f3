"""Loose: order boxes that are connected to only one module like the ports of that module.

Each scope is laid out with its children closed, when the positions of lines at an open module are
unknown. Boxes without other connections, mostly inputs and outputs, are reordered when they are
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.ports import OUTSIDE, Net


class Loose(NamedTuple):
    """Boxes that are connected to one child only, in a neighbouring row of it.

    Attributes:
        child: The child.
        exits: Whether they read outputs of the child; else they feed it.
        ends: For each box the port of the child, and the number of the box.
    """

    child: int
    exits: bool
    ends: tuple[tuple[int, int], ...]


def loose(nets: Sequence[Net], row: Sequence[int]) -> list[Loose]:
    """The loose boxes of a scope, if there are several at one child."""
    read: Counter[int] = Counter()
    made: Counter[int] = Counter()
    for net in nets:
        made[net.source.child] += len(net.sinks)
        read.update(sink.child for sink in net.sinks)
    found: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for net in nets:
        if len(net.sinks) > 1 or OUTSIDE in (net.source.child, net.sinks[0].child):
            continue
        source, sink = net.source, net.sinks[0]
        if row[sink.child] != row[source.child] + 1:
            continue
        if read[sink.child] == 1 and not made[sink.child]:
            found.setdefault((source.child, True), []).append((source.port, sink.child))
        elif made[source.child] == 1 and not read[source.child]:
            found.setdefault((sink.child, False), []).append((sink.port, source.child))
    return [
        Loose(child, exits, tuple(ends))
        for (child, exits), ends in found.items()
        if len(ends) > 1
    ]


def in_order(across: Sequence[float], each: Loose, ports: Sequence[float]) -> list[float]:
    """*across* with loose boxes in the order of the *ports* that they are connected to."""
    found = list(across)
    boxes = [box for _, box in sorted(each.ends, key=lambda end: (ports[end[0]], end[0]))]
    for box, place in zip(boxes, sorted(across[box] for box in boxes)):
        found[box] = place
    return found
