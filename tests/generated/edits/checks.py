"""Checks of comparisons: exactly what was edited is listed, and drawn."""

from __future__ import annotations

from collections import Counter

import torchrecorder
from tests.generated.checks import COUNTS, Plain, draws, make, strictly
from tests.generated.edits import variants
from tests.generated.edits.program import Edited
from torchrecorder.comparison.comparison import Comparison
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.overlay import overlay
from torchrecorder.recording import Recording


def check(program: Edited) -> None:
    """Compare a model with itself, and with what an edit makes of it."""
    edit = program.change
    with strictly():
        if any(Plain.of(program.version(each)).fails for each in (edit.before, edit.after)):
            return
        before, number = _recorded(program, edit.before)
        again, _ = _recorded(program, edit.before)
        after, twice = _recorded(program, edit.after)
        assert number == twice
        if not number:  # it is in a module that is never called
            return
        lists_nothing(torchrecorder.compare(before, again))
        comparison = torchrecorder.compare(before, after)
        lists_the_edit(program, comparison, number)
        is_overlaid(comparison)
    COUNTS.add(f"{edit.before} → {edit.after}", len(after.ops), number)


def _recorded(program: Edited, variant: str) -> tuple[Recording, int]:
    """A recording of one version, and how often the edit should be listed."""
    run = make(program.version(variant))
    recording = torchrecorder.record(run.model, run.args)
    runs = variants.RUNS
    return recording, len(set(runs)) if program.change.once else len(runs)


def lists_nothing(comparison: Comparison) -> None:
    """A model that ran twice has not changed."""
    assert not comparison, comparison.text()


def lists_the_edit(program: Edited, comparison: Comparison, number: int) -> None:
    """It is listed as often as it ran, and all else follows from it; returning another tensor is
    listed beside a step that only one run has."""
    alone = program.change.kind in (ChangeKind.ADDED, ChangeKind.REMOVED)
    found = Counter(
        change.kind for change in comparison.changes
        if not change.follows and not (alone and change.text.startswith(("returns ", "is ")))
    )
    expected = Counter({program.change.kind: number}) if program.change.kind else Counter()
    assert found == +expected, f"{expected} expected of\n{comparison.text()}"


def is_overlaid(comparison: Comparison) -> None:
    """Steps of both runs are in the figure once, and those that both have are one."""
    both = overlay(comparison.matching, comparison.changes).recording
    before, after, ops = comparison.before, comparison.after, comparison.matching.ops
    assert len(both.ops) == len(before.ops) + len(after.ops) - len(ops)
    draws(both)
