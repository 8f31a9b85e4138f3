"""Two recordings laid over each other, and how they are drawn."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import nn

from tests.comparison.test_compare import stack
from tests.figures import network, regions
from tests.random_recordings import recordings
from torchrecorder import record
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.overlay import Overlay, overlay
from torchrecorder.events import OpId
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.consistency import problems
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view


def laid(before: Recording, after: Recording) -> Overlay:
    """The overlay of two recordings."""
    found = compare(before, after)
    return overlay(found.matching, found.changes)


@settings(max_examples=60, deadline=None)
@given(recordings(), recordings())
def test_is_a_recording(before: Recording, after: Recording) -> None:
    """It can be saved and viewed at every depth, and holds all of both."""
    found = laid(before, after)
    merged, matching = found.recording, compare(before, after).matching
    assert decode(encode(merged), Recording) == merged
    for depth in (0, 1, 99):
        make_view(merged, ViewOptions(depth=depth)).check()
    assert len(merged.scopes) == len(before.scopes) + len(after.scopes) - len(matching.scopes)
    twice = sum(f"old_{value}" in merged.values for value in matching.values)
    known = len(before.values) + len(after.values) - len(matching.values)
    assert len(merged.values) == known + twice
    places = [step.index for step in (*merged.scopes.values(), *merged.ops.values())]
    assert sorted(places) == list(range(len(places)))


@settings(max_examples=40, deadline=None)
@given(recordings())
def test_of_the_same(recording: Recording) -> None:
    """Laid over itself, nothing is marked and every edge stays."""
    found = laid(recording, recording)
    assert not found.marks and not found.removed and not found.added
    assert set(found.recording.graph.edges) <= set(recording.graph.edges)


@settings(max_examples=40, deadline=None)
@given(recordings(), recordings())
def test_runs_forward(before: Recording, after: Recording) -> None:
    """What an op reads was made before it, so that no arrow goes in a circle."""
    merged = laid(before, after).recording
    for op in merged.ops.values():
        for slot in op.inputs:
            producer = merged.values[slot.value].producer
            assert producer is None or merged.ops[producer].index < op.index


def test_marks() -> None:
    """What is new, gone and different is marked; edges that differ are told apart."""
    found = laid(stack("Linear", "ReLU", "Linear"), stack("Linear", "Dropout", "ReLU", "Linear"))
    named = {
        found.recording.scopes[each].cls: mark  # type: ignore[index]
        for each, mark in found.marks.items()
        if each in found.recording.scopes
    }
    assert named["Dropout"] is ChangeKind.ADDED
    assert named["ReLU"] is named["Linear"] is ChangeKind.RENAMED
    quiet = {found.recording.scopes[each].cls for each in found.quiet
             if each in found.recording.scopes}  # type: ignore[index]
    assert quiet == {"Linear", "ReLU"}
    assert len(found.added) == 2 and len(found.removed) == 1
    back = laid(stack("Linear", "Dropout", "ReLU", "Linear"), stack("Linear", "ReLU", "Linear"))
    assert ChangeKind.REMOVED in back.marks.values()
    assert len(back.recording.ops) == 4


def test_replaced_is_one_box() -> None:
    """The old inside of an innermost module of another class is not drawn."""
    found = laid(stack("Linear", "ReLU"), stack("Linear", "GELU"))
    assert [op.name for op in found.recording.ops.values()] == ["linear", "gelu"]
    assert ChangeKind.REPLACED in found.marks.values()
    assert ChangeKind.ADDED not in found.marks.values()


class _Joins(nn.Module):
    """Two linear layers, and between them what is given both the input and the first's result."""

    def __init__(self, join: nn.Module, *more: nn.Module) -> None:
        super().__init__()
        self.first, self.join = nn.Sequential(nn.Linear(4, 4), *more), join
        self.last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of both."""
        return self.last(self.join(x, self.first(x)))


class _Both(nn.Module):
    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Reads both."""
        return one.sin() + other


