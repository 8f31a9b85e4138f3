"""Periods: equal blocks in a sequence, found quickly and rightly."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from torchrecorder.views.fold.periods import MAX_PERIOD, Repetition, runs


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("abcd", []),
        ("aaaa", [(0, 1, 4)]),
        ("xababaay", [(1, 2, 2), (5, 1, 2)]),
        ("aaabaaab", [(0, 4, 2)]),
        ("abcabcxabcabc", [(0, 3, 2), (7, 3, 2)]),
        ("abababab", [(0, 2, 4)]),
        ("aaababab", [(0, 1, 2), (2, 2, 3)]),
        ("aababab", [(1, 2, 3)]),
        ("aaababa", [(0, 1, 3), (3, 2, 2)]),
        ("aaabaabaa", [(0, 1, 3), (3, 3, 2)]),
        ("bababcababcababc", [(1, 5, 3)]),
        (2 * (13 * "a" + "b"), [(0, 14, 2)]),
    ],
)
def test_runs(text: str, found: list[tuple[int, int, int]]) -> None:
    """The block that explains most, and of several the shortest."""
    assert [tuple(run)[:3] for run in runs(text)] == found


def test_spare_elements() -> None:
    """How much further the blocks could begin."""
    assert [*runs("cabcabcabx")] == [Repetition(0, 3, 3, 0)]
    assert [*runs("cabcabcabcax")] == [Repetition(0, 3, 3, 2)]


def test_none_equals_nothing() -> None:
    """Not even another None."""
    assert [*runs([None, None, None, "a", "a"])] == [Repetition(3, 1, 2, 0)]


def test_unwanted_runs_leave_their_elements_to_others() -> None:
    """Two equal ones before a loop do not take its first element away."""
    found = runs("aababab", lambda run: run.times > 2)
    assert [*found] == [Repetition(1, 2, 3, 0)]


@given(st.text("abc", max_size=40), st.text("abc", min_size=1, max_size=6), st.integers(2, 5))
def test_blocks_are_equal(before: str, block: str, times: int) -> None:
    """Whatever is found is there, in order, without overlap; what repeats is covered."""
    text = before + block * times
    end = 0
    for run in runs(text):
        assert run.start >= end and run.times > 1
        end = run.end
        first = text[run.start : run.start + run.period]
        assert text[run.start : run.end] == first * run.times
        assert text[run.end : run.end + run.spare] == first[: run.spare]
    if not before:
        assert end == len(text) or set(block) == set(text)


def test_long_sequences() -> None:
    """Few sorts of elements, without and with repeats: a square would take hours."""
    noise = [(place * place // 7) % 11 for place in range(100_000)]
    loops = [*range(MAX_PERIOD)] * 400
    for _ in runs(noise):
        pass
    assert [tuple(run)[:3] for run in runs(loops)] == [(0, MAX_PERIOD, 400)]
