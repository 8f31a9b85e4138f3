"""What values of options may be, how texts are read, and what is said of a wrong one."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import torchrecorder as tr
from torchrecorder import checks
from torchrecorder.checks import Check, check_one, one_of, suggests_names, takes, whole_number
from torchrecorder.errors import ArgumentMismatch, InvalidArgument, NothingFound, Notice
from torchrecorder.option_table import Checked, documented, option, options_of

INF, NAN = float("inf"), float("nan")


class Folder:
    """A path that is no text."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def __fspath__(self) -> Any:
        return self.path


RIGHT: dict[str, tuple[Check, list[Any], list[Any]]] = {
    "one of": (one_of("a", "b", False), ["a", "b", False], ["A", "", True, None, 0, ["a"]]),
    "flag": (checks.FLAG, [True, False], [1, 0, "yes", None]),
    "whole": (whole_number(2), [2, 3, 10**30], [1, 2.0, "2", True, None, NAN]),
    "from 0": (checks.FROM_0, [0, 0.0, 1e300, Fraction(1, 3)], [-1e-9, INF, NAN, True, "1", None]),
    "above 0": (checks.ABOVE_0, [1e-9, 1e6], [0, 1e6 + 1, INF, NAN, True, "1"]),
    "number or": (
        checks.number_or(whole_number(0), "auto", "none"),
        [0, 4, "auto", "none"], ["", "1", -1, 1.5],
    ),
    "range": (
        checks.RANGE, [(1, 2), [0.5, 0.5], (-1, 0)],
        [(2, 1), (1,), (1, 2, 3), "12", 1, (1, INF), (NAN, 1), ("1", "2"), {1, 2}],
    ),
    "text": (checks.TEXT, ["", "a"], [None, 1, b"a"]),
    "word": (checks.WORD, ["a", " a"], ["", "  ", None, 1]),
    "texts": (
        checks.TEXTS, ["a", ["a"], ("a", "b"), {"a"}, frozenset(), []], [b"a", [1], None, {"a": 1}]
    ),
    "mapping": (
        checks.MAPPING, [{}, {"a": 1}, MappingProxyType({"a": 1})], [[("a", 1)], {1: "a"}, None]
    ),
    "callable": (checks.CALLABLE, [len, int], ["len", None]),
    "list": (checks.LIST, [[], (), ["a"]], ["a", {"a"}, None]),
    "path": (
        checks.PATH, ["a", "", Path("a"), Folder("a")], [None, 1, b"a", "a\0b", Folder(b"a")]
    ),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_a_value_may_be(kind: str) -> None:
    """Of its type and in its bounds; None only where it is optional."""
    rule, right, wrong = RIGHT[kind]
    for value in right:
        check_one("it", value, rule)
        check_one("it", value, rule.or_none())
    for value in wrong:
        with pytest.raises(InvalidArgument, match=f"^it must be {re.escape(rule.expected)}"):
            check_one("it", value, rule)
    check_one("it", None, rule.or_none())
    assert repr(rule) == f"<Check: must be {rule.expected}>"
    assert repr(rule.or_none()) == f"<Check: must be {rule.expected} or None>"


def test_messages_of_wrong_values() -> None:
    """What is possible, what was given in short, and what may have been meant."""
    rule = one_of("nested", "dot", False).or_none()
    with pytest.raises(InvalidArgument) as found:
        check_one("layout", "nestd", rule)
    assert str(found.value) == (
        "layout must be 'nested', 'dot' or False or None, not 'nestd'; did you mean 'nested'?"
    )
    assert checks.described(one_of("dot"), 3) == "'dot', not 3"
    assert checks.shown({"a": [1, "b\n"]}) == "{'a': [1, 'b\\n']}"
    assert len(checks.shown("x" * 500)) < 90
    assert checks.shown(Folder("a").__class__) == f"<class '{__name__}.Folder'>"


READ: list[tuple[Callable[[str], Any], dict[str, Any]]] = [
    (checks.literal, {"1": 1, "(1, 2)": (1, 2), "'a'": "a", "a": "a", "True": True, "true": True,
                      "FALSE": False, "none": None, "a b": "a b", "": "", "1e3": 1000.0,
                      "{[]: 1}": "{[]: 1}", 9999 * "-": 9999 * "-", 9999 * "[": 9999 * "["}),
    (checks.switched, {"yes": True, "On": True, "1": True, "true": True, "no": False, "OFF": False,
                       "0": False, "False": False, "maybe": "maybe", "": ""}),
    (checks.words, {"a": ("a",), " a, b ,": ("a", "b"), "": (), ",": (), "a b": ("a b",)}),
    (checks.pair, {"a=b": {"a": "b"}, " a = b = c ": {"a": "b = c"}}),
    (checks.setting, {"a=1": {"a": 1}, "a = b": {"a": "b"}, "a=": {"a": ""},
                      "a=b=c": {"a": "b=c"}}),
]


@pytest.mark.parametrize(("read", "cases"), READ)
def test_texts_are_read(read: Callable[[str], Any], cases: dict[str, Any]) -> None:
    """As numbers, flags, names and pairs; of what is none of them the text stays."""
    for text, value in cases.items():
        found = read(text)
        assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("read", "text"),
    [(checks.pair, text) for text in ("a", "a=", "=b", " = ", "")]
    + [(checks.setting, text) for text in ("a", "=1", "1a=2", "a b=2", "")],
)
def test_texts_that_are_no_pair(read: Callable[[str], Any], text: str) -> None:
    """The message shows the text and the form."""
    with pytest.raises(InvalidArgument, match=r"cannot read .* write NAME=(TEXT|VALUE)"):
        read(text)