class _One(nn.Module):
    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Reads the first only, twice."""
        return one.exp() * one


def edges(before: nn.Module, after: nn.Module) -> dict[tuple[str, str], str | None]:
    """The arrows between the modules of both, by the names of their ends, with their mark."""
    inputs = torch.ones(1, 4)
    both = laid(record(before.eval(), inputs), record(after.eval(), inputs))
    view = make_view(both.recording, ViewOptions(depth=1))
    names = {each.id: each.name for each in both.recording.scopes.values()}
    found: dict[tuple[str, str], str | None] = {}
    for arrow in view.arrows:
        pairs = {(arrow.value, each) for each in view.boxes[arrow.head].members}
        mark = "gone" if pairs & both.removed else "new" if pairs & both.added else None
        ends = names.get(arrow.tail, "x"), names.get(arrow.head, "output")
        assert found.setdefault(ends, mark) == mark
    return found


@pytest.mark.parametrize(
    ("before", "after", "mark"),
    [
        (_Joins(_Both()), _Joins(_One()), "gone"),
        (_Joins(_One()), _Joins(_Both()), "new"),
        (_Joins(_Both()), _Joins(_Both(), nn.ReLU()), None),
        (_Joins(_Both(), nn.ReLU()), _Joins(_Both()), None),
        (_Joins(_One(), nn.ReLU()), _Joins(_Both()), "new"),
    ],
)
def test_arrows_of_what_changed(before: nn.Module, after: nn.Module, mark: str | None) -> None:
    """What a replaced module or a longer one is joined to is marked only where that differs."""
    assert edges(before, after) == {
        ("x", "first"): None,
        ("x", "join"): None,
        ("first", "join"): mark,
        ("join", "last"): None,
        ("last", "output"): None,
    }


def test_arrows_of_a_replaced_module_behind_a_longer_one() -> None:
    """Both at once: what arrives is still the result of the same module."""
    before, after = _Joins(nn.Bilinear(4, 4, 4)), _Joins(_Both(), nn.ReLU())
    assert set(edges(before, after).values()) == {None}


class _Chain(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        steps = [each for _ in range(length) for each in (nn.Linear(4, 4), nn.ReLU())]
        self.block, self.last = nn.Sequential(*steps), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last reads what the block gives."""
        return self.last(self.block(x))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_old_and_new_ways_out_of_an_open_module(tmp_path: Path, before: int, after: int) -> None:
    """What became longer or shorter is left elsewhere: that shows once it is open."""
    x = torch.ones(1, 4)
    comparison = compare(record(_Chain(before), x), record(_Chain(after), x))
    drawn = {}
    for depth in (1, 2):
        text = comparison.render(tmp_path / "both.dot", depth=depth).read_text()
        lines = [line for line in text.splitlines() if " -> " in line]
        last = next(line.split()[0] for line in lines if '-> "out_0"' in line)
        drawn[depth] = sorted("dashed" in line for line in lines if f"-> {last}" in line)
    assert drawn == {1: [False], 2: [False, True]}


@pytest.mark.parametrize("suffix", ["dot", "mmd", "txt", "json", "graphml", "nodelink.json"])
def test_every_format(tmp_path: Path, suffix: str) -> None:
    """A comparison is written as recordings are."""
    path = compare(network(), regions()).render(tmp_path / f"both.{suffix}")
    assert path.stat().st_size > 100


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_json_has_the_changes(tmp_path: Path, suffix: str) -> None:
    """Compressed too; a name may have half of a surrogate pair."""
    found = compare(stack("Linear"), stack("Linear", "half \udc80"))
    data = found.render(tmp_path / f"both.{suffix}").read_bytes()
    text = gzip.decompress(data) if suffix.endswith("gz") else data
    assert json.loads(text) == found.json()


def test_colors(tmp_path: Path) -> None:
    """In a figure, what is gone is dashed in its color, and the legend says so."""
    before, after = stack("Linear", "Tanh", "Linear"), stack("Linear", "Linear")
    text = compare(before, after).render(tmp_path / "both.dot", depth=3).read_text()
    assert "added" in text and "removed" in text
    gone = [line for line in text.splitlines() if "old_" in line and "->" in line]
    assert gone and all("dashed" in line for line in gone)


