"""Series: every n-th step recorded, and what stands out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as tree

import pytest
import torch

import torchrecorder as tr
from tests.figures import network
from tests.stepped import stepped
from torchrecorder.errors import InvalidArgument
from torchrecorder.series import NUMBERS, Point, points
from torchrecorder.testing import Builder


def deep():
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(8, 8), torch.nn.Sigmoid())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, 2))


def run(model, steps, **options):
    series = tr.Series(model, **options)
    for _ in range(steps):
        with series.step():
            model.zero_grad()
            model(torch.ones(4, 8)).pow(2).sum().backward()
    return series


def test_every_nth_step_is_recorded():
    """And no other."""
    series = run(deep(), 7, every=3)
    assert sorted({point.step for point in series.points}) == [0, 3, 6]
    assert series.scopes == tuple(str(number) for number in range(17))


def test_numbers_are_those_of_the_step():
    """The norms are those that hooks written by hand find."""
    model = deep()
    norms = {}

    def note(module, gave, given):
        norms["output"] = given[0].norm().item()

    handle = model[2].register_full_backward_hook(note)
    series = run(model, 1)
    handle.remove()
    (point,) = (each for each in series.points if each.scope == "2")
    assert point.gradient_norm == pytest.approx(norms["output"], rel=1e-5)
    weights = [model[2].weight.grad, model[2].bias.grad]
    total = torch.cat([each.flatten() for each in weights]).norm().item()
    assert point.parameter_gradient_norm == pytest.approx(total, rel=1e-5)


def test_a_module_that_is_called_twice_has_one_number_per_step():
    """It is that of the results of both calls together."""
    model = deep()
    twice = torch.nn.Sequential(model[0], model[1], model[2], model[1])
    results, norms = [], []

    def note(module, gave, given):
        norms.append(given[0].norm())

    model[1].register_forward_hook(lambda module, given, made: results.append(made.flatten()))
    model[1].register_full_backward_hook(note)
    series = run(twice, 2, every=1)
    assert [point.scope for point in series.points] == 2 * ["0", "1", "2"]
    assert [step for step, _ in series.lines()["1"]] == [0, 1]
    std, mean = torch.std_mean(torch.cat(results[:2]), correction=0)
    point = series.points[1]
    assert (point.activation_mean, point.activation_std, point.zeros) == (
        pytest.approx(mean.item()), pytest.approx(std.item()), 0.0
    )
    assert point.gradient_norm == pytest.approx(torch.stack(norms[:2]).norm().item())


def test_chosen_scopes_only():
    """By pattern."""
    assert run(deep(), 1, scopes="1*").scopes == ("1", "10", "11", "12", "13", "14", "15", "16")


def test_vanishing_gradients_are_remarked():
    """A stack of sigmoids loses its gradients; the table says so."""
    series = run(deep(), 1)
    assert any(remark.startswith("vanishing") and " 0 (" in remark for remark in series.remarks())
    assert "vanishing" in series.text()


def test_dead_units_are_reported():
    """A layer that gives nothing but zeros."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
    torch.nn.init.constant_(model[0].bias, -100.0)
    assert any(remark.startswith("dead") for remark in run(model, 1).remarks())


def point(scope="a", step=0, norm=None, zeros=None, not_finite=None):
    return Point(step, scope, norm, None, None, None, zeros, not_finite)


def remarks(*found):
    series = tr.Series(deep())
    series.points = list(found)
    return list(series.remarks())


def test_vanishing_is_below_a_share_of_the_largest():
    """Exactly that share is not; what is not finite is no largest."""
    norms = {"a": 10.0, "b": 0.01, "c": 0.0099, "d": float("inf")}
    vanishing, exploding = remarks(*(point(scope, norm=norm) for scope, norm in norms.items()))
    assert vanishing == "vanishing: gradients below 0.001 of the largest, 10: c (0.0099)"
    assert exploding == "exploding: gradients above 1000: d (inf)"
    assert remarks(point(norm=float("inf")))[0].startswith("exploding")


