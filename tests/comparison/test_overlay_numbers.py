"""Numbers of two recordings laid over each other: those of the second, without what was removed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from torch import nn

from tests.comparison.test_compare import stack
from tests.comparison.test_overlay import laid
from tests.page.test_data import data_of
from tests.random_recordings import recordings
from torchrecorder import record
from torchrecorder.annotations.memory import new_bytes
from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.comparison.compare import compare
from torchrecorder.events import OpId
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def test_a_module_is_counted_without_what_was_removed() -> None:
    """Also where that had the same path, or was replaced by it."""
    found = laid(stack("Linear", "Linear", "ReLU", "Linear"), stack("ReLU", "ReLU")).recording
    counts = [
        (scope.cls, PARAMETERS.on(found).of([scope.id]) or 0)
        for scope in found.scopes.values()
        if scope.name.isdigit()
    ]
    assert counts == [("ReLU", 0), ("Linear", 16), ("ReLU", 0), ("Linear", 16)]


@settings(max_examples=25, deadline=None)
@given(recordings(), recordings())
def test_numbers_of_what_both_have(before: Recording, after: Recording) -> None:
    """They are those of the second run, without what was removed; also on a page."""
    merged = laid(before, after).recording
    now, then = PARAMETERS.on(merged), PARAMETERS.on(after)
    for scope in after.scopes:
        inside, expected = ScopeMembers(merged).of_scope(scope), ScopeMembers(after).of_scope(scope)
        assert now.of(inside) == then.of(expected)
    here, there = on_a_page(merged), on_a_page(after)
    both = here.keys() & there.keys()  # a region that gives nothing may have no box beside others
    assert {item: here[item] for item in both} == {item: there[item] for item in both}
    assert both or not there


def test_a_removed_bias_does_not_count_on_a_page() -> None:
    """Its layer stays: what only the first run had is in a place of both."""
    x = torch.rand(2, 4)
    before, after = (record(nn.Linear(4, 4, bias=bias), x) for bias in (True, False))
    assert on_a_page(laid(before, after).recording) == on_a_page(after) == {"s0": 16}


def test_a_weight_counts_where_the_second_run_reads_it() -> None:
    """Whatever else of its module the first run read it in."""
    before, after = reading_in("Sine", "sin"), reading_in("Root", "sqrt")
    here, there = on_a_page(laid(before, after).recording), on_a_page(after)
    assert {item: here.get(item) for item in there} == there == {"s0": 16, "s1": 16, "s2": 16}


def reading_in(child: str, op: str) -> Recording:
    """A module whose child reads a weight of its own."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        with run.scope("outer", "Outer"):
            weight = run.parameter("weight")
            with run.scope(child.lower(), child):
                run.op(op, x, weight)
    return run.recording()


def on_a_page(recording: Recording) -> dict[str, float | None]:
    """The parameters of every scope that the page of a recording shows."""
    data = data_of(recording, fold=False)
    for column in data["annotations"]:
        if column["key"] == "parameters":
            found = zip(data["items"]["id"], column["values"])
            return {item: value for item, value in found if item in recording.scopes}
    return {}


def test_a_closed_box_is_counted_without_what_was_removed(tmp_path: Path) -> None:
    """A figure has the parameters of the second run on it, and those of what is gone where
    it stands alone."""
    pair = compare(stack("Linear", "Linear", "ReLU"), stack("Linear", "ReLU"))
    for depth, counts in ((0, ["16"]), (2, ["16", "16"])):
        drawn = pair.render(tmp_path / "both.dot", depth=depth).read_text()
        assert re.findall(r"(\d+) params", drawn) == counts


@pytest.mark.parametrize("deeper", [0, 1])
def test_memory_of_both_is_counted(deeper: int) -> None:
    """Storages have numbers of their own in each run: what only one had made new memory there,
    and a view none."""

    class Net(nn.Module):
        def __init__(self, deep: bool) -> None:
            super().__init__()
            self.first, self.deep = nn.Linear(4, 4), deep

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            if self.deep:
                x = (x[:1] + x.tanh()).relu_().sin()
            return x.sigmoid().cos()

    runs = [record(Net(deep == deeper), (torch.ones(2, 4),)) for deep in (0, 1)]
    counted, own = new_bytes(laid(*runs).recording), [new_bytes(run) for run in runs]
    for name, number in counted.items():
        old = name.startswith("old_")
        assert number == own[not old][OpId(name.removeprefix("old_"))], name
    assert any(name.startswith("old_") for name in counted) is (deeper == 0)
