"""Port order: order boxes that are connected to a single child like the ports of that child.

Each scope is laid out with its children closed, before the positions of ports at an open child are
known. When they are known, boxes without other connections, mostly inputs and outputs, are
reordered, with the edges that pass layers on the way to them. So are the ports of a scope that are
connected to a single child inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from torchrecorder.layout.layered.ports import OUTSIDE, End, Net


class PortGroup(NamedTuple):
    """Boxes, or ports of the scope, that are connected to one child only.

    Attributes:
        child: The child.
        exits: Whether they read outputs of the child; else they feed it.
        ends: For each box the port of the child, and the nodes of its edge and of itself in the
            grid, one in each layer from the child to the box.
    """

    child: int
    exits: bool
    ends: tuple[tuple[int, tuple[int, ...]], ...]


def port_groups(
    nets: Sequence[Net],
    entry: Sequence[int],
    exit: Sequence[int],
    between: Sequence[Sequence[int]],
) -> list[PortGroup]:
    """The port groups of a scope: at least two boxes at one child.

    *entry* and *exit* are the nodes of the ports of the scope; *between* are the dummy nodes on the
    way of each net to its first sink.
    """
    read: Counter[int] = Counter()
    made: Counter[int] = Counter()
    for net in nets:
        made[net.source.child] += len(net.sinks)
        read.update(sink.child for sink in net.sinks)

    def is_alone(end: End, its: Counter[int], other: Counter[int]) -> bool:
        """Whether it is a port of the scope, or the only edge of its child."""
        return end.child == OUTSIDE or its[end.child] == 1 and not other[end.child]

    found: dict[tuple[int, bool], list[tuple[int, tuple[int, ...]]]] = {}
    for (source, (sink, *others), _), passed in zip(nets, between):
        enters, exits = source.child == OUTSIDE, sink.child == OUTSIDE
        if others and not passed and not enters:  # all sinks are in the next layer
            sinks = [sink, *others]
            if all(end.child != OUTSIDE and is_alone(end, read, made) for end in sinks):
                ends = found.setdefault((source.child, True), [])
                ends += [(source.port, (end.child,)) for end in sinks]
        if others or any(node < 0 for node in passed):  # in a lane
            continue
        if is_alone(sink, read, made) and not enters:
            way = (*passed, exit[sink.port] if exits else sink.child)
            found.setdefault((source.child, True), []).append((source.port, way))
        elif is_alone(source, made, read) and not exits:
            way = (*reversed(passed), entry[source.port] if enters else source.child)
            found.setdefault((sink.child, False), []).append((sink.port, way))
    return [
        PortGroup(child, exits, tuple(ends))
        for (child, exits), ends in found.items()
        if len(ends) > 1
    ]


def in_order(across: Sequence[float], each: PortGroup, ports: Sequence[float]) -> list[float]:
    """*across* with the boxes of a group, and the edges on the way to them, in each layer in the
    order of the *ports* that they are connected to."""
    found = list(across)
    ways = [way for _, way in sorted(each.ends, key=lambda end: (ports[end[0]], end[0]))]
    for layer in zip_longest(*ways):
        nodes = [node for node in layer if node is not None]
        for node, place in zip(nodes, sorted(across[node] for node in nodes)):
            found[node] = place
    return found
