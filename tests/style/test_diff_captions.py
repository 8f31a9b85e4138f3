"""The text about a difference on a box that stands for several siblings."""

from __future__ import annotations

import pytest

from torchrecorder.style.diff_colors import DiffCaption, captioned
from torchrecorder.style.figure import Text

TITLE = Text("3 × Block", "title")


def written(*siblings: DiffCaption, closed: bool = True, below: str = "3 × Block") -> list[str]:
    """The lines of a label with the differences of these siblings."""
    return [text.text for text in captioned((TITLE, Text(below)), siblings, closed)]


def test_nothing_differs() -> None:
    """The label stays."""
    assert written() == written(DiffCaption()) == ["3 × Block", "3 × Block"]


def test_only_what_is_the_same_for_all_siblings() -> None:
    """In the order of the first; each may have had another name."""
    one = DiffCaption(("a", "b"), former="x.0")
    assert written(one, DiffCaption(("b", "c"), former="x.1"))[2:] == ["b", "was x.0, x.1"]
    assert written(one, DiffCaption(("b", "a")))[2:] == ["a", "b"]
    assert written(DiffCaption(inside=("a", "b")), DiffCaption(inside=("b",)))[2:] == ["b"]


def test_the_contents_of_a_closed_module() -> None:
    """An open one shows them."""
    one = DiffCaption(("own",), ("inside",), pieces={"3 × Block": "2 → 3 × Block"})
    assert written(one) == ["3 × Block", "2 → 3 × Block", "own", "inside"]
    assert written(one, closed=False) == ["3 × Block", "3 × Block", "own"]


@pytest.mark.parametrize(
    ("other", "expected"),
    [("2 → 3 × Block", "2 → 3 × Block"), ("1 → 3 × Block", "3 × Block"), (None, "3 × Block")],
)
def test_pieces_that_are_the_same_for_all_siblings(other: str | None, expected: str) -> None:
    """What only one had before is not said of all."""
    one = DiffCaption(pieces={"3 × Block": "2 → 3 × Block"})
    two = DiffCaption(pieces={} if other is None else {"3 × Block": other})
    for siblings in ((one, two), (two, one)):
        assert written(*siblings)[1] == expected


@pytest.mark.parametrize("line", ["13 × Block", "3 × Blocks", "0.3 × Block"])
def test_a_piece_is_a_whole_word(line: str) -> None:
    """Not a part of another number or name."""
    assert written(DiffCaption(pieces={"3 × Block": "no"}), below=line)[1] == line


def test_two_lines_that_fit() -> None:
    """More are left out, and the end of a long one."""
    fits = "x" * 34
    *_, whole, shorter = written(DiffCaption((fits, f"{fits}x", "more")))
    assert whole == fits and len(shorter) == 34 and "…" in shorter
