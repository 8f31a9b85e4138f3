"""Nested order: the positions of the nodes in every scope, which agree on the order of its ports.

Edges cross at the border of a scope if its ports are in another order than the edges around it. In
the first pass, from the innermost scope outwards, boxes follow the ports of the scopes inside. In
each further pass, the ports of a scope also follow the order that was found around it. So an order
is passed both ways, as between the nested graphs of Sander (1996).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from torchrecorder.layout.layered.ordering import Grid
from torchrecorder.layout.layered.port_order import in_order
from torchrecorder.layout.layered.ports import ScopeNets
from torchrecorder.layout.layered.scope_layout import ScopeLayout
from torchrecorder.layout.layered.sifting import PORT_SPACING, PortOrder, cost, crossings, sifted

PASSES = 3
"""The number of passes over all scopes; a scope is ordered again if the order inside or around it
has changed."""

PortRanks = tuple[tuple[int, ...], tuple[int, ...]]
"""The ranks of the exits and of the entries of a scope, from left to right."""


class OrderedScope(NamedTuple):
    """A scope with ordered nodes.

    Attributes:
        layout: Its boxes in layers.
        across: The positions of the nodes of its grid.
        ranks: The ranks of its ports.
        around: For its open children whose ports differ from the order of the edges around them:
            the ranks in that order.
    """

    layout: ScopeLayout
    across: list[float]
    ranks: PortRanks
    around: Mapping[int, PortRanks]


def ordered_scopes(
    scopes: Mapping[int, ScopeNets],
    number: Sequence[int],
    layouts: Sequence[ScopeLayout],
    places: Sequence[Sequence[float]],
) -> dict[int, OrderedScope]:
    """All scopes, inner ones first; equal ones are the same object.

    *number* is the index in *layouts* of each scope, after that of the paper. *places* are the
    positions of the nodes of each layout with all children closed.
    """
    order = partial(_ordered_scopes, scopes, number, layouts, places, {})
    found = order(follows=False)
    if all(found[scope].around == {} for scope in scopes):
        return found
    before = _crossings(scopes, found)
    if not before:
        return found
    other = order(follows=True)
    return other if _crossings(scopes, other) < before else found


def _crossings(scopes: Mapping[int, ScopeNets], found: Mapping[int, OrderedScope]) -> int:
    """The number of crossings in all scopes, with those at the ports of their open children."""
    known = dict[int, int]()  # of equal scopes, which are the same object
    for scope, ordered in found.items():
        if id(ordered) not in known:
            children = enumerate(scopes[scope].children)
            inside = {at: found[child].ranks for at, child in children if child in found}
            known[id(ordered)] = crossings(ordered.layout.grid, ordered.across, inside)
    return sum(known[id(ordered)] for ordered in found.values())


def _ordered_scopes(
    scopes: Mapping[int, ScopeNets],
    number: Sequence[int],
    layouts: Sequence[ScopeLayout],
    places: Sequence[Sequence[float]],
    known: dict[object, OrderedScope],
    *,
    follows: bool,
) -> dict[int, OrderedScope]:
    """See `ordered_scopes`; *follows* as for `sifted`, and *known* are scopes ordered before."""
    around: dict[int, PortRanks] = {}
    found: dict[int, OrderedScope] = {}
    for _ in range(PASSES):
        for scope in sorted(scopes, reverse=True):
            children, layout = scopes[scope].children, number[scope + 1]
            inside = {at: found[child].ranks for at, child in enumerate(children) if child in found}
            wanted = around.get(scope)
            key = layout, tuple(inside.items()), wanted, follows and wanted is not None
            if key not in known:
                across = positions(layouts[layout], places[layout], inside, wanted, follows=follows)
                known[key] = _ordered(layouts[layout], across, inside)
            found[scope] = known[key]
        before = dict(around)
        for scope, ordered in found.items():
            children = scopes[scope].children
            around.update((children[at], ranks) for at, ranks in ordered.around.items())
        if around == before:
            break
    return found


def positions(
    layout: ScopeLayout,
    places: Sequence[float],
    inside: PortOrder,
    around: PortRanks | None = None,
    *,
    follows: bool = False,
) -> list[float]:
    """The positions of all nodes for the order of the ports at open children; *places* are those
    with all children closed. The ports of the scope have the order of the program, or *around*."""
    grid, compared = layout.grid, crossings
    if around is not None:
        compared = cost  # two ports in another order than around the scope cross there
        exits, entries = map(_in_rank, (layout.exit, layout.entry), around)
        grid = replace(grid, inputs=entries, outputs=exits)
    across = sifted(grid, places, inside, follows=follows and around is not None)
    for group in layout.port_groups:
        if group.child in inside:
            ranks = inside[group.child][0 if group.exits else 1]
            ordered = in_order(across, group, ranks)
            if ordered != across:  # comparing takes a look at all edges of the scope
                across = min(across, ordered, key=lambda at: compared(grid, at, inside))
    return across


def _in_rank(nodes: Sequence[int], ranks: Sequence[int]) -> list[int]:
    """The nodes of ports in the order of their ranks."""
    return [node for _, node in sorted(zip(ranks, nodes))]


def _ordered(
    layout: ScopeLayout, across: list[float], inside: Mapping[int, PortRanks]
) -> OrderedScope:
    """A scope with its nodes at *across*, for these ranks of the ports of open children."""
    exits, entries = ([across[node] for node in ports] for ports in (layout.exit, layout.entry))
    around = _ranks_around(layout.grid, across, inside) if inside else {}
    differing = {child: ranks for child, ranks in around.items() if ranks != inside[child]}
    return OrderedScope(layout, across, (_ranks(exits), _ranks(entries)), differing)


def _ranks(places: Sequence[float]) -> tuple[int, ...]:
    """The rank of each port, from left to right."""
    found = sorted(range(len(places)), key=places.__getitem__)
    return tuple(sorted(range(len(places)), key=found.__getitem__))


def _ranks_around(
    grid: Grid, across: Sequence[float], inside: Mapping[int, PortRanks]
) -> dict[int, PortRanks]:
    """The ranks of the ports of open children by the other ends of their edges. Edges in lanes,
    which are beside everything, are the last."""
    ends = {
        child: tuple([list[float]() for _ in ports] for ports in ranks)
        for child, ranks in inside.items()
    }
    for number, (one, other, _) in enumerate(grid.edges):
        begin, end = across[one], across[other]
        if one in inside:
            begin += PORT_SPACING * inside[one][0][grid.leaving[number]]
        if other in inside:
            end += PORT_SPACING * inside[other][1][grid.entering[number]]
            ends[other][1][grid.entering[number]].append(begin)
        if one in inside:
            ends[one][0][grid.leaving[number]].append(end)
    return {
        child: (_ranks(_means(exits)), _ranks(_means(entries)))
        for child, (exits, entries) in ends.items()
    }


def _means(ends: Sequence[Sequence[float]]) -> list[float]:
    """The mean position of the other ends of the edges at each port."""
    return [sum(each) / len(each) if each else math.inf for each in ends]
