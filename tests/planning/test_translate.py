"""The digest of one rank of a mesh as that of another: its groups, peers and place in the mesh."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.figures import network
from torchrecorder.errors import InvalidArgument, TorchRecorderError
from torchrecorder.events import Communication, Mesh, Rank, RankGroup
from torchrecorder.planning import plan as planning, workers
from torchrecorder.planning.translate import MeshLayout, Translator, known_groups
from torchrecorder.ranks.digest import Digest, digest
from torchrecorder.ranks.digest_codec import encode_digest
from torchrecorder.ranks.sent import CommunicationColumns, Sent

SQUARE = MeshLayout.from_sizes({"dp": 2, "tp": 2})
ROWS = MeshLayout.from_sizes({"dp": 2, "tp": 3})
MESH = Mesh(("dp", "tp"), (2, 2), (0, 0))


def group(*ranks: int, name: str = "1", purpose: str = "mesh") -> RankGroup:
    """A group of these ranks."""
    return RankGroup(name, ranks, purpose, "fake")


def of_rank(rank: int, groups: tuple[RankGroup, ...], *sent: tuple[str, int, int]) -> Digest:
    """The digest of a rank that ran these communications: the name of each, the index of its group,
    and its peer."""
    kinds = tuple(
        Sent(Communication(name, "", "", 0, -1, -1, 8, 8, *[None] * 3, False, None, None), "", "")
        for name, _, _ in sent
    )
    times = array("d", [0.0] * len(sent))
    columns = CommunicationColumns(
        kinds, tuple(each.name for each in groups), array("i", [place for _, place, _ in sent]),
        array("i", range(len(sent))), array("i", [peer for _, _, peer in sent]), times, times,
    )
    found = digest(network(), Rank(rank, 4, "", groups, (MESH, Mesh(("pp",), (2,), (1,)))))
    return found._replace(sent=columns)


def test_groups_and_roots_are_those_of_the_other_place() -> None:
    """Rank 3 has the groups of its row and column; roots keep their place along these."""
    row, column = group(0, 1, name="2"), group(0, 2, name="3")
    first = of_rank(0, (row, column), ("broadcast", 0, 1), ("scatter", 1, 0))
    found = Translator(SQUARE, {}).digest(first, 3)
    assert found is not None and found.rank.rank == 3
    assert [each.ranks for each in found.rank.groups] == [(2, 3), (1, 3)]
    assert [*found.sent.peer] == [3, 1]
    assert found.rank.meshes == (MESH._replace(place=(1, 1)), Mesh(("pp",), (2,), (1,)))


def test_a_mesh_with_other_dimensions_stays() -> None:
    """Where one of them is not known, the place along it is not."""
    other = Mesh(("dp", "pp"), (2, 2), (0, 1))
    first = of_rank(0, ())
    first = first._replace(rank=first.rank._replace(meshes=(other,)))
    found = Translator(SQUARE, {}).digest(first, 3)
    assert found is not None and found.rank.meshes == (other,)


def test_messages_go_as_far_as_from_the_first() -> None:
    """And from the last along a dimension to the first, as in a ring."""
    whole = group(0, 1, 2, 3, 4, 5)
    first = of_rank(0, (whole,), ("send", 0, 1), ("all_reduce", 0, -1))
    found = Translator(ROWS, {}).digest(first, 4)
    assert found is not None and [*found.sent.peer] == [5, -1]
    found = Translator(ROWS, {}).digest(first, 5)
    assert found is not None and [*found.sent.peer] == [3, -1]


def test_a_group_without_the_other_rank() -> None:
    """Some ranks of a dimension alone work together."""
    assert Translator(ROWS, {}).digest(of_rank(0, (group(0, 1),)), 1) is not None
    assert Translator(ROWS, {}).digest(of_rank(0, (group(0, 1),)), 2) is None


def test_known_groups_keep_their_names() -> None:
    """Of several with equal members the one that was made at the same time; a group of which none
    is known keeps the name that it had."""
    twice = group(0, 1, name="10"), group(0, 1, name="2")
    others = group(2, 3, name="11"), group(2, 3, name="3")
    known = known_groups([of_rank(2, others), of_rank(3, others)])
    assert known == {((2, 3), "mesh"): [others[1], others[0]]}
    found = Translator(SQUARE, known).digest(of_rank(0, twice), 2)
    assert found is not None and [each.name for each in found.rank.groups] == ["11", "3"]
    assert found.sent.names == ("11", "3")
    many = tuple(group(0, 1, name=str(number)) for number in range(0, 40, 3))
    named = known_groups([of_rank(0, many[::-1])])[(0, 1), "mesh"]
    assert [each.name for each in named] == [each.name for each in many]
    third = group(0, 1, name="20")
    found = Translator(SQUARE, known).digest(of_rank(0, (*twice, third)), 2)
    assert found is not None and found.rank.groups[2] == group(2, 3, name="20")


@pytest.mark.parametrize("mesh", [{"dp": 1.5}, {1: 2}, {"dp": 2, "tp": 0}, [2, 2], None])
def test_sizes_of_a_mesh(mesh: Any) -> None:
    """All of them are whole numbers with names."""
    with pytest.raises(InvalidArgument, match="mesh must be sizes by name"):
        planning.plan(of_rank, mesh)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(None, None), ("all", {0, 1, 2}), ([2, 0, 2], {0, 2}), (range(1, 3), {1, 2})],
)
def test_ranks_that_are_asked_for(ranks: Any, expected: set[int] | None) -> None:
    """Each once."""
    assert planning._wanted(ranks, 3) == expected


@pytest.mark.parametrize("ranks", [[0, 3], [3], [], [-1, 0], "none", 1])
def test_ranks_that_there_are_not(ranks: Any) -> None:
    """One of them is enough."""
    with pytest.raises(InvalidArgument, match="a list of numbers from 0 to 2"):
        planning._wanted(ranks, 3)


class Recorded:
    """Digests of ranks that differ along some dimensions, in place of processes; there, coordinates
    of one *kind* are equal."""

    def __init__(
        self, layout: MeshLayout, differ: set[int], kind: Callable[[int], int] = lambda index: index
    ) -> None:
        self.layout, self.differ, self.kind, self.ran = layout, differ, kind, list[int]()

    def run(self, ranks: Any) -> dict[int, Digest]:
        """Remember which were run."""
        self.ran += ranks
        return {rank: self._digest(rank) for rank in ranks}

    def _digest(self, rank: int) -> Digest:
        place = self.layout.place(rank)
        kinds = [self.kind(index) for dim, index in enumerate(place) if dim in self.differ]
        return of_rank(rank, ())._replace(exact=str(kinds))


@pytest.mark.parametrize("changes", [(500,), (1,), (999,), (3, 4, 700), (), (998, 999), (1, 2)])
def test_few_of_many_ranks_are_run_where_shards_are_uneven(changes: tuple[int, ...]) -> None:
    """Those around each change, which halving the rest finds."""
    layout = MeshLayout.from_sizes({"dp": 1000, "tp": 2})
    recorded = Recorded(layout, {0}, partial(bisect_right, changes))
    sampling = planning._RankSampling(recorded, layout)  # type: ignore[arg-type]
    found, done = sampling.digests()
    assert sorted(found) == [*range(2000)] and done == {*recorded.ran}
    assert len(recorded.ran) == len(done) <= 4 + 11 * len(changes)
    assert all(found[rank].exact == recorded._digest(rank).exact for rank in range(2000))


def test_all_of_few_ranks_are_run_where_stages_take_turns() -> None:
    """Stages of a pipeline may be equal to others without being next to them."""
    layout = MeshLayout.from_sizes({"pp": 32, "tp": 2})
    recorded = Recorded(layout, {0}, lambda index: index % 2)
    sampling = planning._RankSampling(recorded, layout)  # type: ignore[arg-type]
    found, _ = sampling.digests()
    assert {*recorded.ran} == {*range(0, 64, 2), 1, 63}
    assert all(found[rank].exact == recorded._digest(rank).exact for rank in range(64))


@pytest.mark.parametrize(
    ("differ", "ran"),
    [(set(), {0, 11}), ({0}, {0, 2, 3, 6, 9, 11}), ({1}, {0, 1, 2, 9, 11}), ({0, 1}, {*range(12)})],
)
def test_ranks_are_run_along_what_differs(differ: set[int], ran: set[int]) -> None:
    """The first and the last; the ends of the dimensions; all along those that differ."""
    layout = MeshLayout.from_sizes({"dp": 4, "tp": 3})
    recorded = Recorded(layout, differ)
    sampling = planning._RankSampling(recorded, layout)  # type: ignore[arg-type]
    found, done = sampling.digests()
    assert sorted(found) == [*range(12)] and done == {*recorded.ran} == ran
    assert len(recorded.ran) == len(ran)
    assert all(found[rank].exact == recorded._digest(rank).exact for rank in range(12))


@pytest.mark.parametrize(("size", "ran"), [(32, {*range(32)}), (33, {0, 1, 2, 4, 8, 16, 32})])
def test_so_many_ranks_are_all_run_along_one_dimension(size: int, ran: set[int]) -> None:
    """Of one more, only those around the change."""
    layout = MeshLayout.from_sizes({"dp": size})
    recorded = Recorded(layout, {0}, bool)
    sampling = planning._RankSampling(recorded, layout)  # type: ignore[arg-type]
    assert sampling.digests()[1] == {*recorded.ran} == ran


class Special(Recorded):
    """Ranks of which only the last one differs."""

    def _digest(self, rank: int) -> Digest:
        return of_rank(rank, ())._replace(exact=str(rank == self.layout.world - 1))


class Halves(Recorded):
    """Ranks of which the first two share a group, as the last two do."""

    def _digest(self, rank: int) -> Digest:
        ranks = {0: (0, 1), 1: (0, 1), 4: (4, 5), 5: (4, 5)}.get(rank)
        return of_rank(rank, () if ranks is None else (group(*ranks),))


@pytest.mark.parametrize("kind", [Special, Halves])
def test_all_ranks_are_run_where_dimensions_do_not_tell_them_apart(kind: type[Recorded]) -> None:
    """One differs by its place along two dimensions together; a group has no place for another."""
    recorded = kind(ROWS, set())
    sampling = planning._RankSampling(recorded, ROWS)  # type: ignore[arg-type]
    found, done = sampling.digests()
    assert done == {*recorded.ran} == {*range(6)}
    assert {rank: each.exact for rank, each in found.items()} == {
        rank: recorded._digest(rank).exact for rank in range(6)
    }


def test_a_process_that_left_nothing(tmp_path: Any) -> None:
    """How it ended is said, and what a script must do."""
    job = workers.PlanJob(of_rank, SQUARE, True, None)
    message = r"rank 1 \(dp=0, tp=1\) exited with code 1\. A script must call plan inside"
    with pytest.raises(TorchRecorderError, match=message):
        workers.Workers(job, tmp_path, 1)._result(1, 1)
    (tmp_path / "1.digest").write_bytes(encode_digest(of_rank(1, ())))
    assert workers.Workers(job, tmp_path, 1)._result(1, 0).rank.rank == 1


def test_a_process_that_left_an_error(tmp_path: Any) -> None:
    """It is raised again, whatever else there is."""
    workers._write_error(tmp_path / "1.error", ValueError("too large"))
    (tmp_path / "1.digest").write_bytes(encode_digest(of_rank(1, ())))
    job = workers.PlanJob(of_rank, SQUARE, True, None)
    with pytest.raises(ValueError, match="too large") as caught:
        workers.Workers(job, tmp_path, 1)._result(1, 0)
    assert "raised in plan by rank 1 (dp=0, tp=1)" in caught.value.__notes__[-1]


def test_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell, all that there are."""
    numbers = count(3)
    elsewhere = SimpleNamespace(cpu_count=lambda: next(numbers))
    monkeypatch.setattr(workers, "os", elsewhere)
    assert workers.number_of_processors() == 3
    elsewhere.sched_getaffinity = lambda process: {1, 5} if process == 0 else {1}
    assert workers.number_of_processors() == 2
    del elsewhere.sched_getaffinity
    elsewhere.cpu_count = lambda: None
    assert workers.number_of_processors() == 1


