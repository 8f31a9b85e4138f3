"""What folds in equal clusters is found once, and is what looking at each of them finds."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.views.test_fold import block
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.fold.equal import Equal
from torchrecorder.views.fold.shared_groups import every_group
from torchrecorder.views.fold.siblings import SiblingRows
from torchrecorder.views.full_view import whole

Groups = list[tuple[str, ...]]


def stages(blocks: Sequence[int], read_again: tuple[int, int] | None = None) -> Recording:
    """Stages of equal blocks, one after the other.

    Args:
        blocks: How many are in each.
        read_again: The stage and block of which the end reads the value, too.
    """
    run = Builder("Net")
    with run.scope("Net"):
        h, kept = run.input(), []
        for stage, number in enumerate(blocks):
            with run.scope(f"stages.{stage}", "Stage"):
                for place in range(number):
                    h = block(run, f"blocks.{place}", h)
                    if (stage, place) == read_again:
                        kept.append(h)
        run.op("add", h, *kept)
    return run.recording()


def both(recording: Recording) -> tuple[list[Groups], list[Groups], int]:
    """The groups found together, those found one by one, and how many clusters were looked at."""
    rows = SiblingRows(whole(recording), False)
    clusters = [None, *rows.view.clusters]
    looked: list[str | None] = []

    def find(around: str | None) -> Groups:
        looked.append(around)
        return rows.groups(around)

    assert isinstance(rows.rule, Equal)
    found = [[*groups] for groups in every_group(rows.rule.connections, rows.rule.keys, find)]
    return found, [rows.groups(around) for around in clusters], len(looked)


def test_equal_stages_are_looked_at_once() -> None:
    """However many there are; the last stage and its last block are read by something else."""
    top, first, last = 2, 3, 2  # the view and the model; a stage, a block and a layer
    for number in (6, 9):
        found, wanted, looked = both(stages([4] * number))
        assert found == wanted
        assert [len(group) for groups in found for group in groups] == [number, *[4] * number]
        assert looked == top + first + last


def test_what_is_read_outside_distinguishes_equal_stages() -> None:
    """The stages have one structure, but the blocks of one of them are not all wired alike."""
    recording = stages([4] * 6, read_again=(2, 1))
    calls = [scope.id for scope in recording.scopes.values() if scope.cls == "Stage"]
    assert len({recording.structures[scope] for scope in calls}) == 1
    found, wanted, looked = both(recording)
    assert found == wanted
    inner = [[len(group) for group in groups] for groups in found if groups][1:]
    assert inner.count([4]) == 5 and len(inner) == 6 and inner[2] != [4]
    assert looked > 7


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.none() | st.tuples(st.integers(0, 5), st.integers(0, 4)),
)
def test_any_stages(blocks: list[int], read_again: tuple[int, int] | None) -> None:
    """Of whatever length, and whichever block is read again."""
    found, wanted, _ = both(stages(blocks, read_again))
    assert found == wanted
