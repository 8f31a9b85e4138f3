"""Slices of a profiler, made by hand: whose they are, and what each took itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from torchrecorder.trace.slices import ENGINE, MARK, Slice, owned


def own(*slices: tuple[str, float, float]) -> dict[str, tuple[str | None, float]]:
    """By name the owner and the own time of each slice of a thread."""
    found = owned(Slice(name, begin, end, 0) for name, begin, end in slices)
    return {each.name: (owner, spent) for each, owner, spent in found}


def test_own_time_is_without_that_of_inner_slices() -> None:
    """The first slice of all counts as any other; what only follows is not inside."""
    found = own(("outer", 0, 100), ("one", 10, 30), ("deep", 12, 20), ("two", 30, 60))
    assert found == {
        "outer": (None, 50.0), "one": (None, 12.0), "deep": (None, 8.0), "two": (None, 30.0)
    }
    assert own(("b", 50, 70), ("a", 0, 50)) == {"a": (None, 50.0), "b": (None, 20.0)}


def test_a_range_of_the_recorder_owns_what_is_inside() -> None:
    """It takes no time itself: that of its slices is missing in the one around it."""
    found = own(
        ("step", 0, 100), (f"{MARK}o1 add", 10, 50), ("aten::add", 20, 40), ("kernel", 25, 30)
    )
    assert found == {
        "step": (None, 80.0), f"{MARK}o1 add": ("o1", 0.0),
        "aten::add": ("o1", 15.0), "kernel": ("o1", 5.0),
    }
    inner = own((f"{MARK}s0", 0, 100), ("a", 1, 9), (f"{MARK}o1", 10, 50), ("b", 20, 40))
    assert (inner["a"], inner["b"]) == (("s0", 8.0), ("o1", 20.0))


@pytest.mark.parametrize("engine", [True, False])
def test_a_grad_node_owns_the_slice_of_the_engine_around_its_mark(engine: bool) -> None:
    """What runs there before and after the mark too; without the engine only what is inside."""
    name = f"{ENGINE}: AddBackward0" if engine else "other"
    inside = ("before", 1, 5), ("call", 6, 40), (f"{MARK}g3", 7, 30), ("in", 8, 9)
    found = own((name, 0, 50), *inside)
    node = "g3" if engine else None
    assert [found[each][0] for each in (name, "before", "call", "in")] == [node, node, node, "g3"]
    assert own((f"{MARK}g3", 0, 9), ("in", 1, 2))["in"] == ("g3", 1.0)


def test_threads_have_nothing_to_do_with_each_other() -> None:
    """A slice is not inside one of another thread at the same time."""
    found = [*owned([Slice(f"{MARK}o1", 0, 100, 0), Slice("a", 10, 20, 1)])]
    assert [(each.name, owner) for each, owner, _ in found] == [(f"{MARK}o1", "o1"), ("a", None)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), max_size=12))
def test_own_times_add_up_to_the_time_in_which_something_ran(spans: list[tuple[int, int]]) -> None:
    """However slices are nested."""
    kept: list[tuple[int, int]] = []
    for begin, length in spans:
        one = begin, begin + length
        nested = (one[1] <= a or b <= one[0] or a <= one[0] and one[1] <= b
                  or one[0] <= a and b <= one[1] for a, b in kept)
        if one not in kept and all(nested):
            kept.append(one)
    found = owned(Slice(str(number), *span, 0) for number, span in enumerate(kept))
    busy = {tick for begin, end in kept for tick in range(begin, end)}
    assert sum(each.own for each in found) == len(busy)
