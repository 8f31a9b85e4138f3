"""Mappings: read-only ones, also as dicts, values grouped by keys, and walks along others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Any, TypeVar

GroupT = TypeVar("GroupT")
MemberT = TypeVar("MemberT")
PlaceT = TypeVar("PlaceT")


def grouped(pairs: Iterable[tuple[GroupT, MemberT]]) -> dict[GroupT, list[MemberT]]:
    """The values of each key in their order; keys are in the order in which they come first."""
    found: dict[GroupT, list[MemberT]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def reached(
    starts: Iterable[PlaceT], steps: Callable[[PlaceT], Iterable[PlaceT]]
) -> Iterator[PlaceT]:
    """*starts*, and all that *steps* lead to from there; each once, the last one found first."""
    waiting = list(dict.fromkeys(starts))
    seen = set(waiting)
    while waiting:
        yield (place := waiting.pop())
        found = [each for each in dict.fromkeys(steps(place)) if each not in seen]
        seen.update(found)
        waiting += found


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
