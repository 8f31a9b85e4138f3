"""What is reached from a start: each once, whatever the ways."""

from __future__ import annotations

import pytest

from torchrecorder.graph.mappings import reached


@pytest.mark.parametrize(
    ("starts", "found"), [([1], [1, 3, 4, 2]), ([4], [4]), ([4, 2, 4], [2, 4]), ([], [])]
)
def test_each_is_reached_once(starts: list[int], found: list[int]) -> None:
    """The last one found comes first."""
    steps = {1: [2, 3], 2: [4], 3: [4], 4: []}
    assert [*reached(starts, steps.__getitem__)] == found
