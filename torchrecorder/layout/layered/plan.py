"""Plan: lay out every distinct scope of a tree of items once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torchrecorder.layout import engine
from torchrecorder.layout.layered.equal_branches import structures
from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.nested_order import ordered_scopes
from torchrecorder.layout.layered.ordering import columns
from torchrecorder.layout.layered.ports import Carried, scope_nets
from torchrecorder.layout.layered.scope_layout import ScopeLayout
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
    ordered = ordered_scopes(found, template, layouts, places)
    distinct = {id(scope): scope for scope in ordered.values()}
    index = {key: place for place, key in enumerate(distinct)}
    for scope, each in ordered.items():
        template[scope + 1] = index[id(each)]
    return Plan(
        tuple(items),
        direction,
        tuple([scope.layout.template(scope.across) for scope in distinct.values()]),
        tuple(template),
        tuple(
            found[scope].values() if scope in found else () for scope in range(-1, len(items))
        ),
    )
