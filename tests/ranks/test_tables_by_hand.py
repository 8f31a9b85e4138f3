"""Several ranks by hand as one: tables, numbers of ranks, memory of its own for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import torchrecorder
from tests.figures import network
from tests.graph.test_consistency import changed
from tests.ranks.test_by_hand import ran, sent, sharded
from torchrecorder.events import ScopeKind
from torchrecorder.graph.consistency import problems
from torchrecorder.ranks.sharding_ops import without_sharding_ops
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def seconds(recording: Recording, taken: float | None) -> Recording:
    """*recording*, had it taken so long."""
    return replace(recording, run=replace(recording.run, seconds=taken))


def cells(text: str) -> list[list[str]]:
    """The lines of the tables in *text*, as cells."""
    lines = (line.split("  ") for line in text.split("\n"))
    return [[cell.strip() for cell in line if cell.strip()] for line in lines]


def test_lanes_say_who_was_slowest() -> None:
    """With its time, if it is known; ends of what differs."""
    run = torchrecorder.merge([
        seconds(ran(0, sent("all_to_all", 8)), 1.5), seconds(ran(1, sent("all_to_all", 8)), 2.5)
    ])
    rows = cells(run.summary())
    header = next(row for row in rows if row and row[0] == "Lane")
    lane = rows[rows.index(header) + 1]
    if set(lane[0]) <= set("-─"):
        lane = rows[rows.index(header) + 2]
    assert dict(zip(header, lane)) == {
        "Lane": lane[0], "Ranks": "2", "Params size": "128 B", "Sent": "8 B",
        "Slowest": "2.50 s, rank 1",
    }  # fmt: skip
    untimed = torchrecorder.merge([seconds(ran(0), None), seconds(ran(1), None)]).summary()
    assert "Slowest" not in untimed and "Sends" not in untimed


def test_modules_that_send_most_come_first() -> None:
    """All that one sends is added up; at most as many as asked for."""
    def one(rank: int) -> Recording:
        few = [sent(given=3, scope="s1", seconds=1.0 + rank, blocked_seconds=9.0),
               sent(given=3, scope="s1", seconds=4.0 - rank, blocked_seconds=9.0),
               sent(given=3, scope="s1"), sent(given=8, scope="s4"), sent(given=1)]
        return ran(rank, *few, sent(given=1, scope="s4", backward=True))

    run = torchrecorder.merge([one(0), one(1)])
    assert not run.problems and run.world == 2
    rows = cells(run.summary())
    at = next(number for number, row in enumerate(rows) if row and row[0] == "Module")
    assert rows[at] == ["Module", "Sends", "When", "Times", "Bytes", "Waited", "For"]
    table = [row for row in rows[at + 1 :] if row and not set(row[0]) <= set("-─")]
    paths = {scope.id: scope.path for scope in network().scopes.values()}
    assert table == [
        [paths["s1"], "all_reduce", "forward", "3", "9 B", "1.00 s", table[0][-1]],
        [paths["s4"], "all_reduce", "forward", "1", "8 B"],
        ["(the model)", "all_reduce", "forward", "1", "1 B"],
        [paths["s4"], "all_reduce", "backward", "1", "1 B"],
    ]
    assert table[0][-1] in ("rank 0", "rank 1")
    assert len(cells(run.summary(n=1))) == len(rows) - 3


def test_a_rank_that_knows_of_more_ranks_is_believed() -> None:
    """What is missing is told."""
    run = torchrecorder.merge([ran(0, world=2), ran(1, world=3)])
    assert run.world == 3 and run.ranks == (0, 1)
    assert "no recording of rank 2" in run.problems


def test_ranks_do_not_share_memory() -> None:
    """Storages with the same number in two ranks are two; without number there is none."""
    recording = network()
    for number, value in enumerate([*recording.values][:-1]):
        recording = changed(recording, "values", value, storage=number)
    other = changed(recording, "ops", "o1", name="tanh")
    whole = torchrecorder.merge([ran(0, whole=recording), ran(1, whole=other)]).whole
    assert not [*problems(whole)]
    found = [value.storage for value in whole.values.values()]
    real = [storage for storage in found if storage >= 0]
    assert found.count(-1) == 2 and len({*real}) == len(real) == len(found) - 2
    assert len({op.index for op in whole.ops.values()}) == len(whole.ops) == 2 * len(recording.ops)


def gathered(name: str, inside: bool) -> Any:
    """The ops that are left where a view is read by an op of this name, in the region or not."""
    run = Builder("Net")
    with run.scope("Net"):
        view = run.op("view", run.parameter("weight"))
        with run.scope("fsdp", "fsdp", kind=ScopeKind.NO_GRAD):
            run.op("chunk_cat", run.constant())
            if inside:
                run.op(name, view)
        if not inside:
            run.op(name, view)
    return [op.name for op in without_sharding_ops(run.recording()).ops.values()]


def test_views_that_only_sharding_reads() -> None:
    """In its region, and by an op that gathers."""
    assert gathered("all_gather_copy_in", True) == []
    assert gathered("relu", True) == ["view"]
    assert gathered("relu", False) == ["view", "relu"]
    assert gathered("chunk_cat", False) == ["view", "chunk_cat"]


def test_an_op_that_reads_what_it_makes_is_no_source() -> None:
    """As where a wait gives back the tensor that it waits for."""
    recording = sharded()
    wait = next(op for op in recording.ops.values() if op.name == "wait_tensor")
    again = (wait.inputs[0]._replace(value=wait.outputs[0]), *wait.inputs)
    found = without_sharding_ops(changed(recording, "ops", wait.id, inputs=again))
    assert not [*problems(found)]
    assert found.ops == without_sharding_ops(recording).ops


@pytest.mark.parametrize("n", [1, 2])
def test_top_of_all_collectives(n: int) -> None:
    """The largest first."""
    run = torchrecorder.merge([ran(rank, sent(given=1), sent(given=9)) for rank in range(2)])
    assert [amount for _, amount in run.top("bytes", n)] == [9, 1][:n]
