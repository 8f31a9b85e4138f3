"""Grouped: values by their keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

GroupT = TypeVar("GroupT")
MemberT = TypeVar("MemberT")


def grouped(pairs: Iterable[tuple[GroupT, MemberT]]) -> dict[GroupT, list[MemberT]]:
    """The values of each key in their order; keys are in the order in which they come first."""
    found: dict[GroupT, list[MemberT]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
