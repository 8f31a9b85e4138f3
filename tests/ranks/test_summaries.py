"""The tables of a joined run, in text."""

from __future__ import annotations

from dataclasses import replace

import pytest

import torchrecorder
from tests.figures import network
from tests.graph.test_consistency import changed
from tests.ranks.test_by_hand import ran, sent
from torchrecorder.events import ScopeKind
from torchrecorder.ranks.digest import digest, rank_of
from torchrecorder.ranks.ranks import Ranks
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def seconds(recording: Recording, taken: float | None) -> Recording:
    """*recording*, had it taken so long."""
    return replace(recording, run=replace(recording.run, seconds=taken))


def cells(text: str) -> list[list[str]]:
    """The lines of the tables in *text*, as cells."""
    lines = (line.split("  ") for line in text.split("\n"))
    return [[cell.strip() for cell in line if cell.strip()] for line in lines]


def test_lanes_show_who_was_slowest() -> None:
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
        "Lane": lane[0], "Ranks": "2", "Params size": "128 B", "Communicated": "8 B",
        "Slowest": "2.50 s, rank 1",
    }
    shown = run.summary().splitlines()
    (title,) = (line for line in shown if line.startswith("Lane"))
    (row,) = (line for line in shown if line.startswith("ranks 0–1 "))
    assert row[:title.index("Ranks") + len("Ranks")].endswith("  2")  # a number, to the right
    untimed = torchrecorder.merge([seconds(ran(0), None), seconds(ran(1), None)]).summary()
    assert "Slowest" not in untimed and "Module" not in untimed


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
    assert rows[at] == ["Module", "Communication", "When", "Times", "Bytes", "Waited", "For"]
    table = [row for row in rows[at + 1 :] if row and not set(row[0]) <= set("-─")]
    paths = {scope.id: scope.path for scope in network().scopes.values()}
    assert table == [
        [paths["s1"], "all_reduce", "forward", "3", "9 B", "1.00 s", table[0][-1]],
        [paths["s4"], "all_reduce", "forward", "1", "8 B"],
        ["(the model)", "all_reduce", "1", "1 B"],  # outside of all modules
        [paths["s4"], "all_reduce", "backward", "1", "1 B"],
    ]
    assert table[0][-1] in ("rank 0", "rank 1")
    assert len(cells(run.summary(n=1))) == len(rows) - 3


def test_the_part_of_the_run_that_sends() -> None:
    """Only what a module sends when it is called is sent in forward."""
    run = Builder("step")
    parts = {"s1": ("forward", ScopeKind.MODULE), "s3": ("optimizer", ScopeKind.OPTIMIZER),
             "s5": ("clipping", ScopeKind.CLIPPING), "s7": ("", ScopeKind.FUNCTION)}
    for name, (_, kind) in parts.items():
        with run.scope(name, name, kind=kind), run.scope("region", kind=ScopeKind.NO_GRAD):
            run.op("relu", run.constant())
    recording = run.recording()
    inside = {scope.parent: scope.id for scope in recording.scopes.values()}
    told = [sent(scope=inside[scope.id]) for scope in recording.scopes.values()
            if scope.parent is None]
    told += [sent(), sent(scope=told[0].scope, backward=True)]
    joined = torchrecorder.merge([ran(rank, *told, whole=recording) for rank in range(2)])
    found = [collective.when for collective in joined.collectives]
    assert found == ["forward", "optimizer", "clipping", "", "", "backward"]
    text = joined.summary()
    assert all(text.count(word) == 1 for word in ("forward", "optimizer", "clipping", "backward"))


def test_the_largest_number_of_ranks_counts() -> None:
    """What is missing is told."""
    run = torchrecorder.merge([ran(0, world=2), ran(1, world=3)])
    assert run.world == 3 and run.ranks == (0, 1)
    assert "no recording of rank 2" in run.problems


@pytest.mark.parametrize("n", [1, 2])
def test_top_of_all_collectives(n: int) -> None:
    """The largest first."""
    run = torchrecorder.merge([ran(rank, sent(given=1), sent(given=9)) for rank in range(2)])
    assert [amount for _, amount in run.top("bytes", n)] == [9, 1][:n]


def test_lanes_show_between_what_their_ranks_are() -> None:
    """Of the same operations on weights of other sizes."""
    other = changed(network(), "values", "v1", shape=(2, 8), bytes=32)
    run = torchrecorder.merge([ran(0, sent(given=4)), ran(1, sent(given=4), whole=other)])
    assert len(run.lanes) == 1 and run.lanes[0].parameter_bytes == (96, 128)
    assert "96 B – 128 B" in run.summary()


def test_numbers_stand_to_the_right() -> None:
    """Below each other, in tables of modules and of lanes."""
    run = torchrecorder.merge([
        ran(rank, sent(given=7, seconds=1.0 + 99 * rank, blocked_seconds=99.0),
            *[sent(given=40, scope="s1")] * 11) for rank in range(2)
    ])
    lines = run.summary().split("\n")
    at = next(number for number, line in enumerate(lines) if line.lstrip().startswith("Module"))
    rows = [line for line in lines[at:] if "all_reduce" in line]
    assert len(rows) == 2
    for cells in (("11", " 1"), ("440 B", "  7 B")):
        assert rows[0].index(cells[0]) == rows[1].index(cells[1], len("(the model)  all_reduce"))


def test_the_title_names_the_ranks() -> None:
    """And those that were recorded, if others are assumed to be equal."""
    both = [ran(rank) for rank in range(2)]
    digests = [digest(recording, rank_of(recording.run, "")) for recording in both]
    title = f"{both[0].name}: ranks 0–1 of 2"

    def told(assumed: tuple[int, ...]) -> str:
        return Ranks(digests, {0: both[0]}, assumed=assumed).summary().splitlines()[0]

    assert told(()) == title
    assert told((1,)) == f"{title}; rank 0 recorded, the others assumed to be equal"
