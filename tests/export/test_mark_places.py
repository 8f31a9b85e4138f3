"""Where the names of arguments stand at the heads of lines, in figures of a few lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.export.test_legends_and_marks import half
from torchrecorder.export.head_marks import HIGH, MARK_OFFSET, MIN_ROOM, SPARE, head_marks
from torchrecorder.export.legend import SMALL_TEXT
from torchrecorder.style.figure import Figure, Line, Look

LOOK: Any = object.__new__(Look)
Way = list[tuple[float, float]]


def marks(*lines: tuple[str, Way, str, int], direction: Any = "TB") -> dict[int, Any]:
    """The marks of lines from one box, each to this head, on this way, with this mark and place."""
    drawn = tuple(
        Line("tail", head, "", LOOK, mark=mark, place=place) for head, _, mark, place in lines
    )
    return head_marks(Figure("f", (), (), drawn, direction), [way for _, way, *_ in lines])


def turning(x: float, level: float) -> Way:
    """A way from (300, 0) that runs level to *x* at this height."""
    return [(300.0, 0.0), (300.0, level), (x, level), (x, 900.0)]


TIP = 80.0
DOWN: Way = [(300.0, 0.0), (300.0, TIP)]


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ([], False),
        ([turning(340, TIP)], True),
        ([turning(340, TIP - MIN_ROOM + 0.5)], True),
        ([turning(340, TIP + MIN_ROOM - 0.5)], True),
        ([turning(340, TIP - MIN_ROOM)], False),
        ([turning(340, TIP + MIN_ROOM)], False),
        ([turning(300 + MARK_OFFSET, TIP)], False),
        ([turning(300 + MARK_OFFSET + 0.5, TIP)], True),
        ([turning(260, TIP)], False),
        ([turning(340, TIP), turning(260, TIP)], False),
        ([turning(340, TIP), turning(300 - MARK_OFFSET, TIP)], True),
        ([turning(340, TIP), turning(340, 200)], True),
        ([[(300.0, 0.0), (340.0, TIP + 10)]], False),
        ([turning(340, TIP)[::-1]], True),
    ],
)
def test_a_mark_stands_away_from_lines_that_turn_aside(others: list[Way], left: bool) -> None:
    """On the right, unless a line from the same box runs level there and none on the left."""
    found = marks(("head", DOWN, "query", -1), *(("other", way, "", -1) for way in others))
    aside = MARK_OFFSET + half("query")
    assert found[0].at == pytest.approx((300 - aside if left else 300 + aside, TIP - 5))
    assert list(found) == [0] and found[0].text == "query"


@pytest.mark.parametrize("direction", ["TB", "BT"])
def test_upright_tips(direction: Any) -> None:
    """The mark of the first line is left of it, that of the last right; before the tip."""
    down = direction == "TB"
    tip, start = (90.0, 10.0) if down else (10.0, 90.0)
    lines = [("h", [(x, start), (x, tip)], name, 2 - n) for n, (x, name) in
             enumerate([(30.0, "a"), (60.0, "b"), (90.0, "c")])]
    found = marks(*lines, direction=direction)
    y = tip - 5 if down else tip + 5
    assert [found[n].at for n in range(3)] == [
        pytest.approx((30 - MARK_OFFSET - half("a"), y)),
        pytest.approx((60 + MARK_OFFSET + half("b"), y)),
        pytest.approx((90 + MARK_OFFSET + half("c"), y)),
    ]


@pytest.mark.parametrize("direction", ["LR", "RL"])
def test_level_tips(direction: Any) -> None:
    """The mark ends two points before the tip, above the line."""
    sign = 1 if direction == "LR" else -1
    lines = [("h", [(50.0 - sign * 40, y), (50.0, y)], name, 1 - n) for n, (y, name) in
             enumerate([(30.0, "some"), (90.0, "other")])]
    found = marks(*lines, direction=direction)
    for number, (y, name) in enumerate([(30.0, "some"), (90.0, "other")]):
        x, height = found[number].at
        assert x + sign * half(name) == pytest.approx(50 - sign * 2)
        assert height == pytest.approx(y - 10.0 * SMALL_TEXT * 0.7) and found[number].text == name


@pytest.mark.parametrize("room", [-0.01, 0.01])
def test_level_tips_that_are_close(room: float) -> None:
    """Inner marks need room below the line above them; the last one is below its line."""
    high, low = 10.0 * SMALL_TEXT * HIGH + room, 10.0 * SMALL_TEXT * 0.7
    lines = [("h", [(0.0, seat * high), (50.0, seat * high)], name, 2 - seat) for seat, name in
             enumerate(["a", "inner", "b"])]
    found = marks(*lines, direction="LR")
    levels = {mark.text: mark.at[1] for mark in found.values()}
    if room < 0:
        assert levels == pytest.approx({"a": -low, "b": 2 * high + low})
    else:
        assert levels == pytest.approx({"a": -low, "inner": high - low, "b": 2 * high + low})


@pytest.mark.parametrize("room", [-0.01, 0.0])
def test_the_last_of_level_tips_is_below_one_that_is_near(room: float) -> None:
    """Else above its line, as the first one is."""
    lines = [("h", [(0.0, y), (50.0, y)], name, 1 - n) for n, (name, y) in
             enumerate([("a", 0.0), ("b", MIN_ROOM + room)])]
    _, last = marks(*lines, direction="LR").values()
    moved = (0.7 if room else -0.7) * 10.0 * SMALL_TEXT
    assert last.at[1] == pytest.approx(MIN_ROOM + room + moved)


def test_diagonal_tips() -> None:
    """What is as level as it is upright is level."""
    (found,) = marks(("h", [(0.0, 0.0), (40.0, 40.0)], "a", -1)).values()
    assert found.at == pytest.approx((40 - half("a") - 2, 40 - 10.0 * SMALL_TEXT * 0.7))


@pytest.mark.parametrize("room", [-0.01, 0.01])
def test_numbers_where_names_have_no_room(room: float) -> None:
    """Between upright lines that are too close; the first and the last have room aside."""
    gap = 2 * half("middle") + MARK_OFFSET + room
    tips = {"a name that is long": 0.0, "middle": 40.0, "another that is long": 40.0 + gap}
    lines = [("h", [(x, 0.0), (x, 90.0)], name, 2 - n) for n, (name, x) in enumerate(tips.items())]
    texts = [mark.text for mark in marks(*lines).values()]
    assert texts == (["3", "2", "1"] if room < 0 else [*tips])
    turned = [(head, [(y, x) for x, y in way], *rest) for head, way, *rest in lines]
    level: Any = marks(*turned, direction="LR")  # type: ignore[arg-type]
    assert [mark.text for mark in level.values()] == [*tips]


@pytest.mark.parametrize("room", [-0.01, 0.01])
def test_no_numbers_where_these_have_no_room(room: float) -> None:
    """Numbers do not stand on the next line: of many lines, only the outermost have theirs."""
    gap = 2 * half("2") + MARK_OFFSET + room
    lines = [("h", [(seat * gap, 0.0), (seat * gap, 90.0)], "long", 3 - seat) for seat in range(4)]
    texts = [mark.text for mark in marks(*lines).values()]
    assert texts == (["4", "1"] if room < 0 else ["4", "3", "2", "1"])
    (head, way, *_), *rest = lines[1:]
    texts = [mark.text for mark in marks(lines[0], (head, way, "key = value", -1), *rest).values()]
    assert texts == ["4", "kv", *(["1"] if room < 0 else ["2", "1"])]


def test_marks_that_are_no_arguments_take_no_number() -> None:
    """They are always named, whatever room there is, and so need no room for a number."""
    gap = MARK_OFFSET + half("0")
    tips = (0.0, 100.0, 100.0 + gap, 200.0)
    lines = [("h", [(x, 0.0), (x, 90.0)], mark, place) for x, mark, place in
             zip(tips, ("first", "÷", "inner, and long" * 3, "last"), (2, -1, 1, 0))]
    assert [mark.text for mark in marks(*lines).values()] == ["3", "÷", "2", "1"]


def test_lines_without_a_name_have_no_number() -> None:
    """Also where the names of the others have no room."""
    lines = [("h", [(x, 0.0), (x, 90.0)], mark, place) for x, mark, place in
             zip((0.0, 40.0, 60.0, 100.0), ("a", "", "long name", "d"), (3, 2, 1, 0))]
    assert {n: mark.text for n, mark in marks(*lines).items()} == {0: "4", 2: "2", 3: "1"}


@pytest.mark.parametrize(
    ("places", "shown"),
    [((0, 1), ""), ((1, 0), "ab"), ((0, -1), "b"), ((-1, 0), "a"), ((2, 2), ""), ((-1, -1), "ab")],
)
def test_which_lines_are_named(places: tuple[int, int], shown: str) -> None:
    """All where they enter out of order; in order only those without a number, such as ``÷``."""
    lines = [("h", [(x, 0.0), (x, 90.0)], name, place)
             for x, name, place in zip((30.0, 90.0), "ab", places)]
    assert "".join(mark.text for mark in marks(*lines).values()) == shown
    turned = {1 - number: mark for number, mark in marks(*lines[::-1]).items()}
    assert turned == marks(*lines)  # whichever line is drawn first


BOTH, SHORTER = "query = key = value", "q = k = v"
LETTERS, SHORTEST = "q k v", "qkv"
FAR, CLOSE, NEARER, NEAREST = (
    half(text) * 2 + SPARE for text in (BOTH, SHORTER, LETTERS, SHORTEST)
)


@pytest.mark.parametrize(
    ("aside", "text", "left"),
    [
        ([], BOTH, False),
        ([-20.0], BOTH, False),
        ([20.0], BOTH, True),
        ([MARK_OFFSET + FAR + 1], BOTH, False),
        ([-20.0, MARK_OFFSET + FAR - 1], SHORTER, False),
        ([-MARK_OFFSET - FAR - 1, 20.0], BOTH, True),
        ([-MARK_OFFSET - CLOSE - 1, 20.0], SHORTER, True),
        ([-MARK_OFFSET - CLOSE + 1, MARK_OFFSET + CLOSE - 1], LETTERS, False),
        ([-MARK_OFFSET - NEARER + 1, MARK_OFFSET + NEARER - 1], SHORTEST, False),
        ([-MARK_OFFSET - NEAREST + 1, MARK_OFFSET + NEAREST - 1], SHORTEST, False),
    ],
)
def test_a_long_mark_crosses_no_line(aside: list[float], text: str, left: bool) -> None:
    """It changes its side, or has the short names of the arguments where these have room."""
    others: list[tuple[str, Way, str, int]] = [
        (f"other {x}", [(300.0 + x, 0.0), (300.0 + x, 900.0)], "", 0) for x in aside
    ]
    (found,) = marks(("head", DOWN, BOTH, -1), *others).values()
    assert found.text == text and (found.at[0] < 300) == left


def test_a_long_mark_crosses_no_outline() -> None:
    """Neither a box beside it nor the border of the group that it is in."""
    drawn = Line("tail", "head", "", LOOK, mark=BOTH, place=-1)
    figure = Figure("f", (), (), (drawn,), "TB")

    def text_with(*outlines: tuple[float, float, float, float]) -> tuple[str, bool]:
        (found,) = head_marks(figure, [DOWN], outlines).values()
        return found.text, found.at[0] < 300

    around, tight = (0.0, 0.0, 900.0, 900.0), (0.0, 0.0, 300 + FAR, 900.0)
    assert text_with(around) == (BOTH, False)
    assert text_with(around, tight) == (BOTH, True)
    assert text_with((320.0, 60.0, 360.0, 90.0)) == (BOTH, True)
    assert text_with((260.0, 60.0, 300 + FAR, 900.0)) == (SHORTER, False)
    for level in ((0.0, 75.0, 900.0, 900.0), (0.0, 0.0, 900.0, 75.0)):
        assert text_with(level) == (SHORTEST, False)
    assert text_with((305.0, 0.0, 900.0, 900.0)) == (BOTH, True)
    assert text_with((0.0, 0.0, 295.0, 900.0)) == (BOTH, False)


@pytest.mark.parametrize(
    ("room", "text"),
    [(FAR, BOTH), (FAR - 1, SHORTER), (CLOSE - 1, LETTERS), (NEARER - 1, SHORTEST)],
)
@pytest.mark.parametrize("direction", ["LR", "RL"])
def test_a_long_mark_fits_between_two_boxes(direction: Any, room: float, text: str) -> None:
    """Beside each other: above the line, in shorter words the nearer they are."""
    drawn = Line("tail", "head", "", LOOK, mark=BOTH, place=-1)
    figure = Figure("f", (), (), (drawn,), direction)
    gap = 2 + room + 0.1
    start, tip = (300 - gap, 300.0) if direction == "LR" else (360 + gap, 360.0)
    left = start - 60 if direction == "LR" else start
    outlines = [(left, 60.0, left + 60, 100.0), (300.0, 60.0, 360.0, 100.0)]
    (found,) = head_marks(figure, [[(start, 80.0), (tip, 80.0)]], outlines).values()
    assert found.text == text and found.at[1] < 80


def beside(height: float, down: float = 0.0) -> bool:
    """Whether a long mark is left of its line, with a level line from elsewhere on the right."""
    drawn = Line("a", "head", "", LOOK, mark=BOTH), Line("b", "other", "", LOOK)
    ways = [(x, y + down) for x, y in DOWN], [(310.0, height + down), (500.0, height + down)]
    (found,) = head_marks(Figure("f", (), (), drawn), ways).values()
    assert found.text == BOTH
    return found.at[0] < 300


@pytest.mark.parametrize(
    ("above", "left"), [(-4.1, False), (-3.9, True), (3.9, True), (4.1, False)]
)
def test_a_long_mark_is_as_high_as_its_letters(above: float, left: bool) -> None:
    """Lines that run level over it or under it do not cross it."""
    assert beside(TIP - 5 + above) == left


@pytest.mark.parametrize("down", [-1000.0, -333.0, -175.0, -76.0, 0.0, 20.0, 25.0, 500.0])
def test_a_long_mark_crosses_no_line_wherever_it_is(down: float) -> None:
    """Lines are found by their height, also above 0."""
    assert [beside(height, down) for height in (70.0, 71.5, 75.0, 78.5, 80.0)] == [
        False, True, True, True, False
    ]


def test_names_have_room_between_the_ends_of_their_lines() -> None:
    """Wherever these begin."""
    tips = {"first": 0.0, "middle": 40.0, "last": 80.0}
    lines = [("h", [(40.0, 0.0), (x, 90.0)], name, 2 - n)
             for n, (name, x) in enumerate(tips.items())]
    assert [mark.text for mark in marks(*lines).values()] == [*tips]
    apart = [("h", [(100.0 * n, 0.0), (40.0 + n, 190.0)], name, 2 - n)
             for n, name in enumerate(tips)]
    assert [mark.text for mark in marks(*apart).values()] == ["3", "1"]