def test_a_former_input_has_the_color_of_what_is_gone(tmp_path: Path) -> None:
    """Although both of its ends are in both runs; the other input that of what is new."""
    def run(read: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            made = {name: builder.op(name, builder.input(name[0])) for name in ("sin", "cos")}
            builder.op("mul", made["sin"], made["cos"])
            builder.op("exp", made[read])
        return builder.recording()

    drawn = compare(run("sin"), run("cos")).render(tmp_path / "both.dot", depth=2).read_text()
    (head,) = re.findall(r'^\s*"?(\w+)"? \[.*exp', drawn, re.MULTILINE)
    ways = [line for line in drawn.splitlines() if re.search(rf' -> "?{head}\b', line)]
    assert len(ways) == 2
    for mark in ("removed", "added"):
        assert sum(stroke_of(drawn, mark) in way for way in ways) == 1


def ops(*names: str, inner: str = "") -> Recording:
    """A module that calls these functions in a row; *inner* of them in a module inside."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name in names:
            x = run.op(name, x)
        if inner:
            with run.scope("inner", "Block"):
                x = run.op(inner, x)
                run.op("tanh", x)
    return run.recording()


def order(found: Overlay) -> list[str]:
    """Scopes and ops in the order of the overlay; those that are gone begin with a minus."""
    steps = [*found.recording.scopes.values(), *found.recording.ops.values()]
    steps.sort(key=lambda step: step.index)
    return [f"{'-' * step.id.startswith('old_')}{step.name}" for step in steps[1:]]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abcd", "abd", ["a", "b", "-c", "d"]),
        ("abcd", "bcd", ["-a", "b", "c", "d"]),
        ("abcd", "abc", ["a", "b", "c", "-d"]),
        ("abcd", "ad", ["a", "-b", "-c", "d"]),
        ("abcd", "ac", ["a", "-b", "c", "-d"]),
        ("ad", "abcd", ["a", "b", "c", "d"]),
        ("abd", "acd", ["a", "c", "d"]),
    ],
)
def test_what_is_gone_stays_behind_what_it_followed(
    before: str, after: str, expected: list[str]
) -> None:
    """A removed op lies right behind the one before it, wherever the rest went."""
    assert order(laid(ops(*before), ops(*after))) == expected


def test_what_is_gone_stays_in_the_module_it_was_in() -> None:
    """An op that is removed from a module inside is not drawn around it."""
    found = laid(ops("a", inner="b"), ops("a", inner="tanh"))
    gone = [op for op in found.recording.ops.values() if op.id.startswith("old_")]
    assert [found.recording.scopes[op.scope].name for op in gone] == ["inner"] * len(gone)


def test_a_call_that_only_repeats_forward_now_is_removed() -> None:
    """It is no counterpart of the call, and not drawn, as all that a checkpoint runs again."""
    def called(again: bool) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            x = run.input()
            with run.scope("part", "Part"):
                run.op("add", x)
            with run.scope("part", "Part", recompute=again):
                y = run.op("add", x)
                if not again:
                    run.op("mul", y)
        return run.recording()

    found = laid(called(again=False), called(again=True)).recording
    view = make_view(found, ViewOptions(depth=9))
    view.check()
    assert [box for box in view.boxes if box in found.ops] == ["o0", "old_o1", "old_o2"]


def test_a_removed_op_does_not_give_what_another_gives_now() -> None:
    """The module around both gives its result to the same reader."""
    merged = laid(result_of(deep=False), result_of(deep=True)).recording
    assert_each_value_has_one_maker(merged)
    gone = [op.outputs for op in merged.ops.values() if op.id.startswith("old_")]
    assert len(gone) == 1 and all(value.startswith("old_") for value in gone[0])


def assert_each_value_has_one_maker(recording: Recording) -> None:
    for op in recording.ops.values():
        assert all(recording.values[output].producer == op.id for output in op.outputs)


def result_of(deep: bool) -> Recording:
    """A module in which an op makes the result, at its top or in a module in it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        with run.scope("inner", "Inner"), run.scope("deep", "Deep") if deep else nullcontext():
            x = run.op("cos" if deep else "sin", x)
            run.returns(x)
        run.op("exp", x)
    return run.recording()


@settings(max_examples=60, deadline=None)
@given(recordings(), recordings())
def test_the_first_keeps_its_order(before: Recording, after: Recording) -> None:
    """Of what only the first has, in one scope, nothing changes places; all of it is marked."""
    found = laid(before, after)
    assert list(problems(found.recording)) == []
    assert_each_value_has_one_maker(found.recording)
    gone = [each for each in found.recording.ops.values() if each.id.startswith("old_")]
    by_scope: dict[Any, list[int]] = {}
    for op in sorted(gone, key=lambda op: op.index):
        by_scope.setdefault(op.scope, []).append(before.ops[OpId(op.id[4:])].index)
        assert found.marks[op.id] is ChangeKind.REMOVED
    assert all(places == sorted(places) for places in by_scope.values())


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_returned_instead(turned: bool, tmp_path: Path) -> None:
    """The way to the output is marked in an open module, and the former one is drawn."""
    long, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.ones(1, 4)
    pair = [record(long, x), record(long[:2], x)]
    before, after = pair[::-1] if turned else pair
    for other, marks in ((after, ["added", "removed"]), (before, [""])):
        drawn = compare(before, other).render(tmp_path / "model.dot", depth=9).read_text()
        ways = [line for line in drawn.splitlines() if '-> "out_0"' in line]
        colors = {mark: stroke_of(drawn, mark) for mark in marks if mark}
        found = [name for way in ways for name, color in colors.items() if color in way]
        assert sorted(found) == [mark for mark in marks if mark] and len(ways) == len(marks)


def stroke_of(drawn: str, word: str) -> str:
    """The color of a mark, from the legend of a figure."""
    entry = next(line for line in drawn.splitlines() if word in line and " -> " not in line)
    return re.search(r'\bcolor="([^"]+)"', entry)[1]


class _Returns(nn.Module):
    """A module that returns its weight, or the result of an operation on it."""

    def __init__(self, computes: bool) -> None:
        super().__init__()
        self.weight, self.computes = nn.Parameter(torch.ones(2, 4)), computes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of the shape of *x*."""
        return (x + self.weight).relu() if self.computes else self.weight


def test_only_what_an_operation_computed_has_a_former_edge() -> None:
    """Not a weight that a module gave back before."""
    held, computed = (
        record(nn.Sequential(_Returns(computes), nn.Tanh()), torch.ones(2, 4))
        for computes in (False, True)
    )
    assert not laid(held, computed).instead
    assert len(laid(computed, held).instead) == 1
