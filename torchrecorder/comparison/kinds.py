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
    """A tensor has another shape or dtype."""
    REWIRED = "rewired"
    """It reads another tensor."""
    RETIMED = "retimed"
    """It took longer or shorter."""
    MEASURED = "measured"
    """Another measured number differs: FLOPs, bytes, a gradient norm."""


ALONE = (ChangeKind.ADDED, ChangeKind.REMOVED)
"""Kinds of nodes that only one run has; they need no further text."""


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
    """

    kind: ChangeKind
    before: str | None
    after: str | None
    where: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value:<8}  {self.where}" + (f"  {self.text}" if self.text else "")
