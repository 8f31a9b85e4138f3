"""Rows of boxes: below what they read, and no longer than they may be."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from tests.layout.test_nested import SOME
from torchrecorder.layout.layered.layering import MAX_LAYER_SIZE, rows

Pairs = tuple[int, list[tuple[int, int]], list[bool]]


@st.composite
def flows(draw: st.DrawFn) -> Pairs:
    """Boxes, who feeds whom of them, and which read something from outside."""
    count = draw(st.integers(1, 12))
    number = st.integers(0, count - 1)
    found = draw(st.lists(st.tuples(number, number), max_size=20))
    pairs = [(min(pair), max(pair)) for pair in found if pair[0] != pair[1]]
    return count, pairs, draw(st.lists(st.booleans(), min_size=count, max_size=count))


@SOME
@given(flows())
def test_each_box_stands_right_below_what_it_reads(flow: Pairs) -> None:
    """As high as it can, and what depends on nothing from outside right above its readers."""
    count, pairs, anchored = flow
    row = rows(count, pairs, anchored)
    assert set(row) == set(range(max(row) + 1))
    floats = list(anchored)
    for tail, head in sorted(pairs):
        assert row[head] > row[tail]
    for number in range(count):
        before = [tail for tail, head in pairs if head == number]
        after = [head for tail, head in pairs if tail == number]
        floats[number] = not anchored[number] and all(floats[tail] for tail in before)
        if not floats[number] and any(not floats[tail] for tail in before):
            assert row[number] == 1 + max(row[tail] for tail in before)
        if floats[number] and after:
            assert row[number] == min(row[head] for head in after) - 1


@pytest.mark.parametrize(
    ("boxes", "lengths"), [(MAX_LAYER_SIZE, [24]), (MAX_LAYER_SIZE + 1, [13, 12])]
)
def test_a_row_that_is_too_long_goes_on_in_the_next(boxes: int, lengths: list[int]) -> None:
    """In equal parts; their reader stands below all of them."""
    row = rows(boxes + 1, [(number, boxes) for number in range(boxes)], [True] * (boxes + 1))
    assert [*Counter(row).values()] == [*lengths, 1] and row[boxes] == len(lengths)


@pytest.mark.parametrize(("count", "lengths"), [(6, [6]), (7, [4, 3]), (14, [5, 5, 4])])
@pytest.mark.parametrize("are_inputs", [True, False])
def test_inputs_and_outputs_have_short_rows(
    count: int, lengths: list[int], are_inputs: bool
) -> None:
    """Their names are long; a row with another box is a row like all others."""
    ends = range(1, count + 1)
    pairs = [(end, 0) if are_inputs else (0, end) for end in ends]
    anchored = [not are_inputs, *[are_inputs] * count]
    row = rows(count + 1, pairs, anchored, frozenset(ends))
    found = [*Counter(row).values()] if are_inputs else [*Counter(row[1:]).values()]
    assert [number for number in found if number > 1] == [size for size in lengths if size > 1]
    assert row[0] == (len(lengths) if are_inputs else 0)
    assert {*rows(count + 1, pairs, anchored, frozenset(ends[1:]))} == {0, 1}


def test_a_circle_begins_with_its_first_box() -> None:
    """The line that closes it runs back up."""
    assert rows(4, [(0, 1), (1, 2), (2, 1), (2, 3)], [True] * 4) == [0, 1, 2, 3]
    assert rows(3, [(0, 1), (1, 2), (2, 0)], [True] * 3) == [0, 1, 2]
    assert rows(2, [(0, 0), (0, 1)], [True] * 2) == [0, 1]