def test_exploding_is_above_a_number():
    """Exactly that number is not."""
    assert remarks(point(norm=1000.0)) == []
    assert remarks(point(norm=1001.0)) == ["exploding: gradients above 1000: a (1e+03)"]


def test_dead_is_from_a_share_of_zeros():
    """Exactly that share is; and of NaN and Inf one is enough."""
    found = remarks(
        point("a", zeros=0.95), point("b", zeros=0.94), point("c", not_finite=1.0),
        point("d", not_finite=0.0),
    )
    assert found == ["dead: at least 95 % zeros: a (95 %)", "not finite: c (1 numbers)"]


@pytest.mark.parametrize(("count", "more"), [(6, ""), (7, " and 1 more"), (9, " and 3 more")])
def test_remarks_name_six_scopes(count, more):
    """Of more only how many."""
    (found,) = remarks(*(point(str(place), zeros=1.0) for place in range(count)))
    named = ", ".join(f"{place} (100 %)" for place in range(6))
    assert found == f"dead: at least 95 % zeros: {named}{more}"


def test_remarks_are_of_the_last_step():
    """What was wrong before is no longer said."""
    assert remarks(point(step=0, zeros=1.0), point(step=3, zeros=0.5)) == []
    assert remarks(point(step=0, zeros=0.5), point(step=3, zeros=1.0)) != []


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(1, [40]), (2, [0, 40]), (3, [0, 20, 40]), (4, [0, 10, 30, 40]), (5, [0, 10, 20, 30, 40])],
)
def test_a_table_shows_steps_from_first_to_last(columns, shown):
    """Evenly, all of them where there is room; a step without the number stays empty."""
    series = tr.Series(deep())
    series.points = [point(step=step, norm=float(step + 1)) for step in range(0, 50, 10)]
    series.points.append(point("b", step=40, norm=2.0))
    head, _, first, second = series.text(columns=columns).splitlines()
    assert head.split() == ["Gradient", "norm", *map(str, shown)]
    assert first.split() == ["a", *(str(step + 1) for step in shown)]
    assert second.split() == ["b", "2"]


def test_a_step_without_numbers_is_refused():
    """A recording must have been made with statistics; an empty run has nothing to add."""
    series = tr.Series(deep())
    with pytest.raises(InvalidArgument, match=r"of Net has no statistics: .*stats=True"):
        series.add(network(), 0)
    series.add(Builder("Empty").recording(), 0)
    assert series.points == []


def test_innermost_modules_are_followed():
    """Others, and what is no module, only where a pattern names them."""
    found = network()
    assert [each.scope for each in points(found, 0)] == ["body.0", "body.1", "body.2", "skip"]
    assert [each.scope for each in points(found, 0, ("body*", "nothing"))] == [
        "body", "body.0", "body.1", "body.2"
    ]


def test_points_of_a_hand_made_step():
    """Gradients of what scopes gave, and of their weights."""
    first, second = points(stepped(), 5)
    assert first[:4] == (5, "a", 1e-6, 4.0)
    assert second[:4] == (5, "b", 1.0, 3.0)
    assert first[4:] == (0.0, 1.0, 0.5, 0, None, None, None)


def test_the_plot_is_svg_with_a_line_per_scope(tmp_path):
    """Names are escaped."""
    series = run(deep(), 3, every=1)
    series.points = [point._replace(scope=f"<{point.scope}>") for point in series.points]
    root = tree.parse(series.plot(tmp_path / "norms.svg")).getroot()
    lines = [each for each in root.iter() if each.tag.endswith("polyline")]
    assert len(lines) == 17
    assert "<0>" in [each.text for each in root.iter() if each.text]


