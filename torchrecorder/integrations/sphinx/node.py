"""Recorded: the node of a figure in a document, until a builder writes it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from docutils import nodes

from torchrecorder.errors import Notice, TorchRecorderError
from torchrecorder.integrations.import_target import ModelFailed
from torchrecorder.integrations.sphinx.cache import Cache


class Recorded(nodes.General, nodes.Inline, nodes.Element):  # type: ignore[misc]
    """A recording and how to show it.

    Attributes of the node: ``recording``, its name in the cache; ``drawing``, the options of
    the figure; ``page``, whether it is shown as a page; ``explore``, whether it links to one;
    ``alt``; ``width`` and ``height`` as in docutils; ``links``, the addresses of the documentation
    of the names in the figure.
    """

    @property
    def drawing(self) -> Mapping[str, Any]:
        """The options of the figure."""
        options: Mapping[str, Any] = self["drawing"]
        return options


def message_of(error: BaseException) -> str:
    """The text of a warning about *error*, with flags of the command line as options."""
    if isinstance(error, ModelFailed):
        return str(error)
    if isinstance(error, TorchRecorderError):
        return re.sub(r"(?<!\S)--([a-z][a-z-]*)", r":\1:", str(error))
    return f"{type(error).__name__}: {error}"


def size_style(given: Any) -> str:
    """The CSS of the width and height in a mapping or node; lengths without a unit are pixels."""
    sizes = [(side, given.get(side)) for side in ("width", "height")]
    return "; ".join(f"{side}: {size}{'px' * size.isdigit()}" for side, size in sizes if size)


@contextmanager
def notices_to(report: Callable[[str], None]) -> Iterator[None]:
    """Pass warnings of torchrecorder to *report*, each text once; others are shown as usual."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        yield
    for text in dict.fromkeys(str(item.message) for item in caught if _is_ours(item)):
        report(text)
    for entry in caught:
        if not _is_ours(entry):
            warnings.showwarning(entry.message, entry.category, entry.filename, entry.lineno)


def _is_ours(caught: warnings.WarningMessage) -> bool:
    return issubclass(caught.category, Notice)


def cache_of(doctrees: str | PathLike[str]) -> Cache:
    """The cache of a project, beside its *doctrees*, which all its builders share."""
    return Cache(Path(doctrees) / "torchrecorder")
