"""What the page works out to draw, function by function, in a real browser."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

pytestmark = pytest.mark.page


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (11689512, "exact", "11,689,512"),
        (602112, "bytes", "602 kB"),
        (999.7, "bytes", "1 kB"),
        (0.00125, "seconds", "1.25 ms"),
        (0.0009999, "seconds", "1 ms"),
        (3e-8, "seconds", "30 ns"),
        (4.089e9, "flops", "4.09 GFLOP"),
        (0.1234, "share", "12.3 %"),
        (-2.5, "number", "-2.5"),
        (1.5e-9, "number", "1.50e-9"),
        (0, "seconds", "0 s"),
        (None, "exact", ""),
    ],
)
def test_numbers_are_formatted(flat: Any, value: Any, form: str, text: str) -> None:
    """A few digits and a unit of a fitting size."""
    assert flat("([value, form]) => numbers.format(value, form)", [value, form]) == text


@pytest.mark.parametrize("text, value", [("nan", "NaN"), ("∞", "Infinity"), ("−∞", "-Infinity")])
def test_numbers_that_are_none(flat: Any, text: str, value: str) -> None:
    """They are said, in whatever format."""
    assert flat(f"numbers.format({value}, 'bytes')") == text


def test_ramp_goes_through_its_stops_evenly(flat: Any) -> None:
    """Ends are met, and the steps look alike."""
    ramp = flat("[0, .25, .5, .75, 1].map(color.ramp(['#ffffff', '#808080', '#000000']))")
    assert ramp[0] == "#ffffff" and ramp[2] == "#808080" and ramp[4] == "#000000"
    light = [flat("hex => color.toLab(hex)[0]", each) for each in ramp]
    assert light[0] - light[1] == pytest.approx(light[1] - light[2], abs=0.01)


@pytest.mark.parametrize("hex", ["#123456", "#ffb45c", "#000000", "#fefefe"])
def test_colors_are_the_same_after_conversion_and_back(flat: Any, hex: str) -> None:
    """To Oklab and back."""
    assert flat("hex => color.toHex(color.toLab(hex))", hex) == hex


def test_ink_can_be_read_on_every_color_of_both_ramps(flat: Any) -> None:
    """At least 4.5 to 1, as the guidelines for accessible text ask."""
    least = flat(
        "() => Math.min(...['light', 'dark'].flatMap(theme => {"
        " const ramp = color.ramp(page.model.data.themes[theme].heat);"
        " return Array.from({ length: 41 }, (_, at) => ramp(at / 40))"
        "   .map(fill => color.contrast(fill, color.ink(fill))); }))"
    )
    assert least >= 4.5


def test_scale_is_even_in_factors_if_asked_for(flat: Any) -> None:
    """Otherwise in steps, from 0 for numbers that add up; nothing is beyond its ends."""
    wide = flat("(() => { const s = color.scale([1, 1000, 1e6], { log: true });"
                " return [s.log, s.at(1), s.at(1000), s.at(1e6), s.at(1e9), s.at(null)]; })()")
    assert wide == [True, 0, pytest.approx(0.5), 1, 1, None]
    narrow = flat("(() => { const s = color.scale([5, 1, 10000, NaN, null], { sum: true });"
                  " return [s.log, s.low, s.high, s.at(5000)]; })()")
    assert narrow == [False, 0, 10000, 0.5]
    assert flat("color.scale([5, 7]).low") == 5


def test_scale_of_nothing_and_of_equals(flat: Any) -> None:
    """No numbers: no colors. One number: the strongest."""
    assert flat("color.scale([null, NaN], { log: true }).at(1)") is None
    assert flat("color.scale([3, 3]).at(3)") == 1
    assert flat("color.scale([0, 0], { sum: true }).at(0)") == flat("color.scale([0]).at(0)") == 0


def test_zoom_keeps_what_is_under_the_pointer(flat: Any) -> None:
    """Whatever the factor."""
    before, after = flat(
        "(() => { const view = { x: 10, y: -4, k: .8 };"
        " return [view, camera.zoomed(view, 300, 200, 3.7)].map(each =>"
        "   camera.toWorld(each, 300, 200)); })()"
    )
    assert after == pytest.approx(before)


def test_fit_shows_all_of_it(flat: Any) -> None:
    """In the middle, and not larger than can be borne."""
    room = "{ width: 800, height: 600 }"
    view = flat(f"camera.fitted({{ x: 0, y: 0, w: 2000, h: 500 }}, {room})")
    assert view["k"] * 2000 <= 800 and (0 - view["x"]) * view["k"] >= 0
    assert flat(f"camera.fitted({{ x: 0, y: 0, w: 10, h: 10 }}, {room}).k") == 1.6


def test_marks_end_where_the_window_ends(deep: Any) -> None:
    """In dots, if that leaves something of the name; the others are whole."""
    labels = (
        "width => { const { model, stage } = page, open = openItems.all(model);"
        " const { boxes } = stage.layout.place(open), view = { x: 0, y: 0, k: .3 };"
        " return zoomLabels.choose(boxes, view, 3, model, { width }).map(({ text, x, y }) =>"
        "   [Math.round(y), text, x * .3 + text.length * 11 * 0.58]); }"
    )
    whole = {y: (text, right) for y, text, right in deep(labels, 10000)}
    width = max(right for _, right in whole.values()) - 20
    narrow = {y: (text, right) for y, text, right in deep(labels, width)}
    assert narrow.keys() == whole.keys() and any(text[-1] == "…" for text, _ in narrow.values())
    for y, (text, right) in narrow.items():
        assert text == whole[y][0] or text[-1] == "…" and whole[y][0].startswith(text[:-1])
        assert right <= width
    assert {text for _, text, _ in deep(labels, 5)} == {text for text, _ in whole.values()}


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_the_first_view_of_a_wide_picture_has_the_first_box_in_its_middle(
    flat: Any, direction: str
) -> None:
    """As far as the picture goes; one that fits stands in the middle whatever is first."""
    flow, across = ("w", "h") if direction in ("LR", "RL") else ("h", "w")
    axis = {"w": "x", "h": "y"}[across]
    begin = (
        "([wide, at]) => { const room = { width: 400, height: 400 };"
        f" const area = {{ x: 0, y: 0, {across}: wide, {flow}: 9000 }};"
        f" const box = {{ x: 0, y: 0, w: 20, h: 20, {axis}: at }};"
        f" const view = camera.initial(area, room, '{direction}', box);"
        f" return [view.{axis}, view.{axis} + 400 / view.k]; }}"
    )
    low, high = flat(begin, [3000, 990])
    assert (low + high) / 2 == pytest.approx(1000)
    assert flat(begin, [3000, 0])[0] == pytest.approx(-28)
    assert flat(begin, [3000, 2980])[1] == pytest.approx(3000 + 28)
    for wide in (300, 340):
        low, high = flat(begin, [wide, 0])
        assert (low + high) / 2 == pytest.approx(wide / 2)


def test_overview_of_a_thread_is_its_beginning(flat: Any) -> None:
    """All of a picture as high as a tower would be a thin line."""
    view = flat("camera.overview({ x: 0, y: 0, w: 300, h: 300000 },"
                " { width: 800, height: 600 }, 'TB')")
    assert view["k"] * 300 > 100 and -100 < view["y"] <= 0


def test_the_middle_of_the_window_stays_on_the_picture(flat: Any) -> None:
    """One cannot get lost."""
    view = flat("camera.clamped({ x: 5000, y: -9000, k: 1 }, { width: 400, height: 300 },"
                " { width: 800, height: 600 })")
    assert 0 <= view["x"] + 400 <= 400 and 0 <= view["y"] + 300 <= 300


def test_showing_moves_no_more_than_needed(flat: Any) -> None:
    """What is seen already moves nothing."""
    view = {"x": 0, "y": 0, "k": 1}
    show = ("([view, box]) => camera.showing(view, box, { width: 800, height: 600 })")
    assert flat(show, [view, {"x": 100, "y": 100, "w": 50, "h": 50}]) == view
    moved = flat(show, [view, {"x": 100, "y": 900, "w": 50, "h": 50}])
    assert moved["x"] == 0 and 900 + 50 <= moved["y"] + 600 < 900 + 50 + 60


@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_views_between_two_views_end_at_them(flat: Any, share: float) -> None:
    """And the size changes in even factors."""
    view = flat("share => camera.interpolated({ x: 0, y: 0, k: 1 }, { x: 90, y: 50, k: 4 }, share,"
                " { width: 800, height: 600 })", share)
    assert view["k"] == pytest.approx(4 ** share)
    if share in (0, 1):
        assert (view["x"], view["y"]) == pytest.approx((90 * share, 50 * share))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", [(60, 20, 400, 900), (400, 900, 60, 20)])
def test_the_box_that_changes_stays_under_the_pointer(
    flat: Any, size: tuple[int, int, int, int], turned: bool
) -> None:
    """Opened or closed, in either direction of the flow."""
    w, h, wide, high = size
    before = {"x": 100, "y": 200, "w": w, "h": h}
    after = {"x": 140, "y": 260, "w": wide, "h": high}
    px, py = (100 + 0.7 * w) * 1.5, (200 + 0.6 * h) * 1.5
    view = flat("([one, other, px, py, turned]) => motion.anchored({ x: 0, y: 0, k: 1.5 },"
                " one, other, px, py, turned)", [before, after, px, py, turned])
    x, y = view["x"] + px / 1.5, view["y"] + py / 1.5
    assert 140 <= x <= 140 + wide and 260 <= y <= 260 + high


def test_motion_begins_and_ends_at_the_two_pictures(deep: Any) -> None:
    """Whatever opens grows out of the box that it was in."""
    found = deep(
        "(() => { const { model, stage } = page, fold = model.openable.find(model.isFold);"
        " const open = new Set(model.data.open), next = openItems.toggledItem(open, fold);"
        " const [one, other] = [open, next].map(stage.layout.place);"
        " const at = motion.between(one, other, model.parent, () => true);"
        " const frames = list => list.filter(box => (box.alpha ?? 1) > 0.001).map(box =>"
        "   [box.item, box.x, box.y, box.w * (box.sx ?? 1), box.h * (box.sy ?? 1)]);"
        " const old = motion.index(one).get(fold);"
        " return { start: frames(at(0).boxes), one: frames(one.boxes), end: frames(at(1).boxes),"
        "   other: frames(other.boxes), old: [old.x, old.y, old.x + old.w, old.y + old.h],"
        "   grown: at(0).boxes.filter(box => box.alpha === 0).map(box =>"
        "     [box.x, box.y, box.x + box.w * box.sx, box.y + box.h * box.sy]) }; })()"
    )
    assert sorted(map(_round, found["start"])) == sorted(map(_round, found["one"]))
    assert sorted(map(_round, found["end"])) == sorted(map(_round, found["other"]))
    left, top, right, bottom = found["old"]
    assert found["grown"]
    for x0, y0, x1, y1 in found["grown"]:
        assert left - 1 <= x0 and x1 <= right + 1 and top - 1 <= y0 and y1 <= bottom + 1


def _round(numbers: list[float]) -> list[float]:
    return [round(each, 2) for each in numbers]


def test_outlines_fill_their_box(flat: Any) -> None:
    """Every outline reaches all four sides, and is closed."""
    boxes = flat(
        "() => ['box', 'rounded', 'ellipse', 'cylinder', 'note', 'parallelogram', 'octagon',"
        " 'plain', 'unheard of'].map(name => {"
        " const path = createSvgElement('path', { d: shapes.outline(name, 90, 40) });"
        " document.querySelector('svg.picture').append(path); const { x, y, width, height } ="
        "   path.getBBox(); path.remove(); return [x, y, width, height]; })"
    )
    for box in boxes:
        assert box == pytest.approx([0, 0, 90, 40], abs=0.1)


def test_huge_outlines_are_cut_far_outside_the_window(flat: Any) -> None:
    """In whole steps, so that dashes stay where they are; small ones are left alone."""
    seen = "{ x: 0, y: 100000, w: 1000, h: 800 }"
    cut = flat(f"shapes.clipped({{ item: 1, x: 10, y: 5, w: 300, h: 300000 }}, {seen})")
    assert cut["y"] < 100000 - 100 and cut["y"] + cut["h"] > 100900 and cut["h"] < 5000
    assert math.isclose((cut["y"] - 5) % 700, 0) and cut["cut"] and cut["w"] == 300
    near = flat(f"shapes.clipped({{ item: 1, x: 10, y: 100100, w: 300, h: 90 }}, {seen})")
    assert near == {"item": 1, "x": 10, "y": 100100, "w": 300, "h": 90}


def test_distance_to_a_line(flat: Any) -> None:
    """To its nearest piece, not to where it would go on."""
    points = "[[0, 0], [0, 10], [30, 10]]"
    assert flat(f"shapes.distance({points}, 15, 14)") == 4
    assert flat(f"shapes.distance({points}, 0, -3)") == 3


def test_marks_do_not_cover_each_other(deep: Any) -> None:
    """Names of boxes too small to be read stand beside them."""
    labels = deep(
        "() => { const { model, stage } = page, open = openItems.all(model);"
        " const { boxes } = stage.layout.place(open), view = { x: 0, y: 0, k: .3 };"
        " return zoomLabels.choose(boxes, view, 3, model).map(({ text, x, y, size }) =>"
        "   [text, x * .3, y * .3, size * .3]); }"
    )
    assert len(labels) > 3
    for number, (_, x, y, size) in enumerate(labels):
        for _, other_x, other_y, _ in labels[:number]:
            assert abs(y - other_y) >= size or abs(x - other_x) > 20
    assert deep("() => zoomLabels.choose(page.stage.picture().boxes, page.stage.view(), 12,"
                " page.model)") == []


@pytest.mark.parametrize("wide", [False, True])
def test_a_line_leads_to_a_mark_that_is_not_near(flat: Any, wide: bool) -> None:
    """From its own box to the mark; between near ones there is none."""
    outer, far, near = [{"x": 0, "y": 0, "w": 200, "h": 900}, {"x": 10, "y": 100, "w": 60, "h": 90},
                        {"x": 10, "y": 300, "w": 186, "h": 90}]
    boxes = [{**box, "item": item, "open": True, "alpha": 1}
             for item, box in enumerate((outer, far, near))]
    if wide:
        boxes = [{**box, "x": box["y"], "y": box["x"], "w": box["h"], "h": box["w"]}
                 for box in boxes]
    model = (
        "{ title: item => ['an outer one', 'far away from it', 'near'][item], level: [0, 1, 1],"
        " parent: item => item ? 0 : -1,"
        " within: (item, scope) => scope < 0 || item === scope || !scope }"
    )
    given = f"{json.dumps(boxes)}, {{ x: 0, y: 0, k: 1 }}, 3, {model}, {{ width: 2000 }}"
    found = flat(f"zoomLabels.choose({given})")
    by_text = {label["text"]: label for label in found}
    (x, y), (end_x, end_y) = by_text["far away from it"]["leader"]
    assert by_text["near"]["leader"] is by_text["an outer one"]["leader"] is None
    if wide:
        assert x == end_x and 100 < x < 110 and 70 < y < 75 and end_y > 200
    else:
        assert y == end_y and 100 < y < 112 and 70 < x < 75
        assert end_x == pytest.approx(by_text["far away from it"]["x"] - 3)


def test_a_saved_picture_is_trimmed_to_what_is_on_it(flat: Any) -> None:
    """The window beyond the picture is not saved, and files have harmless names."""
    area = flat("saving.croppedTo({ x: -500, y: -500, w: 5000, h: 5000 },"
                " { width: 200, height: 100 })")
    assert area == {"x": -12, "y": -12, "w": 224, "h": 124}
    assert flat("saving.fileName('a/b:c <d>', 'svg')") == "a_b_c_d_.svg"


def test_png_is_never_larger_than_browsers_paint(flat: Any) -> None:
    """Long pictures lose sharpness, not their end."""
    for w, h in ((100, 100), (300, 300000), (90000, 90000)):
        k = flat("([width, height]) => saving.sharpness({ width, height })", [w, h])
        assert w * k <= 16000.5 and h * k <= 16000.5 and w * h * k * k <= 120e6 + 1


def test_visible_parts_have_all_that_is_visible(deep: Any) -> None:
    """Scopes that do not meet an area are not looked at, and nothing is missed by that."""
    missed, looked, all_lines = deep(
        "() => { const picture = page.stage.layout.place(new Set(page.model.openable));"
        " const meets = (line, area) => camera.overlaps("
        "  { x: line.x0, y: line.y0, w: line.x1 - line.x0, h: line.y1 - line.y0 }, area);"
        " let missed = 0, looked = 0, all = 0;"
        " const { width, height } = picture;"
        " for (let y = 0; y < height; y += 37) for (let x = 0; x < width; x += 37) {"
        "  const area = { x, y, w: 30, h: 30 }, parts = camera.visibleParts(picture, area);"
        "  const boxes = new Set(parts.flatMap(part => part.boxes));"
        "  const lines = new Set(parts.flatMap(part => part.lines));"
        "  const near = picture.boxes.filter(box => camera.overlaps(box, area));"
        "  missed += near.filter(box => !boxes.has(box)).length;"
        "  missed += picture.lines.filter(line => meets(line, area) && !lines.has(line)).length;"
        "  looked += lines.size; all += picture.lines.length; }"
        " return [missed, looked, all]; }"
    )
    assert missed == 0 < looked < all_lines / 2
