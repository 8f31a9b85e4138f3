"""Nested order: ports of a scope are in the order of the edges around it, where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from torchrecorder.layout import engine
from torchrecorder.layout.layered import Item, Link, Plan, nested_order, plan, sifting
from torchrecorder.layout.layered.compound import compose
from torchrecorder.layout.layered.cuts import crossings
from torchrecorder.layout.layered.ordering import Grid
from torchrecorder.layout.layered.positions import HeaderSpace, PlacedScope
from torchrecorder.layout.layered.sifting import PortOrder

HEADER = (50.0, 12.0)


@pytest.fixture(params=[True, False], ids=["graphviz", "barycenters"], autouse=True)
def each_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders begin with those of Graphviz, or of barycenters."""
    if request.param and not engine.available():
        pytest.skip("no Graphviz")
    monkeypatch.setattr(engine, "available", lambda: bool(request.param))


def box(name: str, parent: int = -1) -> Item:
    """A box without children."""
    return Item(name, parent, 60, 20)


def scope(name: str, parent: int = -1) -> Item:
    """A box that is open."""
    return Item(name, parent, 60, 20, HEADER)


def all_crossings(planned: Plan) -> int:
    """The number of crossings in all scopes, with all of them open."""
    children, made = planned.children(), dict[int, PlacedScope]()
    for number in reversed(range(-1, len(planned.items))):
        if planned.template[number + 1] >= 0:
            inner = {at: made[each] for at, each in enumerate(children[number + 1]) if each in made}
            template = planned.templates[planned.template[number + 1]]
            made[number] = compose(template, inner, HeaderSpace())
    return sum(map(crossings, made.values()))


def decoder(arguments: Sequence[int]) -> Plan:
    """A decoder that reads the target (1) and the memory of an encoder (3) in some order."""
    items = [
        box("source"), box("target"), scope("model"), box("encoder", 2), scope("decoder", 2),
        box("layers", 4), box("output"),
    ]
    items[:2] = [each._replace(first=True) for each in items[:2]]
    links = [Link(0, 3, "x"), *(Link(each, 5, "x") for each in arguments), Link(5, 6, "x")]
    return plan(items, links)


@pytest.mark.parametrize("arguments", [(1, 3), (3, 1)])
def test_entries_come_in_the_order_around_the_scope(arguments: tuple[int, int]) -> None:
    """Also if it reads its arguments in another order: the target enters beside the memory."""
    planned = decoder(arguments)
    assert all_crossings(planned) == 0
    entries = planned.templates[planned.template[5]].entries
    target, memory = map(arguments.index, (1, 3))
    outer = planned.templates[planned.template[3]]
    assert (entries[target] > entries[memory]) == (outer.entries[1] > outer.entries[0])


def test_entries_come_in_the_order_around_all_scopes_around_a_layer() -> None:
    """The decoder alone cannot do so without a crossing at the layer inside it, nor that alone."""
    items = [
        box("source"), box("target"), scope("model"), box("encoder", 2), scope("decoder", 2),
        box("embedding", 4), scope("layer", 4), box("norm", 6), box("attention", 6), box("add", 6),
    ]
    items[:2] = [each._replace(first=True) for each in items[:2]]
    ends = [(0, 3), (1, 5), (5, 7), (7, 8), (3, 8), (8, 9), (5, 9)]
    planned = plan(items, [Link(*pair, "x") for pair in ends])
    assert all_crossings(planned) == 0
    target, memory = planned.templates[planned.template[5]].entries
    assert memory < target


def test_exits_come_in_the_order_around_the_scope() -> None:
    """Two results of a scope are read in the reverse of their order, by boxes that are ordered by
    what else they read."""
    items = [
        box("a"), box("b"), box("c"), scope("split"), box("first", 3), box("second", 3),
        box("left"), box("right"),
    ]
    items[:3] = [each._replace(first=True) for each in items[:3]]
    links = [
        Link(1, 4, "x"), Link(1, 5, "x"), Link(0, 6, "x"), Link(2, 7, "x"),
        Link(4, 7, "x"), Link(5, 6, "x"),
    ]
    planned = plan(items, links)
    assert all_crossings(planned) == 0
    first, second = planned.templates[planned.template[4]].exits
    assert second < first


