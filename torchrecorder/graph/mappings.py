"""Mappings: read-only ones, also as dicts, and values grouped by keys."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, TypeVar

GroupT = TypeVar("GroupT")
MemberT = TypeVar("MemberT")


def grouped(pairs: Iterable[tuple[GroupT, MemberT]]) -> dict[GroupT, list[MemberT]]:
    """The values of each key in their order; keys are in the order in which they come first."""
    found: dict[GroupT, list[MemberT]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def plain(content: Any) -> Any:
    """Read-only views of mappings as dicts, also nested ones, because views cannot be pickled."""
    if isinstance(content, MappingProxyType):
        return {key: plain(inner) for key, inner in content.items()}
    return content


def frozen(content: Any) -> Any:
    """The opposite of `plain`."""
    if isinstance(content, dict):
        return MappingProxyType({key: frozen(inner) for key, inner in content.items()})
    return content
