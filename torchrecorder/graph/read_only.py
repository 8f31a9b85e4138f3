"""Read-only: converts read-only mappings, which cannot be pickled, to dicts and back."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any


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
