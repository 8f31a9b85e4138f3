"""Recorded: the place of a figure in a document, until a builder writes it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from docutils import nodes

from torchrecorder.errors import TorchRecorderError
from torchrecorder.integrations.sphinx.cache import Cache


class Recorded(nodes.General, nodes.Inline, nodes.Element):  # type: ignore[misc]
    """A recording and how to show it.

    Attributes of the node: ``recording``, its name in the cache; ``drawing``, the options of
    the figure; ``page``, whether it is shown as a page; ``explore``, whether it links to one;
    ``alt``; ``width`` and ``height`` as docutils has them; ``links``, where the names in the
    figure are explained.
    """

    @property
    def drawing(self) -> Mapping[str, Any]:
        """The options of the figure."""
        options: Mapping[str, Any] = self["drawing"]
        return options


def said(error: BaseException) -> str:
    """What a warning says of *error*."""
    kind = "" if isinstance(error, TorchRecorderError) else f"{type(error).__name__}: "
    return f"{kind}{error}"


def cache_of(doctrees: str | PathLike[str]) -> Cache:
    """The cache of a project, beside its *doctrees*, which all its builders share."""
    return Cache(Path(doctrees) / "torchrecorder")
