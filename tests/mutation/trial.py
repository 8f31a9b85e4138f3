"""What a trial needs to know."""

from __future__ import annotations

from typing import NamedTuple


class Trial(NamedTuple):
    """A mutated file, and the tests that should notice, the fastest first."""

    path: str
    text: str
    tests: list[tuple[str, float]]
    """With the seconds each takes."""
    at_import: bool
    """Whether what is changed runs when modules are imported."""
