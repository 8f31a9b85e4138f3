"""What folds in equal clusters is found once, and is what looking at each of them finds."""

from __future__ import annotations

from hypothesis import given, settings

from tests.random_recordings import recordings
from tests.views.test_fold import block
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.fold.equal import Equal
from torchrecorder.views.fold.shared_groups import every_group
from torchrecorder.views.fold.siblings import Rows
from torchrecorder.views.full_view import whole

Groups = list[tuple[str, ...]]


def stages(number: int, read_again: int | None = None) -> Recording:
    """Equal stages of four equal blocks, one after the other.

    Args:
        number: How many.
        read_again: The stage of which the end reads a value from the middle, too.
    """
    run = Builder("Net")
    with run.scope("Net"):
        h, kept = run.input(), []
        for stage in range(number):
            with run.scope(f"stages.{stage}", "Stage"):
                for place in range(4):
                    h = block(run, f"blocks.{place}", h)
                    if (stage, place) == (read_again, 1):
                        kept.append(h)
        run.op("add", h, *kept)
    return run.recording()


def both(recording: Recording) -> tuple[list[Groups], list[Groups], int]:
    """The groups found together, those found one by one, and how many clusters were looked at."""
    rows = Rows(whole(recording), False)
    clusters = [None, *rows.view.clusters]
    looked: list[str | None] = []

    def find(around: str | None) -> Groups:
        looked.append(around)
        return rows.groups(around)

    assert isinstance(rows.rule, Equal)
    found = [[*groups] for groups in every_group(rows.rule.wiring, rows.rule.keys, find)]
    return found, [rows.groups(around) for around in clusters], len(looked)


def test_equal_stages_are_looked_at_once() -> None:
    """However many there are; the last stage and its last block are read by something else."""
    top, first, last = 2, 3, 2  # the view and the model; a stage, a block and a layer
    for number in (6, 9):
        found, wanted, looked = both(stages(number))
        assert found == wanted
        assert [len(group) for groups in found for group in groups] == [number, *[4] * number]
        assert looked == top + first + last


def test_what_is_read_outside_tells_equal_stages_apart() -> None:
    """The stages have one structure, but the blocks of one of them are not all wired alike."""
    recording = stages(6, read_again=2)
    calls = [scope.id for scope in recording.scopes.values() if scope.cls == "Stage"]
    assert len({recording.structures[scope] for scope in calls}) == 1
    found, wanted, looked = both(recording)
    assert found == wanted
    inner = [[len(group) for group in groups] for groups in found if groups][1:]
    assert inner.count([4]) == 5 and len(inner) == 6 and inner[2] != [4]
    assert looked > 7


@settings(max_examples=60, deadline=None)
@given(recordings())
def test_any_run_has_the_groups_of_each_cluster(recording: Recording) -> None:
    """Whatever is in it."""
    found, wanted, _ = both(recording)
    assert found == wanted
