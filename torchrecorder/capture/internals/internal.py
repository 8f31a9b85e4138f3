"""One internal of PyTorch or CPython: the feature that uses it, and the loss without it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchrecorder.capture.internals.trials import find

OLDEST = "2.6"
"""The oldest version of PyTorch that has everything needed."""


@dataclass(frozen=True)
class Internal:
    """A private or changing part of PyTorch or CPython.

    Attributes:
        name: Its name.
        gives: The feature of the recorder that uses it.
        without: The difference if PyTorch does not have it.
        paths: Dotted paths of the names that must exist.
        attributes: Private attributes of objects that capture reads directly, for speed.
        since: The first supported version that has it.
        until: The first version that does not have it any more; empty if there is none.
        needed: Whether nothing can be recorded without it.
        works: Further checks, besides the names.
    """

    name: str
    gives: str
    without: str
    paths: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    since: str = OLDEST
    until: str = ""
    needed: bool = False
    works: Callable[[], bool] = lambda: True

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths that do not exist in this PyTorch."""
        return tuple(path for path in self.paths if find(path) is None)

    def functions(self) -> tuple[Any, ...]:
        """The functions at its paths, as far as they exist, without decorators."""
        return tuple(map(inspect.unwrap, filter(callable, map(find, self.paths))))

    @property
    def present(self) -> bool:
        """Whether this PyTorch has it."""
        return not self.missing and self.works()


def needed(name: str, gives: str, *paths: str, attributes: tuple[str, ...] = ()) -> Internal:
    """One without which nothing can be recorded."""
    return Internal(name, gives, "nothing can be recorded", paths, attributes, needed=True)
