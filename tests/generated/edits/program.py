"""Edited: a random model with a change at one place, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.generated.program import PROGRAMS, Program, Step
from torchrecorder.comparison.kinds import ChangeKind


@dataclass(frozen=True)
class Edit:
    """A change of one step.

    Attributes:
        before: Its variant in the first model.
        after: Its variant in the second model.
        kind: How a comparison should list it; None if it should not.
        once: It is listed once for each module, not for each call.
    """

    before: str
    after: str
    kind: ChangeKind | None
    once: bool = False


EDITS = (
    Edit("larger", "both", ChangeKind.ADDED),
    Edit("both", "larger", ChangeKind.REMOVED),
    Edit("larger", "smaller", ChangeKind.REPLACED),
    Edit("larger", "unused", ChangeKind.ADDED),
    Edit("unused", "larger", ChangeKind.REMOVED),
    Edit("unused", "unused_before", None),
    Edit("larger", "module", ChangeKind.ADDED),
    Edit("module", "larger", ChangeKind.REMOVED),
    Edit("module", "renamed", ChangeKind.RENAMED, once=True),
    Edit("plain", "around", ChangeKind.ADDED),
    Edit("around", "plain", ChangeKind.REMOVED),
    Edit("narrow", "wide", ChangeKind.RESIZED, once=True),
    Edit("wide", "frozen", ChangeKind.FROZEN, once=True),
    Edit("frozen", "wide", ChangeKind.UNFROZEN, once=True),
    Edit("rolled", "rolled_back", ChangeKind.CHANGED),
)
"""Every edit."""


@dataclass(frozen=True)
class Edited(Program):
    """A model before and after an edit.

    Attributes:
        place: Which step is edited, in the order of the text.
        edit: Which of ``EDITS`` it is.
    """

    place: int = 0
    edit: int = 0

    @property
    def change(self) -> Edit:
        """The edit."""
        return EDITS[self.edit]

    def version(self, variant: str) -> Program:
        """The program in which the edited step has this *variant*."""
        place = self.place % sum(1 for _ in _all(self.steps))
        steps, _ = _with_variant(self.steps, place, variant)
        return Program(steps, self.result, self.train, self.grad, self.seed)


def _all(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        yield step
        yield from _all(step.body)


def _with_variant(
    steps: tuple[Step, ...], place: int, variant: str
) -> tuple[tuple[Step, ...], int]:
    """*steps* with the variant, and how many steps to go are left if it comes later."""
    found: list[Step] = []
    for step in steps:
        if place == 0:
            step = replace(step, variant=variant)
        place -= 1
        if place >= 0:
            body, place = _with_variant(step.body, place, variant)
            step = replace(step, body=body)
        found.append(step)
    return tuple(found), place


EDITED = st.builds(
    lambda program, place, edit: Edited(**vars(program), place=place, edit=edit),
    PROGRAMS, st.integers(0, 20), st.integers(0, len(EDITS) - 1),
)
"""Random models with random edits."""
