"""Plan: every distinct scope of a tree of items laid out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torchrecorder.layout import engine
from torchrecorder.layout.layered.ordering import columns
from torchrecorder.layout.layered.scope_layout import Draft
from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.port_order import in_order
from torchrecorder.layout.layered.ports import Level, levels
from torchrecorder.layout.layered.template import Template

Direction = Literal["TB", "LR", "BT", "RL"]


@dataclass(frozen=True)
class Plan:
    """Scopes laid out with everything in them closed.

    Attributes:
        items: What was laid out.
        direction: Where the flow runs to.
        templates: The distinct scopes.
        template: For the paper and then each item, the number of its template; -1 if it has
            nothing in it.
        carried: For the paper and then each item, the value of each trunk of its template.
        makers: The same for the item that made it.
    """

    items: tuple[Item, ...]
    direction: Direction
    templates: tuple[Template, ...]
    template: tuple[int, ...]
    carried: tuple[tuple[str, ...], ...]
    makers: tuple[tuple[int, ...], ...]

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
        items: What can be drawn, each after the item around it.
        links: Lines between items that have nothing in them.
        direction: Where the flow runs to.
        timeout: Seconds that all of Graphviz' work may take; what is not done by then is
            put side by side.
    """
    turned = direction in ("LR", "RL")
    found = levels(items, links)
    numbers: dict[object, int] = {}
    drafts: list[Draft] = []
    template = [-1] * (len(items) + 1)
    for scope, level in found.items():
        key = _key(level, items)
        if key not in numbers:
            numbers[key] = len(drafts)
            drafts.append(Draft(level, items, turned))
        template[scope + 1] = numbers[key]
    places = columns([draft.grid for draft in drafts], timeout=timeout)
    templates = _templates(found, template, drafts, places)
    nets = [found[scope].nets if scope in found else () for scope in range(-1, len(items))]
    return Plan(
        tuple(items),
        direction,
        templates,
        tuple(template),
        tuple(tuple(net.carried[1] for net in item) for item in nets),
        tuple(tuple(net.carried[0] for net in item) for item in nets),
    )


def _templates(
    found: Mapping[int, Level],
    number: list[int],
    drafts: Sequence[Draft],
    places: Sequence[Sequence[float]],
) -> tuple[Template, ...]:
    """The templates of all scopes, inner ones first; *number* of drafts becomes that of these."""
    known: dict[object, int] = {}
    templates: list[Template] = []
    for scope in sorted(found, reverse=True):
        draft, across = drafts[number[scope + 1]], places[number[scope + 1]]
        key: list[object] = [number[scope + 1]]
        for item in draft.loose:
            inner = number[found[scope].children[item.child] + 1]
            if inner >= 0:
                ports = templates[inner].exits if item.exits else templates[inner].entries
                across = in_order(across, item, ports)
                key += [across[box] for _, box in item.ends]
        seat = known.setdefault(tuple(key), len(templates))
        if seat == len(templates):
            templates.append(draft.template(across))
        number[scope + 1] = seat
    return tuple(templates)


def _key(level: Level, items: Sequence[Item]) -> object:
    """What two scopes have in common that look the same."""
    boxes = tuple(
        (items[child].width, items[child].height, items[child].first) for child in level.children
    )
    nets = tuple((net.source, tuple(net.sinks)) for net in level.nets)
    return boxes, nets, level.entries, level.exits