def test_equal_scopes_share_a_template_if_the_orders_around_them_are_equal() -> None:
    """Layers behind each other, with the edge that all of them read on one side."""
    items = [box("source"), box("target"), scope("model"), box("encoder", 2)]
    items[:2] = [each._replace(first=True) for each in items[:2]]
    links, last = [Link(0, 3, "x")], 1
    for _ in range(3):
        layer = len(items)
        items += [scope("layer", 2), box("attention", layer)]
        links += [Link(last, layer + 1, "x"), Link(3, layer + 1, "x")]
        last = layer + 1
    items.append(box("output"))
    planned = plan(items, [*links, Link(last, last + 1, "x")])
    assert all_crossings(planned) == 0
    assert len({planned.template[layer + 1] for layer in (4, 6, 8)}) == 1


@pytest.mark.parametrize("results", [(0, 1), (1, 0)])
def test_entries_are_in_the_order_of_the_exits_of_the_scope_before(
    results: tuple[int, int]
) -> None:
    """Whichever result a scope reads first, if the boxes that compute them have an order."""
    items = [
        box("a"), box("b"), scope("first"), box("one", 2), box("two", 2),
        scope("second"), box("third", 5), box("fourth", 5),
    ]
    items[:2] = [each._replace(first=True) for each in items[:2]]
    inner = [(3 + result, 6 + place) for place, result in enumerate(results)]
    planned = plan(items, [Link(*ends, "x") for ends in [(0, 3), (1, 4), *inner]])
    assert all_crossings(planned) == 0


def test_boxes_that_are_in_order_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The crossings of a scope are not counted for each open child in it."""
    compared = list[object]()
    count = nested_order.crossings
    monkeypatch.setattr(nested_order, "crossings", lambda *of: compared.append(of) or count(*of))
    items, links = [scope("model"), box("read", 0)], list[Link]()
    for at in range(2, 42, 5):
        items += [scope(f"open {at}", 0), box(f"one {at}", at), box(f"two {at}", at)]
        items += [box(f"three {at}", 0), box(f"four {at}", 0)]
        links += [Link(1, at + 1, "x"), Link(1, at + 2, "x")]
        links += [Link(at + 1, at + 3, "one"), Link(at + 2, at + 4, "two")]
    assert all_crossings(plan(items, links)) == 0
    assert not compared


@pytest.mark.parametrize("crossings, follows", [((1, 0), True), ((1, 1), False), ((1, 2), False)])
def test_scopes_follow_only_if_fewer_crossings_are_left(
    crossings: tuple[int, int], follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder reads the memory on one side in vain if the layers inside it keep it there."""
    assert _follows(crossings, monkeypatch) == ([False, True], follows)


def test_scopes_without_crossings_are_ordered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other order can be better."""
    assert _follows((0, 0), monkeypatch) == ([False], False)


def _follows(
    crossings: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[bool], bool]:
    """The orders that are computed, and whether scopes follow that around them, given the numbers
    of crossings without and with following."""
    layout, around = cast(Any, None), {0: ((), ((1, 0)))}
    orders = [
        {-1: nested_order.OrderedScope(layout, [], ((), ()), inside)} for inside in (around, {})
    ]
    computed = list[bool]()

    def ordered(*_: object, follows: bool) -> object:
        computed.append(follows)
        return orders[follows]

    monkeypatch.setattr(nested_order, "_ordered_scopes", ordered)
    monkeypatch.setattr(
        nested_order, "_crossings", lambda _, found: crossings[found is orders[True]]
    )
    found = nested_order.ordered_scopes({-1: cast(Any, None)}, [], [], [])
    return computed, found is orders[True]


def test_crossings_of_equal_scopes_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are in a chain of blocks, each with edges that cross and its entries."""
    counted = list[Grid]()

    def noted(grid: Grid, across: Sequence[float], ports: PortOrder) -> int:
        counted.append(grid)
        return sifting.crossings(grid, across, ports)

    monkeypatch.setattr(nested_order, "crossings", noted)
    for blocks in (9, 18):
        items, links, above = [box("x"), box("y")], list[Link](), [0, 1]
        for _ in range(blocks):
            block = len(items)
            items += [scope("block"), *(box("inner", block) for _ in range(6))]
            tops, bottoms = range(block + 1, block + 4), range(block + 4, block + 7)
            links += [Link(one, other, "h") for one, other in zip(above, reversed(tops))]
            links += [Link(one, other, "h") for one in tops for other in bottoms]
            above = [*bottoms[:2]]
        before = len(counted)
        plan(items, links)
        assert len(counted) - before < 2 * 9
    assert counted or not engine.available()
