"""Which numbers of two recordings count as different."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from torchrecorder.annotations import by_name
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.comparison import Comparison
from torchrecorder.comparison.numbers import change_text
from torchrecorder.errors import InvalidArgument, NothingFound, UnknownAnnotation
from torchrecorder.events import COMPILED_GRAPH, Statistics
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def net(width: int = 4) -> Recording:
    """Two linear layers."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x", (2, 4))
        for name, size in (("fc1", width), ("fc2", 4)):
            with run.scope(name, "Linear"):
                x = run.op("linear", x, run.parameter("weight", (size, 4)), shape=(2, size))
    return run.recording()


def measuring(recording: Recording, quantity: str, **amounts: float) -> Recording:
    """*recording* with something measured of its ops."""
    return replace(recording, measured=MappingProxyType({quantity: MappingProxyType(amounts)}))


def measured_changes(comparison: Comparison) -> list[str]:
    """The texts of what differs in what was measured."""
    return [f"{each.where}: {each.text}" for each in comparison.changes if each.kind == "measured"]


def test_what_is_counted_is_stated_of_the_whole() -> None:
    """In text and JSON, and without being a difference of its own."""
    found = compare(net(), net(8))
    assert found.changed_totals == (
        "parameters: 32 → 48 (+50 %)",
        "output_bytes: 64 B → 96 B (+50 %)",
    )
    assert "  total     parameters: 32 → 48 (+50 %), output_bytes" in found.text()
    assert found.json()["totals"]["parameters"] == {"before": 32, "after": 48}
    assert not measured_changes(found)
    assert compare(net(), net()).text() == "Net: no difference"


def test_modules_are_listed_for_themselves() -> None:
    """What is in one that differs does not make all around it differ."""
    found = compare(net(), net(8), numbers=["parameters"])
    assert measured_changes(found) == [
        "the whole run: parameters: 32 → 48 (+50 %)",
        "fc1: parameters: 16 → 32 (+100 %)",
    ]
    assert "total     output_bytes" in found.text()


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [("flops", True), ({"flops": 1.5}, False), ({"flops": 1.2}, True)],
)
def test_a_count_differs_at_once_or_from_a_factor_on(wanted: Any, listed: bool) -> None:
    """The whole run counts too: what it says is why the comparison is not empty."""
    before, after = (measuring(net(), "flops", o0=more, o1=1e6) for more in (1e6, 1.3e6))
    found = compare(before, after, numbers=wanted)
    assert bool(found) is listed
    assert ("fc1: flops: 1.00 MFLOP → 1.30 MFLOP (+30 %)" in measured_changes(found)) is listed


def test_a_factor_counts_from_itself_on() -> None:
    """Twice as much is a factor of two."""
    before, after = net(), net(8)
    assert "fc1: parameters: 16 → 32 (+100 %)" in measured_changes(
        compare(before, after, numbers={"parameters": 2})
    )
    assert not measured_changes(compare(before, after, numbers={"parameters": 2.1}))


def test_totals_are_of_numbers_that_both_have_and_that_add_up() -> None:
    """No mean of a whole run, no number of a graph, and none that only one run has."""
    for quantity in ("flops", COMPILED_GRAPH):
        one, other = net(), measuring(net(), quantity, o0=1.0, o1=2.0)
        names = {total.name for total in compare(one, one).totals}
        assert {total.name for total in compare(one, other).totals} == names
        assert {total.name for total in compare(other, one).totals} == names
        both = {total.name for total in compare(other, other).totals} - names
        assert both == ({"flops", "intensity"} if quantity == "flops" else set())
    found = compare(activations(0.5), activations(0.9), numbers="activation_mean")
    assert measured_changes(found) and "activation_mean" not in found.json()["totals"]


def activations(mean: float, norm: float = 1.0) -> Recording:
    """A run with statistics of one tensor."""
    taken = Statistics("v2", 0, -1, 8, mean, 1.0, -1.0, 1.0, norm, 0, 0, 0)
    return replace(net(), statistics=(taken,))


