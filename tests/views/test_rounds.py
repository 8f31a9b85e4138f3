"""How many iterations of a loop form one block, by who reads whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.work import growth
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.fold.periods import MAX_ROUNDS, ReadsOfSiblings, Rounds
from torchrecorder.views.pipeline import ViewOptions, make_view

TIMES = 12
"""The iterations of most loops here."""


def in_block(reads: Iterable[tuple[str, str]], length: int = 1, times: int = TIMES) -> int:
    """The number for a loop of ``a0``, ``a1`` and so on, where some read others; *length* 2 with
    ``b0``, ``b1`` in the same iterations."""
    readers: dict[str, list[str]] = {}
    for reader, value in reads:
        readers.setdefault(value, []).append(reader)
    units = [[f"{letter}{number}"] for number in range(times) for letter in "ab"[:length]]
    return Rounds(units, length, ReadsOfSiblings(readers)).in_block()


def back(*steps: int, reader: str = "a", value: str = "a") -> list[tuple[str, str]]:
    """Each iteration reads what those so many *steps* before gave."""
    return [
        (f"{reader}{number}", f"{value}{number - step}")
        for number in range(TIMES) for step in steps if number >= step
    ]


def outside(value: str, *numbers: int) -> list[tuple[str, str]]:
    """The iterations with these *numbers* read a value from outside of the loop."""
    return [(f"a{number}", value) for number in numbers]


@pytest.mark.parametrize("step", range(1, MAX_ROUNDS + 3))
def test_results_that_are_read_later(step: int) -> None:
    """So many iterations are one block, up to a limit."""
    assert in_block(back(step)) == (step if step <= MAX_ROUNDS else 1)
    assert in_block(back(1, step)) == (step if step <= MAX_ROUNDS else 1)


def test_results_that_are_read_at_different_times() -> None:
    """Have no block: one iteration that reads further back, or less far, is enough."""
    for number in (0, 5):
        assert in_block([*back(2), (f"a{number + 4}", f"a{number}")]) == 1
        assert in_block([pair for pair in back(2) if pair[1] != f"a{number}"]) == 1


def test_the_last_results_are_read_less_often() -> None:
    """What would have read them is behind the loop."""
    assert in_block(back(3)[:-1]) == 1
    assert in_block([*back(3), ("end", "a11"), ("end", "a10")]) == 3


def test_results_read_in_the_same_iteration() -> None:
    """Are no reason for a larger block, at whatever place they are."""
    same = back(0, reader="b", value="a")
    assert in_block([*same, *back(1, value="b")], 2) == 1
    assert in_block([*same, *back(2, value="b")], 2) == 2


@pytest.mark.parametrize("turns", range(1, MAX_ROUNDS + 2))
def test_outside_values_that_are_read_in_turns(turns: int) -> None:
    """Each value again after so many iterations."""
    reads = [pair for first in range(turns)
             for pair in outside(f"x{first}", *range(first, TIMES, turns))]
    assert in_block([*back(1), *reads]) == (turns if turns <= MAX_ROUNDS else 1)


@pytest.mark.parametrize("numbers", [(0, 2, 4), (0, 3, 4, 6, 8, 10), (2, 4, 6, 8, 10), (4, 6)])
def test_outside_values_that_are_missing_somewhere(numbers: tuple[int, ...]) -> None:
    """No turn: it would have to come again until the end, and from the beginning."""
    assert in_block([*back(1), *outside("x", *numbers)]) == 1
    assert in_block([*back(1), *outside("x", *range(0, TIMES, 2)), *outside("y", *numbers)]) == 1


def test_an_outside_value_that_one_iteration_reads() -> None:
    """As the first one does, says nothing."""
    turn = outside("y", *range(1, TIMES, 2))
    assert in_block([*back(1), *outside("x", 0), *turn]) == 2
    assert in_block([*back(1), *outside("x", 7)]) == 1


def test_outside_values_with_turns_of_several_lengths() -> None:
    """No block is that of all."""
    two, three = outside("x", *range(0, TIMES, 2)), outside("y", *range(0, TIMES, 3))
    assert in_block([*back(1), *two, *three]) == 1
    assert in_block([*back(1), *three]) == 3
    assert in_block([*back(2), *three]) == 1
    assert in_block([*back(3), *three]) == 3


def test_an_outside_value_at_several_places_of_an_iteration() -> None:
    """The turn is that of each place."""
    every = [(f"b{number}", "x") for number in range(TIMES)]
    plain = [*back(0, reader="b"), *back(1, value="b")]
    assert in_block([*plain, *every, *outside("x", *range(0, TIMES, 2))], 2) == 2
    assert in_block([*plain, *every, *outside("x", *range(TIMES))], 2) == 1


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_iterations_that_take_turns_in_what_they_read(stages: int) -> None:
    """Each first of so many also gives its result to the next but one of its block."""
    extra = [(f"b{number}", f"a{number}") for number in range(0, TIMES, stages)]
    chain = [*back(1), *back(1, reader="b", value="b")]
    assert in_block([*chain, *extra], 2) == (stages if stages <= MAX_ROUNDS else 1)


@pytest.mark.parametrize(("times", "expected"), [(4, 1), (5, 2)])
def test_what_takes_turns_does_so_twice(times: int, expected: int) -> None:
    """The last iteration does not count: nothing reads its results."""
    extra = [("b0", "a0"), ("b2", "a2"), ("b4", "a4")]
    chain = [*back(1), *back(1, reader="b", value="b")]
    assert in_block([*chain, *extra], 2, times) == expected


def many_loops(number: int) -> Recording:
    """So many short loops, one after the other."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for place in range(number):
            for _ in range(4):
                x = run.op("tanh", run.op("relu", x))
            x = run.op(f"step{place}", x)
    return run.recording()


def test_many_loops_are_viewed_in_proportion() -> None:
    """For each loop only what it reads is looked at, not what all siblings read."""
    def viewing(number: int) -> Callable[[], Any]:
        recording = many_loops(number)
        return lambda: make_view(recording, ViewOptions(depth=1))

    assert any(box.count == 4 for box in viewing(2)().clusters.values())
    assert growth(viewing, 25) < 2.2
