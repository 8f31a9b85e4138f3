"""Many ops that read something else are compared in proportion to their number."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tests.work import growth
from torchrecorder.comparison.compare import compare
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def own_or_shared(number: int, *, changed: bool) -> Recording:
    """Layers that each read a weight of their own, or all the same one."""
    run = Builder("Net")
    with run.scope("Net"):
        x, shared = run.input("x"), run.parameter("shared")
        for place in range(number):
            with run.scope(f"layer{place}", "Layer"):
                own = run.parameter("weight")
                x = run.op("linear", x, shared if changed else own)
    return run.recording()


def behind_steps(number: int, *, changed: bool) -> Recording:
    """Layers that read the input, or what as many other steps make of it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(number if changed else 0):
            x = run.op("tanh", x)
        for place in range(number):
            with run.scope(f"layer{place}", "Layer"):
                run.op("linear", x, run.parameter("weight"))
    return run.recording()


def same_or_different(number: int, *, changed: bool) -> Recording:
    """Layers that all read the input, or each a copy of it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        copies = [run.op("clone", x) for _ in range(number)]
        for place, copy in enumerate(copies):
            with run.scope(f"layer{place}", "Layer"):
                run.op("linear", copy if changed else x, run.parameter("weight"))
    return run.recording()


@pytest.mark.parametrize("make", [behind_steps, same_or_different])
@pytest.mark.parametrize("back", [False, True])
def test_rewired_layers_are_compared_in_proportion(
    make: Callable[..., Recording], back: bool
) -> None:
    """What is read by many, or is behind many steps, is not searched again for each reader."""
    def comparing(number: int) -> Callable[[], Any]:
        before, after = make(number, changed=back), make(number, changed=not back)
        return lambda: compare(before, after).changes

    assert len(comparing(3)()) >= 3
    assert growth(comparing, 40) < 2.2


def test_readers_of_other_weights_take_memory_in_proportion() -> None:
    """The scopes of the whole run are not listed for each reader."""
    def peak(number: int) -> int:
        before, after = own_or_shared(number, changed=False), own_or_shared(number, changed=True)
        tracemalloc.start()
        try:
            assert len(compare(before, after).changes) >= number
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    one, two, four = map(peak, (100, 200, 400))
    assert four - two < 2.5 * (two - one)
