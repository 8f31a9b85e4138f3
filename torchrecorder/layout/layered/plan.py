"""Plan: lay out every distinct scope of a tree of items once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torchrecorder.layout import engine
from torchrecorder.layout.layered.ordering import columns
from torchrecorder.layout.layered.scope_layout import ScopeLayout
from torchrecorder.layout.layered.equal_branches import structures
from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.port_order import in_order
from torchrecorder.layout.layered.ports import Carried, ScopeNets, scope_nets
from torchrecorder.layout.layered.sifting import PortOrder, crossings, sifted
from torchrecorder.layout.layered.template import Template

Direction = Literal["TB", "LR", "BT", "RL"]


@dataclass(frozen=True)
class Plan:
    """Scopes that are laid out with their children closed.

    Attributes:
        items: The items.
        direction: The direction of the flow.
        templates: The distinct scopes.
        template: For the paper and then each item, the number of its template; -1 without
            children.
        carried: For the paper and then each item, the tensor of each trunk of its template.
    """

    items: tuple[Item, ...]
    direction: Direction
    templates: tuple[Template, ...]
    template: tuple[int, ...]
    carried: tuple[tuple[Carried, ...], ...]

    def children(self) -> list[list[int]]:
        """The items in each scope, in their order; the paper first."""
        found: list[list[int]] = [[] for _ in range(len(self.items) + 1)]
        for number, item in enumerate(self.items):
            found[item.parent + 1].append(number)
        return found


def plan(
    items: Sequence[Item],
    links: Sequence[Link],
    direction: Direction = "TB",
    *,
    timeout: float = engine.TIMEOUT,
) -> Plan:
    """Lay out every distinct scope of *items*.

    Args:
        items: The items, each after the item around it.
        links: Edges between items without children.
        direction: The direction of the flow.
        timeout: The maximum time of all runs of Graphviz, in seconds; after it, boxes are
            ordered without Graphviz.
    """
    turned = direction in ("LR", "RL")
    found = scope_nets(items, links)
    layouts: list[ScopeLayout] = []
    numbers: dict[object, int] = {}
    sizes: dict[object, int] = {}
    size = [sizes.setdefault((i.width, i.height, i.first), len(sizes)) for i in items]
    structure = structures(items, found)
    template = [-1] * (len(items) + 1)
    for scope, level in found.items():
        known = dict[int, int]()
        equal = [known.setdefault(structure[child], len(known)) for child in level.children]
        key = tuple([size[child] for child in level.children]), tuple(equal), level.key()
        if key not in numbers:
            numbers[key] = len(layouts)
            layouts.append(ScopeLayout(level, items, structure, turned))
        template[scope + 1] = numbers[key]
    places = columns([layout.grid for layout in layouts], timeout=timeout)
    templates = _templates(found, template, layouts, places)
    return Plan(
        tuple(items),
        direction,
        templates,
        tuple(template),
        tuple(
            found[scope].values() if scope in found else () for scope in range(-1, len(items))
        ),
    )


def _templates(
    scopes: Mapping[int, ScopeNets],
    number: list[int],
    layouts: Sequence[ScopeLayout],
    places: Sequence[Sequence[float]],
) -> tuple[Template, ...]:
    """The templates of all scopes, inner ones first. *number* has indices of layouts at first, and
    of templates at the end."""
    known: dict[object, int] = {}
    templates: list[Template] = []
    ranks: list[tuple[tuple[int, ...], tuple[int, ...]]] = []  # of the exits and entries of each
    for scope in sorted(scopes, reverse=True):
        layout = layouts[number[scope + 1]]
        inside = [number[child + 1] for child in scopes[scope].children]
        orders = {child: ranks[inner] for child, inner in enumerate(inside) if inner >= 0}
        key = number[scope + 1], tuple(orders.items())
        if key not in known:
            known[key] = len(templates)
            templates.append(layout.template(_across(layout, places[key[0]], orders)))
            ranks.append((_order(templates[-1].exits), _order(templates[-1].entries)))
        number[scope + 1] = known[key]
    return tuple(templates)


def _across(layout: ScopeLayout, places: Sequence[float], orders: PortOrder) -> list[float]:
    """The positions of all nodes for the *orders* of the ports at open children; *places* are those
    with all children closed."""
    across = sifted(layout.grid, places, orders)
    for group in layout.port_groups:
        if group.child in orders:
            exits, entries = orders[group.child]
            ordered = in_order(across, group, exits if group.exits else entries)
            across = min(across, ordered, key=lambda at: crossings(layout.grid, at, orders))
    return across


def _order(places: Sequence[float]) -> tuple[int, ...]:
    """The rank of each port, from left to right."""
    found = sorted(range(len(places)), key=places.__getitem__)
    return tuple(sorted(range(len(places)), key=found.__getitem__))
