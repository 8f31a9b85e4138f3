"""Settings of modules in siblings that differ: which are told, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.figures import linear
from tests.views.test_similar import label, similar
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def blocks(*rows: Sequence[str], sizes: Mapping[str, Sequence[int]]) -> Recording:
    """Blocks with these convolutions in a row, of which each has a kernel size per block."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for place, names in enumerate(rows):
            with run.scope(f"layers.{place}", "Block"):
                for name in names:
                    detail = f"4, 4, kernel_size=({sizes[name][place]},)"
                    with run.scope(name, "Conv1d", detail=detail):
                        h = run.op("conv1d", h)
                h = linear(run, "fc", h)
    return run.recording()


def kernels(recording: Recording) -> list[str]:
    """The lines about kernel sizes on the box of all blocks."""
    found = label(similar(recording, depth=1), "layers.0")
    return [text for text in found if "kernel" in text]


def test_of_modules_that_change_in_different_ways_two_are_told() -> None:
    """Those that change together count as one, with the name of the first."""
    sizes = {"a": (3, 5), "b": (3, 5), "c": (5, 3), "d": (1, 3)}
    found = kernels(blocks("abcd", "abcd", sizes=sizes))
    assert found == ["a kernel 3, 5", "c kernel 5, 3"]


def test_modules_that_change_are_told_in_the_order_of_the_first_block() -> None:
    """Whatever the order in the others."""
    found = kernels(blocks("abc", "acb", sizes={"a": (1, 1), "b": (3, 5), "c": (5, 3)}))
    assert found == ["b kernel 3, 5", "c kernel 5, 3"]