@pytest.mark.parametrize(
    ("name", "closest"),
    [("dept", "depth"), ("DEPTH", "depth"), ("mean", "activation_mean"), ("zzz", None), (3, None),
     ("activation_meen", "activation_mean"), ("act", None)],
)
def test_the_closest_name(name: Any, closest: str | None) -> None:
    """By its spelling, in any case, or as one of its words; none where nothing is close."""
    assert checks.closest(name, ["activation_mean", "depth", "fold"]) == closest
    said = checks.guess(name, ["activation_mean", "depth", "fold"])
    assert said == (f"; did you mean {closest!r}?" if closest else "")


def test_patterns_that_match_nothing_are_reported() -> None:
    """One warning each, at the line of whoever calls; a name with a bracket matches itself."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = ["body.0", "head", "", "a[0]"]
        checks.warn_unmatched("hide", ["body.*", "hed", "a[0]", "x"], names)
        checks.warn_unmatched("hide", [], iter(()))
        checks.warn("told", Notice)
    assert [str(each.message) for each in caught] == [
        "hide: no name matches 'hed'; did you mean 'head'?",
        "hide: no name matches 'x'. It has 'body.0', 'head', 'a[0]'",
        "told",
    ]
    assert {each.filename for each in caught} == {__file__}
    assert [each.category for each in caught] == [NothingFound, NothingFound, Notice]


def test_many_patterns_that_match_nothing_are_few_warnings() -> None:
    """Ten are compared with all names; the others are listed together."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in (11, 12):
            checks.warn_unmatched("hide", [f"x{each}*" for each in range(number)], ["x"])
    said = [str(each.message).partition(" matches ")[2] for each in caught]
    assert len(said) == 22 and said[9] == "'x9*'. It has 'x'"
    assert said[10::11] == ["1 other pattern: ['x10*']", "2 other patterns: ['x10*', 'x11*']"]


def test_arguments_are_checked_by_name() -> None:
    """However they are given; defaults are not, and an unknown one is told."""

    @takes(count=whole_number(1), name=checks.TEXT)
    def made(count: Any, name: Any = None, *, kwargs: Any = None) -> Any:
        return count, name, kwargs

    assert made(1) == (1, None, None) and made(name="a", count=2, kwargs=3) == (2, "a", 3)
    for wrong in (lambda: made(0), lambda: made(count=0), lambda: made(1, None)):
        with pytest.raises(InvalidArgument, match="must be"):
            wrong()
    with pytest.raises(ArgumentMismatch, match="has no argument 'nam'; did you mean 'name'"):
        made(1, nam="a")  # type: ignore[call-arg]
    with pytest.raises(ArgumentMismatch, match=r"into kwargs=\{'zzz': \.\.\.\}, .* It takes"):
        made(1, zzz="a")  # type: ignore[call-arg]

    class Model:
        @suggests_names
        def __init__(self, depth: int = 0) -> None:
            self.depth = depth

    made_by: Any = Model
    assert made_by(depth=2).depth == 2
    with pytest.raises(ArgumentMismatch) as found:
        made_by(zzz=1)
    name = Model.__qualname__
    assert str(found.value) == f"{name}() has no argument 'zzz'. It takes depth"


