"""Constants by hand, which are state that a run writes, or only data that it reads."""

from __future__ import annotations

import pytest

from tests.graph.test_consistency import changed
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.testing import Builder


def averages(*storages: int, written: int) -> RecordedRun:
    """A line of code that reads constants of several shapes, each in one of these storages, and an
    op that writes another tensor."""
    run = Builder("Net")
    with run.scope("Net"):
        constants = [run.constant((size,)) for size in range(1, 1 + len(storages))]
        for size, constant in enumerate(constants, 1):
            run.op("exp", constant, shape=(size,))
        state = run.constant()
        run.op("add_", state, writes=state)
    recording = run.recording()
    source = recording.ops["o0"].source
    for op in [*recording.ops][:-1]:
        recording = changed(recording, "ops", op, source=source)
    (new,) = [value for op in recording.ops.values() for value in op.writes]
    for value, storage in zip((*constants, new), (*storages, written)):
        recording = changed(recording, "values", value, storage=storage)
    return recording


@pytest.mark.parametrize(
    ("storages", "written", "number"),
    [
        ((3, 3, 3), 3, 3),  # parts of one tensor that the run writes
        ((3, 4, 5), 6, 0),  # batches of data
        ((-1, -1, -1), -1, 0),  # of unknown memory
    ],
)
def test_only_state_that_the_run_writes_is_like_a_weight(
    storages: tuple[int, ...], written: int, number: int
) -> None:
    """Constants that it only reads are no loop over weights, nor are those without memory."""
    assert len(averages(*storages, written=written).weight_loops) == number
