"""Stacks side by side: encoder and decoder, and what is none."""

from __future__ import annotations

from importlib import import_module

import pytest
from hypothesis import given

from tests.layout.test_nested import SOME, check, directions, trees
from torchrecorder.layout.layered import Item, Link, PlacedBox, place, plan
from torchrecorder.layout.layered.ports import OUTSIDE, End
from torchrecorder.layout.layered.positions import Frame, PlacedScope
from torchrecorder.layout.layered.side_by_side import beginnings
from torchrecorder.layout.layered.template import Branch, ClosedChild, Template, Trunk


def _boxes(items: list[Item], links: list[Link]) -> dict[int, PlacedBox]:
    planned = plan(items, links)
    picture = place(planned, side_by_side=True)
    check(picture, planned)
    return {box.item: box for box in picture.boxes}


def _pair(length: int = 8, second: int = 8) -> tuple[list[Item], list[Link], int]:
    """Two open modules with a chain each; two inputs, of which the first goes to the first."""
    items = [Item("src", -1, 40, 20, first=True), Item("tgt", -1, 40, 20, first=True)]
    links = []
    for count in (length, second):
        items.append(Item(f"m{len(items)}", -1, 60, 30, (50.0, 12.0)))
        around = len(items) - 1
        items += [Item(f"i{len(items) + n}", around, 100, 40) for n in range(count)]
        links += [Link(n, n + 1, "x") for n in range(around + 1, around + count)]
    return items, [Link(0, 3, "x"), *links], 3 + length


def test_encoder_and_decoder_stand_side_by_side() -> None:
    """What reads an input of its own begins beside what it also reads, not below it."""
    items, links, decoder = _pair()
    boxes = _boxes(items, [*links, Link(1, decoder + 1, "x"), Link(decoder - 1, decoder + 4, "m")])
    assert boxes[decoder].x > boxes[2].x + boxes[2].width
    assert boxes[decoder].y < boxes[2].y + 50


@pytest.mark.parametrize("own", ["none", "same", "skip"])
def test_a_chain_stays_a_chain(own: str) -> None:
    """Without an input of its own, with one that both read, and with a skip from before both."""
    items, links, decoder = _pair()
    links.append(Link(decoder - 1, decoder + 1, "m"))
    if own == "same":
        links += [Link(1, 4, "mask"), Link(1, decoder + 4, "mask")]
    elif own == "skip":
        links.append(Link(0, decoder + 4, "x"))
    boxes = _boxes(items, links)
    assert boxes[decoder].y > boxes[2].y + boxes[2].height


@pytest.mark.parametrize(("after", "is_beside"), [(0, True), (24, False)])
def test_stacks_that_save_little_height_stay_in_one_line(after: int, is_beside: bool) -> None:
    """A long chain goes on after the second one, and is under it in any case."""
    items, links, decoder = _pair()
    links += [Link(1, decoder + 1, "x"), Link(decoder - 1, decoder + 4, "m")]
    last = len(items) - 1
    for place_ in range(after):
        items.append(Item(f"a{place_}", -1, 100, 40))
        links.append(Link(last, len(items) - 1, "x"))
        last = len(items) - 1
    boxes = _boxes(items, links)
    assert (boxes[decoder].x > boxes[2].x + boxes[2].width) is is_beside


@pytest.mark.parametrize("lengths", [(2, 2), (12, 4), (20, 7), (7, 20)])
def test_short_modules_are_no_stacks(lengths: tuple[int, int]) -> None:
    """Nor is one that is much shorter than the other."""
    items, links, decoder = _pair(*lengths)
    boxes = _boxes(items, [*links, Link(1, decoder + 1, "x"), Link(decoder - 1, decoder + 2, "m")])
    assert boxes[decoder].y > boxes[2].y + boxes[2].height


@pytest.mark.parametrize("wide, beside", [(100, True), (400, False)])
def test_what_would_be_wider_than_high_stays_below(wide: float, beside: bool) -> None:
    """Such a figure would be smaller on a page."""
    items, links, decoder = _pair()
    items = [item._replace(width=wide) if item.parent >= 0 else item for item in items]
    boxes = _boxes(items, [*links, Link(1, decoder + 1, "x"), Link(decoder - 1, decoder + 4, "m")])
    assert (boxes[decoder].x > boxes[2].x + boxes[2].width) == beside


@SOME
@given(trees(), directions)
def test_boxes_and_lines_keep_apart(
    tree: tuple[list[Item], list[Link]], direction: str
) -> None:
    """Whatever stands beside what."""
    items = [each._replace(height=each.height * 4, width=each.width * 4) for each in tree[0]]
    planned = plan(items, tree[1], direction)  # type: ignore[arg-type]
    check(place(planned, side_by_side=True), planned)


@pytest.mark.parametrize("below", [True, False])
def test_only_a_stack_below_another_begins_a_column(below: bool) -> None:
    """Two that stand side by side already do so."""
    children = (
        ClosedChild(50.0, 0, 80.0, 30.0, 0),
        ClosedChild(150.0, int(below), 80.0, 30.0, int(below)),
    )
    trunks = (
        Trunk(End(OUTSIDE, 0), (), (Branch(End(0, 0), ()), Branch(End(1, 0), ()))),
        Trunk(End(OUTSIDE, 1), (), (Branch(End(1, 1), ()),)),
    )
    frames = (Frame(10.0, 20.0, 80.0, 300.0), Frame(110.0, 340.0 if below else 20.0, 80.0, 300.0))
    stack = PlacedScope(80.0, 300.0, (), (), (), (), {})
    scope = PlacedScope(200.0, 660.0, (50.0, 150.0), (), frames, (), {0: stack, 1: stack})
    found = beginnings(Template(children, 2, (50.0, 150.0), (), trunks, 0), scope, ())
    assert found == ([340.0] if below else [])
    apart = (trunks[0]._replace(branches=trunks[0].branches[:1]), trunks[1])
    template = Template(children, 2, (50.0, 150.0), (), apart, 0)
    assert beginnings(template, scope, ()) == [], "nothing joins them"


@pytest.mark.parametrize("blocks", [6, 12])
def test_equal_scopes_are_looked_at_once(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a scope has stacks or is a U does not depend on where it is."""
    asked, module = list[str](), import_module(place.__module__)

    def noted(name: str) -> None:
        kept = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args: (asked.append(name), kept(*args))[1])

    noted("find_u_shape")
    noted("beginnings")
    items, links = [Item("x", -1, 60, 20)], list[Link]()
    for _ in range(blocks):
        block = len(items)
        items.append(Item("block", -1, 60, 20, (50.0, 12.0)))
        items += [Item("inner", block, 60, 20) for _ in range(8)]
        inner = range(block + 1, block + 9)
        links += [Link(one, other, "h") for one, other in zip((block - 1, *inner), inner)]
    picture = place(plan(items, links), side_by_side=True)
    assert len(picture.boxes) == len(items)
    assert asked.count("find_u_shape") == asked.count("beginnings") == 3  # first, last, others