@pytest.mark.parametrize("function", [tr.record, tr.render_network, tr.summary])
def test_inputs_one_by_one(function: Any) -> None:
    """What several inputs look like is said before the model runs."""
    expected = (
        rf"{function.__name__}\(\) takes model, args, kwargs, not 4 arguments without names; pass "
        rf"several inputs as a tuple: {function.__name__}\(model, \(x, y\)\)"
    )
    with pytest.raises(ArgumentMismatch, match=expected):
        function(pytest.fail, 1, 2, 3)


# Options ------------------------------------------------------------------------------


@documented
@dataclass(frozen=True)
class Look(Checked):
    """How it looks."""

    line_width: int = option("Width *in* `points`. No more.", whole_number(0), default=1, flag="-w")
    names: tuple[str, ...] = option("Names", checks.TEXTS, factory=tuple)
    rows: dict[str, str] = option(
        "Rows.", Check("a mapping", checks.MAPPING.holds, read=checks.pair, several=True),
        factory=dict,
    )
    frame: bool = option("Draw a frame.", checks.FLAG, default=True, off=("--bare", "no frame"))
    mode: Any = option("Mode.", one_of("a", True, False).or_none(), default=None)
    plain: int = 3


def test_options_are_declared_once() -> None:
    """Their checks run when one is made; their help is in the docstring, in short and whole."""
    found = options_of(Look)
    assert [*found] == ["line_width", "names", "rows", "frame", "mode"]
    assert [one.default for one in found.values()] == [1, (), {}, True, None]
    width = found["line_width"]
    assert (width.spelled, width.brief, width.flag) == ("line-width", "width in points", "-w")
    assert found["names"].brief == "names"
    assert width.negated == ("--no-line-width", "do not width in points")
    assert found["frame"].negated == ("--bare", "no frame")
    assert "Attributes:\n    line_width: Width *in* `points`. No more.\n" in (Look.__doc__ or "")
    for wrong in ({"line_width": -1}, {"names": 3}, {"mode": "b"}):
        with pytest.raises(InvalidArgument, match=f"^{[*wrong][0]} must be"):
            Look(**wrong)  # type: ignore[arg-type]
    assert Look(mode="a", plain=-1) == Look(1, (), {}, True, "a", -1)


def test_options_are_read_from_texts() -> None:
    """A flag needs none; what is wrong is told with yes and no for flags."""
    found = options_of(Look)
    assert found["line_width"].read(" 3 ") == 3 and found["names"].read("a, b") == ("a", "b")
    assert found["mode"].read("a") == "a" and found["mode"].read("off") is False
    assert all(found["frame"].read(text) is True for text in (None, "", " ", "yes"))
    for name, text, said in (
        ("line_width", None, "it needs a value"),
        ("line_width", "-1", "it must be a whole number of at least 0, not -1"),
        ("line_width", "none", "it must be a whole number of at least 0, not None"),
        ("frame", "maybe", "it must be yes or no, not 'maybe'"),
        ("mode", "b", "it must be 'a', yes or no, not 'b'"),
    ):
        with pytest.raises(InvalidArgument) as error:
            found[name].read(text)
        assert str(error.value) == said


def test_options_that_are_given_several_times() -> None:
    """Lists and mappings are joined, in order; of others the last counts."""
    found = options_of(Look)
    assert found["names"].joined([("a",), ("b", "c")]) == ("a", "b", "c")
    assert found["names"].joined([["a"]]) == ["a"]
    assert found["rows"].joined([{"a": "1", "b": "2"}, {"a": "3"}]) == {"a": "3", "b": "2"}
    assert found["line_width"].joined([1, 2, 3]) == 3


def test_paths() -> None:
    """From text and from what has one; the message has the name of the argument."""
    assert checks.path_of(Folder("a")) == checks.path_of(Path("a")) == Path("a")
    with pytest.raises(InvalidArgument, match="^folder must be a path, not 3"):
        checks.path_of(3, "folder")
    assert os.fspath(checks.path_of("a/b")) == str(Path("a") / "b")


def test_numbers_of_numpy_are_numbers() -> None:
    np = pytest.importorskip("numpy")
    check_one("count", np.int64(2), whole_number(2))
    check_one("seconds", np.float32(2), checks.ABOVE_0)
    with pytest.raises(InvalidArgument):
        check_one("count", np.float32(2), whole_number(2))