@pytest.mark.parametrize(("asked", "name"), [(None, None), (3, "two")])
def test_how_many_ranks_are_recorded_at_once(
    asked: int | None, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as are asked for, else as there are processors; with the name that was given."""
    class Refused(Exception):
        """Instead of a run."""

    def refuse(job: workers.PlanJob, folder: object, number: int) -> None:
        raise Refused(job.name, number)

    monkeypatch.setattr(planning, "Workers", refuse)
    monkeypatch.setattr(planning, "number_of_processors", lambda: 5)
    with pytest.raises(Refused) as refused:
        planning.plan(of_rank, {"dp": 1, "tp": 2}, name=name, num_workers=asked)
    assert refused.value.args == (name, asked or 5)


class Process:
    """A process that ends as soon as it is waited for."""

    exitcode = 0

    def __init__(self, rank: int) -> None:
        self.sentinel, self.ended = rank, ""

    def join(self) -> None:
        """Wait for its end."""
        self.ended += "joined"

    def terminate(self) -> None:
        """End it."""
        self.ended += "terminated, "


class Waited(workers.Workers):
    """Workers whose processes do nothing; a rank may fail."""

    def __init__(self, number: int, failing: int = -1) -> None:
        super().__init__(workers.PlanJob(of_rank, SQUARE, True, None), Path(), number)
        self.failing, self.started = failing, list[Process]()

    def _start(self, rank: int) -> Any:
        self.started.append(Process(rank))
        return self.started[-1]

    def _result(self, rank: int, code: int | None) -> Any:
        if rank == self.failing:
            raise ValueError(rank)
        return rank


def test_a_failing_rank_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than so many run at once, and none is left; without a failure each has a result."""
    running: list[int] = []

    def ended(sentinels: list[int]) -> list[int]:
        running.append(len(sentinels))
        return sentinels[:1]

    monkeypatch.setattr(workers, "wait", ended)
    assert Waited(2).run(range(4)) == {rank: rank for rank in range(4)}
    assert running == [2, 2, 2, 1]
    failing = Waited(3, failing=1)
    with pytest.raises(ValueError):
        failing.run(range(4))
    assert [process.ended for process in failing.started] == [
        "joined", "joined", "terminated, joined", "terminated, joined"
    ]


class TwoWords(Exception):
    """One that cannot be made again from its message."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


HOLDING = ValueError("too large")
HOLDING.held = threading.Lock()  # type: ignore[attr-defined]  # which cannot be pickled


@pytest.mark.parametrize("error", [ValueError("too large"), HOLDING, TwoWords("too", "large")])
def test_errors_of_other_processes(error: Exception, tmp_path: Path) -> None:
    """As they are, where another process can make them again; else by their name."""
    error.__notes__ = ["a note"]  # type: ignore[attr-defined]
    workers._write_error(tmp_path / "1.error", error)
    found = workers._read_error(tmp_path / "1.error", "rank 1")
    kept = isinstance(error, ValueError)
    assert type(found) is (ValueError if kept else RuntimeError)
    assert str(found) == ("too large" if kept else "TwoWords: too large")
    note, place = found.__notes__  # type: ignore[attr-defined]
    assert note == "a note" and "raised in plan by rank 1" in place
    assert str(found.__cause__).splitlines()[-1].endswith("too large")
