"""Templates: every piece of a line lies between the rows that it joins, and is told once."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.layout.test_nested import SOME, directions, trees
from torchrecorder.layout.layered import Item, Link, plan
from torchrecorder.layout.layered.ports import OUTSIDE, End
from torchrecorder.layout.layered.template import Branch, ClosedChild, Stem, Template, Trunk
from torchrecorder.layout.layered.turned import reader_above


@SOME
@given(trees(), directions)
def test_rows_and_lines_of_templates(
    tree: tuple[list[Item], list[Link]], direction: str
) -> None:
    """What has to hold of each of them for the lines to meet the boxes."""
    for template in plan(*tree, direction).templates:  # type: ignore[arg-type]
        check_rows(template)
        for trunk in template.trunks:
            for branch in trunk.branches:
                check_pieces(template, trunk, branch)


def check_rows(template: Template) -> None:
    """A box ends, when it is open, inside of its scope and before those that read it."""
    for spot in template.children:
        assert 0 <= spot.row <= spot.last < template.rows
    for trunk in template.trunks:
        for sink, _ in trunk.branches:
            if OUTSIDE not in (trunk.source.child, sink.child):
                read, gives = template.children[sink.child], template.children[trunk.source.child]
                assert gives.last < read.row or gives.last == gives.row


def check_pieces(template: Template, trunk: Trunk, branch: Branch) -> None:
    """A line leads from one row to the other, and is one piece where it goes on straight."""
    sink, way = branch
    child = trunk.source.child
    start = 0 if child == OUTSIDE else template.children[child].last + 1
    end = template.rows if sink.child == OUTSIDE else template.children[sink.child].row
    stems = [trunk.stems[number] for number in way]
    assert not stems or stems[0].begin == start
    for stem, leaves in zip(stems, [*(after.begin for after in stems[1:]), end]):
        assert 0 <= min(stem.begin, stem.end) <= leaves
        assert leaves <= max(stem.begin, stem.end) <= template.rows
    for before, after in zip(stems, stems[1:]):
        assert (before.across, before.end) != (after.across, after.begin)


def column(*trunks: Trunk, rows: int = 3) -> Template:
    """Children below each other, and these lines between them."""
    children = tuple(ClosedChild(0.0, row, 10.0, 10.0, row) for row in range(rows))
    return Template(children, rows, (), (), trunks, 0)


def line(source: int, *sinks: int, port: int = 0) -> Trunk:
    """A line from a child to others."""
    branches = tuple(Branch(End(sink, 0), (0,)) for sink in sinks)
    return Trunk(End(source, port), (Stem(0.0, source, 2),), branches)


@pytest.mark.parametrize(("trunks", "above"), [
    ((line(0, 1), line(1, 2)), 2),
    ((line(1, 2), line(1, 2, port=1)), None),  # two tensors
    ((line(0, 2), line(1, 2)), None),  # not only what that gives
    ((line(0, 2),), None),
    ((line(1, 2, OUTSIDE),), None),  # others read it, too
    ((line(1, 2), line(2, OUTSIDE)), None),  # and goes on
])
def test_what_may_stand_above_what_it_reads(trunks: tuple[Trunk, ...], above: int | None) -> None:
    """The only reader of the only tensor, if it is the last."""
    assert reader_above(column(*trunks), 1) == above


def test_nothing_stands_above_the_first() -> None:
    """Nor where more than one comes after."""
    assert reader_above(column(line(0, 1), rows=2), 0) is None
    assert reader_above(column(line(1, 2), rows=4), 1) is None
