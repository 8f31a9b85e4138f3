"""Change: one difference between two recordings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ChangeKind(str, Enum):
    """Kinds of differences."""

    ADDED = "added"
    """Only in the second."""
    REMOVED = "removed"
    """Only in the first."""
    REPLACED = "replaced"
    """Of another class, or another function."""
    RENAMED = "renamed"
    """The same, under another name or in another place."""
    CHANGED = "changed"
    """Other hyperparameters, arguments or flags."""
    RESIZED = "resized"
    """A tensor of another shape or dtype."""
    REWIRED = "rewired"
    """It reads something else."""
    RETIMED = "retimed"
    """It took longer or shorter."""
    MEASURED = "measured"
    """Another number: FLOPs, bytes, a gradient's norm."""


ALONE = (ChangeKind.ADDED, ChangeKind.REMOVED)
"""Kinds of what only one run has, of which nothing more is to be told."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
        kind: The kind of difference.
        before: Id of the scope, op, value or module in the first recording; None if it is
            not there. Empty for the run as a whole.
        after: The same in the second recording.
        where: Its display name.
        text: The difference, in words.
    """

    kind: ChangeKind
    before: str | None
    after: str | None
    where: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value:<8}  {self.where}" + (f"  {self.text}" if self.text else "")
