"""Which operations add to a sum that begins with the number 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchrecorder.events import SourceLine
from torchrecorder.graph.running_sums import begins_sum, running_sums
from torchrecorder.testing import Builder

LINE = SourceLine("train.py", 7, "train")


def summed(
    first: tuple[tuple[str, str], ...] = (("other", "0"),),
    name: str = "add",
    later: SourceLine | None = LINE,
    terms: int = 3,
) -> Any:
    """A sum of so many terms: the first is added to what *first* says."""
    run = Builder("Net")
    total = run.op(name, run.input("x0"), arguments=first)
    for place in range(1, terms):
        total = run.op("add_", total, run.input(f"x{place}"))
    ops = {op.id: op.replace(source=later) for op in run.recording().ops.values()}
    return SimpleNamespace(ops={**ops, "o0": ops["o0"].replace(source=LINE)})


def test_all_ops_of_the_line() -> None:
    """Whether in place or not."""
    recording = summed()
    assert running_sums(recording) == {"o0", "o1", "o2"}
    assert [begins_sum(op) for op in recording.ops.values()] == [True, False, False]


@pytest.mark.parametrize("text", ["0", "0.0"])
def test_either_zero(text: str) -> None:
    """Of ``sum`` and of programs."""
    assert running_sums(summed((("other", text),)))


def test_what_begins_with_a_subtraction() -> None:
    """As ``loss = loss - gain`` does, from 0."""
    assert running_sums(summed(name="rsub")) and not running_sums(summed(name="sub"))


@pytest.mark.parametrize("given", [
    {"first": (("other", "1"),)},
    {"first": (("alpha", "0"),)},
    {"first": (("other", "0"), ("alpha", "2"))},
    {"first": ()},
    {"name": "mul"},
    {"later": SourceLine("train.py", 8, "train")},
    {"later": None},
    {"terms": 1},
])
def test_what_is_no_sum(given: dict[str, Any]) -> None:
    """Another number or operation, other lines, or nothing that adds to it."""
    assert not running_sums(summed(**given))
