"""In which scopes two compared runs differ, and the lines of a saved file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.graph.test_facts import nested
from torchrecorder.graph.differences import changed_inside
from torchrecorder.graph.saved_files import dumps


@pytest.mark.parametrize(("own", "quiet", "found"), [
    ({"o2": "added"}, (), {"s0", "s1", "s2"}),
    ({"o0": "added"}, (), {"s0"}),
    ({"o2": "added"}, ("o2",), set()),
    ({"s2": "added", "o2": "added", "o3": "added"}, (), {"s0", "s1"}),
    ({"s2": "different", "o2": "added"}, (), {"s0", "s1", "s2"}),
    ({"s0": "added"}, (), set()),
    ({}, (), set()),
])
def test_scopes_in_which_something_differs(
    own: dict[str, str], quiet: tuple[str, ...], found: set[str]
) -> None:
    """Not the scope that is added as a whole; nor what only quietly differs."""
    recording = replace(nested(), own_differences=own, quiet_differences=frozenset(quiet))
    assert changed_inside(recording) == found


def test_a_saved_file_has_a_line_for_each_column() -> None:
    """So that a tool for texts shows what differs."""
    text = dumps(nested())
    data = json.loads(text)
    columns = sum(len(part) if isinstance(part, dict) else 0 for part in data.values())
    assert len(text.splitlines()) == columns + len(data)