@pytest.mark.parametrize(
    ("before", "after", "listed"),
    [
        (0.5, 0.52, False),
        (0.5, 0.6, True),
        (0.5, -0.5, True),
        (1e-9, -1e-9, False),
        (0.5, math.nan, True),
        (math.nan, math.nan, False),
    ],
)
def test_statistics_differ_from_a_tenth_on(before: float, after: float, listed: bool) -> None:
    """They are never the same twice; NaN is what no number is like."""
    found = compare(activations(before), activations(after), numbers="activation_mean")
    assert bool(measured_changes(found)) is listed
    json.dumps(found.json(), allow_nan=False)


def test_what_one_has_not_measured_is_warned_of() -> None:
    """The warning says how to measure it."""
    with pytest.warns(NothingFound, match="flops=True"):
        assert not compare(net(), net(), numbers="flops")


@pytest.mark.parametrize("wrong", [3, [3], {"flops": 0.5}, {"flops": "2"}, {"flops": True}])
def test_what_is_no_factor_is_refused(wrong: Any) -> None:
    """The message shows what goes."""
    with pytest.raises(InvalidArgument, match="numbers must be names of annotations, or factors"):
        compare(net(), net(), numbers=wrong)


def test_a_misspelled_number_is_guessed() -> None:
    """As wherever a number is asked for."""
    with pytest.raises(UnknownAnnotation, match="did you mean 'flops'"):
        compare(net(), net(), numbers={"flop": 2})


def test_the_legend_of_the_figure_has_the_totals(tmp_path: Path) -> None:
    """Below the colors, with the titles that figures give to numbers."""
    drawn = compare(net(), net(8)).render(tmp_path / "net.dot").read_text()
    assert drawn.index("different") < drawn.index("Params: 32 → 48 (+50 %)")
    assert "Output size: 64 B → 96 B (+50 %)" in drawn


def test_a_number_that_colors_the_figure_is_in_its_legend(tmp_path: Path) -> None:
    """Above the colors of differences, which are those of outlines then."""
    found = compare(net(), net(8))
    drawn = found.render(tmp_path / "net.dot", color_by="output_bytes").read_text()
    assert drawn.index("<Output size>") < drawn.index("<0 B>") < drawn.index("different")


@pytest.mark.parametrize(
    ("before", "after", "factor", "text"),
    [
        (100.0, 109.0, 1.1, ""),
        (100.0, 111.0, 1.1, "100 → 111 (+11 %)"),
        (100.0, 200.0, 2.0, "100 → 200 (+100 %)"),
        (200.0, 100.0, 2.0, "200 → 100 (−50 %)"),
        (111.0, 100.0, 1.1, "111 → 100 (−9.91 %)"),
        (100.0, 101.0, 1.0, "100 → 101 (+1 %)"),
        (100.0, 100.0, 1.0, ""),
        (1.0, 9.9, 1.0, "1 → 9.9 (+890 %)"),
        (1.0, 10.0, 1.0, "1 → 10 (×10)"),
        (10.0, 1.0, 1.0, "10 → 1 (×0.1)"),
        (10.0, 1.1, 1.0, "10 → 1.1 (−89 %)"),
        (0.0, 5.0, 2.0, "0 → 5"),
        (5.0, 0.0, 2.0, "5 → 0"),
        (-1.0, 1.0, 2.0, "-1 → 1"),
        (-1.0, -1.5, 2.0, ""),
        (-1.0, -3.0, 2.0, "-1 → -3"),
        (-1e-7, 1e-7, 2.0, ""),
        (-1e-7, 1e-7, 1.0, ""),
        (-1.5e-6, 1.5e-6, 2.0, "-1.5e-06 → 1.5e-06"),
        (-1e-5, 1e-5, 2.0, "-1e-05 → 1e-05"),
        (math.nan, 1.0, 2.0, "nan → 1"),
        (math.nan, math.nan, 2.0, ""),
        (1.0, math.inf, 2.0, "1 → inf"),
    ],
)
def test_how_the_change_of_a_number_is_written(
    before: float, after: float, factor: float, text: str
) -> None:
    """From the factor on, with the share of growth or a factor where it is ten times as much."""
    plain = replace(by_name("gradient_norm"), show=lambda number: f"{number:g}")
    assert change_text(plain, before, after, factor) == text
