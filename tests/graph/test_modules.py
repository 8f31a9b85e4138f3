"""Modules of a recording: the paths that they are known by."""

from __future__ import annotations

from tests.figures import network


def test_paths_around_a_module() -> None:
    """Up to the root, if it is a part of the recorded model."""
    row = next(iter(network().modules.values()))
    inner = row.replace(names=("a.b.c",))
    root = row.replace(names=("",))
    assert [*inner.around()] == ["a.b.c", "a.b", "a", ""] and [*root.around()] == [""]
    assert [*inner.replace(apart=True).around()] == ["a.b.c", "a.b", "a"]
