"""Which operations add to a sum: over the rounds of a loop, or one right after the other."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from torchrecorder.events import SourceLine
from torchrecorder.graph.running_sums import begins_sum, running_sums, sums_at_once
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


ZERO = (("other", "0"),)
GENERATED = SourceLine("train.py", 6, "<genexpr>")


def at_once(*steps: str, between: SourceLine | None = None) -> list[list[str]]:
    """The ops of the sums of *steps* in one line, each of which reads the result of the last one;
    before the last of them an op ran in the line *between*."""
    run = Builder("Net")
    total, line = run.input("x"), dict[str, SourceLine]()
    for step in steps:
        if between is not None and step == steps[-1]:
            run.op("exp", run.input())
            line[f"o{len(line)}"] = between
        name, _, form = step.partition(" ")
        given = {"from 0": [total], "": [total, run.input()], "swapped": [run.input(), total]}
        total = run.op(name, *given[form], arguments=ZERO if form == "from 0" else ())
        line[f"o{len(line)}"] = LINE
    recording = run.recording()
    ops = {op.id: op.replace(source=line[op.id]) for op in recording.ops.values()}
    found = sums_at_once(replace(recording, ops=ops), lambda item: ())
    return [[op.id for op in chain] for chain in found]


def test_additions_one_right_after_the_other() -> None:
    """Of four terms; or of any that begin with 0."""
    assert at_once("add", "add", "add_") == [["o0", "o1", "o2"]]
    assert at_once("add from 0", "add") == [["o0", "o1"]]
    assert not at_once("add", "add") and not at_once("add from 0")


def test_what_is_no_addition_to_the_result_before() -> None:
    """A product, whether first or last; a result that is the second summand, not the first."""
    assert at_once("mul", "add", "add", "add") == [["o1", "o2", "o3"]]
    assert not at_once("mul", "add", "add") and not at_once("add", "add", "mul")
    assert at_once("add", "add", "add", "add swapped") == [["o0", "o1", "o2"]]
    assert not at_once("add", "add", "add swapped")


def test_what_runs_between_additions() -> None:
    """Only what a generator expression runs may."""
    assert at_once("add", "add", "add_", between=GENERATED) == [["o0", "o1", "o3"]]
    assert not at_once("add", "add", "add_", between=LINE)