def test_scopes_with_remarks_are_named_in_plots(tmp_path):
    """Of any number, also among so many scopes that most have no name."""
    series = tr.Series(deep())
    series.points = [
        point(f"layer{number}", zeros=float(number == 30))._replace(weight_norm=1.0 + number)
        for number in range(60)
    ]
    root = tree.parse(series.plot(tmp_path / "norms.svg", "weight_norm")).getroot()
    named = {each.text for each in root.iter() if each.tag.endswith("text")}
    assert {"layer30", "layer59", "layer0"} <= named and "layer31" not in named


def test_an_empty_series_can_be_drawn(tmp_path):
    """Nothing recorded yet: plots, texts and pages say so, without a made-up scale."""
    series = tr.Series(deep())
    plot = series.plot(tmp_path / "nothing.svg").read_text(encoding="utf-8")
    texts = re.findall(r">([^<\n]+)</text>", plot)
    assert len(texts) == 2 and texts[1] == "no numbers to show"
    assert series.table() == []
    assert "with series.step():" in next(series.remarks())
    page = series.page(tmp_path / "nothing.html").read_text(encoding="utf-8")
    assert "no step was recorded" in page and "no step was recorded" in series.text()


def test_a_path_that_no_module_has_is_said():
    """In a warning of the first step, and in the remarks: not that no step was recorded."""
    model = deep()
    series = tr.Series(model, scopes="layer0")
    with pytest.warns(tr.NothingFound, match="^scopes: no name matches 'layer0'"), series.step():
        model(torch.ones(2, 8))
    assert [*series.remarks()] == ["no module that ran matches scopes=('layer0',)"]


def test_steps_without_modules_are_said():
    """They were recorded, and there is no path that could be wrong."""
    series = tr.Series(deep())
    with series.step():
        torch.ones(2, 8).sin()
    assert [*series.remarks()] == ["no module that ran has numbers"]


@pytest.mark.parametrize("every", [1, 10])
def test_steps_cannot_be_nested(every):
    """Neither those that are recorded nor others. The series can be used again, and so can another
    one inside of it."""
    model = deep()
    series, other = tr.Series(model, every=every), tr.Series(model, every=1)
    for _ in range(2):
        with pytest.raises(tr.RecorderInUse, match="nested"):
            with series.step():
                with series.step():
                    raise AssertionError("began")
    with series.step(), other.step():
        model(torch.ones(4, 8)).sum().backward()
    assert {each.step for each in other.points} == {0}
    assert {each.step for each in series.points} == ({2} if every == 1 else set())


@pytest.mark.parametrize("wrong", [0, 1.5, True])
def test_every_must_be_a_number_of_steps(wrong):
    """The message says what is possible."""
    with pytest.raises(InvalidArgument, match="every"):
        tr.Series(deep(), every=wrong)


def test_unknown_numbers_are_refused(tmp_path):
    """The message lists those there are."""
    with pytest.raises(InvalidArgument, match="gradient_norm"):
        run(deep(), 1).text("loss")
    with pytest.raises(tr.UnknownFormat, match=".svg"):
        run(deep(), 1).plot(tmp_path / "norms.bmp")


def test_a_table_may_have_one_column_or_no_step():
    """One shows the last step; before the first step there is only the heading."""
    assert "2" in run(deep(), 3, every=1).text(columns=1).splitlines()[0]
    assert tr.Series(deep()).text().startswith("Gradient norm")


@pytest.mark.parametrize("what", NUMBERS)
def test_norms_are_plotted_by_their_order_of_magnitude(what, tmp_path):
    """And spreads; not means, shares and counts, which may be 0 or less."""
    series = tr.Series(deep())
    series.points = [point(step=step)._replace(**{what: 10.0 ** (step - 3)}) for step in range(4)]
    root = tree.parse(series.plot(tmp_path / "plot.svg", what)).getroot()
    (line,) = (each for each in root.iter() if each.tag.endswith("polyline"))
    heights = [float(spot.split(",")[1]) for spot in line.get("points").split()]
    steps = [one - other for one, other in zip(heights, heights[1:])]
    equal = steps == pytest.approx([steps[0]] * 3, abs=0.2)
    assert equal == what.endswith(("norm", "ratio", "std"))
