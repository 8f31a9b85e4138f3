"""Kinds: a difference between two recordings, and its kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ChangeKind(str, Enum):
    """Kinds of differences."""

    ADDED = "added"
    """It is only in the second recording."""
    REMOVED = "removed"
    """It is only in the first recording."""
    REPLACED = "replaced"
    """It has another class, or calls another function."""
    RENAMED = "renamed"
    """It is the same, with another name or path."""
    CHANGED = "changed"
    """It has other hyperparameters, arguments or flags."""
    RESIZED = "resized"
    """A tensor has another shape."""
    CAST = "cast"
    """A tensor has another dtype."""
    REWIRED = "rewired"
    """It reads another tensor."""
    FROZEN = "frozen"
    """A weight no longer requires a gradient."""
    UNFROZEN = "unfrozen"
    """A weight requires a gradient that did not."""
    RETIMED = "retimed"
    """It took longer or shorter."""
    MEASURED = "measured"
    """Another measured number differs: FLOPs, bytes, a gradient norm."""


ALONE = (ChangeKind.ADDED, ChangeKind.REMOVED)
"""Kinds of nodes that only one run has; they need no further text."""

QUIET = (ChangeKind.RENAMED, ChangeKind.FROZEN, ChangeKind.UNFROZEN)
"""Kinds of differences without an effect on the results; figures have a text for them, no color."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
        kind: The kind of difference.
        before: Id of the scope, op, value or module in the first recording; None if it is
            not there. Empty for the run as a whole.
        after: The same in the second recording.
        where: Its display name.
        text: The difference as text.
        follows: Whether it follows from another difference: the size of a weight from the
            hyperparameters of its module; the shape or dtype of a result, or an argument of a
            reshape, from the inputs of the operation; another input from what was added or
            removed before it.
    """

    kind: ChangeKind
    before: str | None
    after: str | None
    where: str
    text: str = ""
    follows: bool = False

    @property
    def quiet(self) -> bool:
        """Whether figures only have a text for it: the cause is elsewhere, or results are equal."""
        return self.follows or self.kind in QUIET

    def __str__(self) -> str:
        return f"{self.kind.value:<8}  {self.where}" + (f"  {self.text}" if self.text else "")


PlacedChange = tuple[tuple[float, int], Change]
"""A change, with the position at which it is listed: an index in the second run, and the order of
the changes there."""

LAST = float("inf")
"""The index of changes that are listed after all scopes and ops of the run."""


def alone(kind: ChangeKind, node: str, where: str, text: str = "") -> Change:
    """The change of a node that only one recording has."""
    before, after = (None, node) if kind is ChangeKind.ADDED else (node, None)
    return Change(kind, before, after, where, text)
