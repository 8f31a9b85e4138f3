"""Alignment of two sequences."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from torchrecorder.graph import align as module
from torchrecorder.graph.align import align, between, in_order

WORDS = st.text("abcd", max_size=9)


def _common(a: str, b: str) -> int:
    """The length of the longest common order, by trying all."""
    for length in range(min(len(a), len(b)), 0, -1):
        if set(combinations(a, length)) & set(combinations(b, length)):
            return length
    return 0


def _valid(a: Any, b: Any) -> int:
    pairs = align(a, b)
    assert all(a[left] == b[right] for left, right in pairs)
    assert all(x[0] < y[0] and x[1] < y[1] for x, y in zip(pairs, pairs[1:]))
    return len(pairs)


@given(WORDS, WORDS)
def test_finds_the_longest(a: str, b: str) -> None:
    """Short sequences are aligned as well as can be."""
    assert _valid(a, b) == _common(a, b)


@given(WORDS, WORDS)
def test_the_same_the_other_way_round(a: str, b: str) -> None:
    """Of equally good pairs the same are found."""
    assert align(b, a) == [(right, left) for left, right in align(a, b)]


@given(st.lists(st.integers(0, 300), max_size=300), st.lists(st.integers(0, 300), max_size=300))
def test_long_ones_are_valid(a: list[int], b: list[int]) -> None:
    """Whatever is aligned is equal and in order, and equal sequences fit wholly."""
    _valid(a, b)
    assert _valid(a, a) == len(a)


@given(st.lists(st.integers(0, 50), max_size=60), st.lists(st.integers(0, 50), max_size=60))
def test_gaps_are_the_rest(a: list[int], b: list[int]) -> None:
    """Every place is in a pair or in a gap, and no gap is empty on both sides."""
    pairs = align(a, b)
    gaps = list(between(pairs, len(a), len(b)))
    assert all(left or right for left, right in gaps)
    left = [pair[0] for pair in pairs] + [i for gap, _ in gaps for i in gap]
    right = [pair[1] for pair in pairs] + [i for _, gap in gaps for i in gap]
    assert (sorted(left), sorted(right)) == (list(range(len(a))), list(range(len(b))))


def test_one_change_in_many() -> None:
    """A block put into a long chain of equal blocks leaves all others matched."""
    block = ["norm", "attention", "add", "norm", "mlp", "add"]
    a = ["embed", *block * 2000, "head"]
    b = ["embed", *block * 700, "extra", *block * 1300, "head"]
    assert _valid(a, b) == len(a)


def test_long_sequences() -> None:
    """With nothing unique in them, and two ends that differ: a square would take hours."""
    a = ["x", *("ab" * 30_000), "y"]
    b = ["z", *("ba" * 30_000), "w"]
    assert _valid(a, b) > 50_000
    assert len(a) * len(b) > module.EXACT


def test_elements_that_occur_once_are_aligned_first() -> None:
    """Whatever occurs often may be anywhere: more of it before them does not shift the others."""
    common = [name for number in range(60) for name in ("norm", "add", number)]
    a, b = ["x", *common, "y"], ["z", *["norm", "add"] * 3, *common, "w"]
    assert _valid(a, b) == len(common)


def test_most_is_aligned_when_no_round_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roughly, from all that is equal, not from the few elements that occur once."""
    a = ["x", *("ab" * 300), "once", *("cd" * 300), "y"]
    b = ["z", *("ba" * 300), "once", *("dc" * 300), "w"]
    monkeypatch.setattr(module, "ROUNDS", 0)
    assert _valid(a, b) > 500


@given(st.lists(st.lists(st.integers(0, 6), max_size=3), max_size=6))
def test_as_many_as_possible_in_order(possible: list[list[int]]) -> None:
    """No choice of increasing places is larger, by trying all."""
    found = in_order(possible)
    assert all(place in possible[item] for item, place in found.items())
    assert all(one[1] < other[1] for one, other in pairwise(sorted(found.items())))
    largest = 0
    for chosen in product(*([None, *places] for places in possible)):
        places = [place for place in chosen if place is not None]
        if all(one < other for one, other in pairwise(places)):
            largest = max(largest, len(places))
    assert len(found) == largest
