"""Port order: order boxes that are connected to a single child like the ports of that child.

Each scope is laid out with its children closed, before the positions of ports at an open child are
known. When they are known, boxes without other connections, mostly inputs and outputs, are
reordered. So are the ports of a scope that are connected to a single child inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from torchrecorder.layout.layered.ports import OUTSIDE, End, Net


class PortGroup(NamedTuple):
    """Boxes, or ports of the scope, that are connected to one child only, in an adjacent layer.

    Attributes:
        child: The child.
        exits: Whether they read outputs of the child; else they feed it.
        ends: For each box the port of the child, and the node of the box in the grid.
    """

    child: int
    exits: bool
    ends: tuple[tuple[int, int], ...]


def port_groups(
    nets: Sequence[Net], row: Sequence[int], entry: Sequence[int], exit: Sequence[int]
) -> list[PortGroup]:
    """The port groups of a scope: at least two boxes at one child.

    *row* is the layer of each child; *entry* and *exit* are the nodes of the ports of the scope.
    """
    read: Counter[int] = Counter()
    made: Counter[int] = Counter()
    for net in nets:
        made[net.source.child] += len(net.sinks)
        read.update(sink.child for sink in net.sinks)
    rows = max(row, default=-1) + 1

    def only_reads(end: End) -> bool:
        return end.child == OUTSIDE or read[end.child] == 1 and not made[end.child]

    def only_feeds(end: End) -> bool:
        return end.child == OUTSIDE or made[end.child] == 1 and not read[end.child]

    found: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for net in nets:
        source, sink = net.source, net.sinks[0]
        enters, exits = source.child == OUTSIDE, sink.child == OUTSIDE
        begin, end = -1 if enters else row[source.child], rows if exits else row[sink.child]
        if len(net.sinks) > 1 or end != begin + 1:
            continue
        if only_reads(sink) and not enters:
            node = exit[sink.port] if exits else sink.child
            found.setdefault((source.child, True), []).append((source.port, node))
        elif only_feeds(source) and not exits:
            node = entry[source.port] if enters else source.child
            found.setdefault((sink.child, False), []).append((sink.port, node))
    return [
        PortGroup(child, exits, tuple(ends))
        for (child, exits), ends in found.items()
        if len(ends) > 1
    ]


def in_order(across: Sequence[float], each: PortGroup, ports: Sequence[float]) -> list[float]:
    """*across* with the boxes of a group in the order of the *ports* that they are connected to."""
    found = list(across)
    boxes = [box for _, box in sorted(each.ends, key=lambda end: (ports[end[0]], end[0]))]
    for box, place in zip(boxes, sorted(across[box] for box in boxes)):
        found[box] = place
    return found
