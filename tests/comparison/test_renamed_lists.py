"""Lists of modules that have another name, in the same place."""

from __future__ import annotations

import pytest

from tests.comparison.test_matched import Parts, _pairs

LAYER: Parts = [("fc", "Linear"), ("conv", "Conv"), ("act", "ReLU")]
BLOCK: Parts = [("proj", "Wide"), ("dense", "Linear"), ("drop", "Dropout")]
OTHER: Parts = [("proj", "Wide"), ("dense", "Linear"), ("out", "Wide")]
ACTS: Parts = [("act", "ReLU")]


def _net(name: str, *layers: str | Parts, end: Parts = ()) -> Parts:
    """A list of this name between two modules, and what comes *end* last."""
    listed = [(f"{name}.{number}", layer) for number, layer in enumerate(layers)]
    return [("first", "Tanh"), *listed, ("last", "Exp"), *end]


def _lists(before: Parts, after: Parts) -> set[tuple[str, str]]:
    """The matched elements of lists."""
    return {pair for pair in _pairs(before, after) if pair[0][-1:].isdigit()}


BOTH = {("layers.0", "blocks.0"), ("layers.1", "blocks.1")}


def test_lists_of_one_length_in_one_place() -> None:
    """They match in order if half of their layers have one class, with what is equal in them."""
    found = _pairs(_net("layers", LAYER, LAYER), _net("blocks", BLOCK, BLOCK))
    assert BOTH | {("layers.1.fc", "blocks.1.dense")} <= found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((LAYER, LAYER), (BLOCK, BLOCK, BLOCK)),
        ((LAYER, LAYER), (OTHER, OTHER)),
        ((LAYER,), (BLOCK,)),
        ((ACTS, ACTS), ([("act", "GELU")], [("act", "GELU")])),
    ],
    ids=["another length", "other layers", "no list", "no weights"],
)
def test_lists_that_have_too_little_in_common(
    before: tuple[Parts, ...], after: tuple[Parts, ...]
) -> None:
    """They are removed and added."""
    assert not _lists(_net("layers", *before), _net("blocks", *after))


def test_lists_in_another_place() -> None:
    """Between other modules, a list is another list."""
    listed = _net("blocks", BLOCK, BLOCK)
    assert not _lists(_net("layers", LAYER, LAYER), [listed[0], listed[3], *listed[1:3]])


def test_layers_that_are_elsewhere() -> None:
    """A list that moved is no other list that stands in its place."""
    layer: Parts = [("fc", "Linear")]
    end: Parts = [("mid", "Sin"), ("end", "Cos")]
    before, blocks = _net("layers", layer, layer, end=end), _net("blocks", "Linear", "Linear")
    found = _pairs(before, [*blocks, *end, *before[1:3]])
    assert all(old == new for old, new in found)


def test_several_lists_in_one_place() -> None:
    """They match in their order; if one run has more, which is which is not known."""
    def net(*names: str, block: Parts) -> Parts:
        return [(f"{name}.{number}", block) for name in names for number in range(2)]

    found = _lists(net("up", "down", block=LAYER), net("one", "two", block=BLOCK))
    assert {("up.0", "one.0"), ("down.1", "two.1")} <= found
    assert not _lists(net("up", "down", block=LAYER), net("one", block=BLOCK))
