"""Names and patterns: those that are looked up, and those that are tried."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given, strategies as st

from tests.work import lines_run
from torchrecorder.name_patterns import NamePatterns

TEXTS = st.text("ab.*?[]!", max_size=4)


@given(st.lists(TEXTS, max_size=6), TEXTS)
def test_names_fit_as_if_each_pattern_were_tried(patterns: list[str], name: str) -> None:
    """Those that fit are told, each once; what was given is known by its text."""
    found = NamePatterns(patterns)
    fitting = {pattern for pattern in patterns if fnmatchcase(name, pattern)}
    assert {*found.fitting(name)} == fitting and len(found.fitting(name)) == len(fitting)
    assert found.fit(name) == bool(fitting)
    assert (name in found) == (name in patterns)


def test_a_name_is_tried_once() -> None:
    """Of many patterns, those that a name matches are kept: a figure asks for a name repeatedly."""
    found = NamePatterns(f"*.{number}.*" for number in range(100))
    assert found.fitting("layers.99.fc") == ["*.99.*"]
    assert lines_run(lambda: found.fitting("layers.99.fc")) < 10
