"""The digest of one rank of a mesh as that of another: its groups, peers and place in the mesh."""

from __future__ import annotations

from array import array
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from tests.figures import network
from torchrecorder.errors import InvalidArgument, TorchRecorderError
from torchrecorder.events import Communication, Mesh, Rank, RankGroup
from torchrecorder.planning import plan as planning
from torchrecorder.planning import workers
from torchrecorder.planning.layout import Layout
from torchrecorder.planning.translate import known_groups, translated
from torchrecorder.ranks.digest import Digest, digest
from torchrecorder.ranks.sent import CommunicationColumns, Sent

SQUARE = Layout.from_sizes({"dp": 2, "tp": 2})
ROWS = Layout.from_sizes({"dp": 2, "tp": 3})
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
    )  # fmt: skip
    found = digest(network(), Rank(rank, 4, "", groups, (MESH, Mesh(("pp",), (2,), (1,)))))
    return found._replace(sent=columns)


def test_groups_and_roots_are_those_of_the_other_place() -> None:
    """Rank 3 has the groups of its row and column; roots keep their place along these."""
    row, column = group(0, 1, name="2"), group(0, 2, name="3")
    first = of_rank(0, (row, column), ("broadcast", 0, 1), ("scatter", 1, 0))
    found = translated(first, 3, SQUARE, {})
    assert found is not None and found.rank.rank == 3
    assert [each.ranks for each in found.rank.groups] == [(2, 3), (1, 3)]
    assert [*found.sent.peer] == [3, 1]
    assert found.rank.meshes == (MESH._replace(place=(1, 1)), Mesh(("pp",), (2,), (1,)))


def test_messages_go_as_far_as_from_the_first() -> None:
    """And a rank at the end has nobody to send to."""
    whole = group(0, 1, 2, 3, 4, 5)
    first = of_rank(0, (whole,), ("send", 0, 1), ("all_reduce", 0, -1))
    found = translated(first, 4, ROWS, {})
    assert found is not None and [*found.sent.peer] == [5, -1]
    assert translated(first, 5, ROWS, {}) is None


def test_a_group_without_the_other_rank() -> None:
    """Some ranks of a dimension alone work together."""
    assert translated(of_rank(0, (group(0, 1),)), 1, ROWS, {}) is not None
    assert translated(of_rank(0, (group(0, 1),)), 2, ROWS, {}) is None


def test_known_groups_keep_their_names() -> None:
    """Of several with equal members the one that was made at the same time; a group of which none
    is known keeps the name that it had."""
    twice = group(0, 1, name="2"), group(0, 1, name="10")
    others = group(2, 3, name="11"), group(2, 3, name="3")
    known = known_groups([of_rank(2, others), of_rank(3, others)])
    assert known == {((2, 3), "mesh"): [others[1], others[0]]}
    found = translated(of_rank(0, twice), 2, SQUARE, known)
    assert found is not None and [each.name for each in found.rank.groups] == ["3", "11"]
    assert found.sent.names == ("3", "11")
    third = group(0, 1, name="20")
    found = translated(of_rank(0, (*twice, third)), 2, SQUARE, known)
    assert found is not None and found.rank.groups[2] == group(2, 3, name="20")


@pytest.mark.parametrize("mesh", [{"dp": 1.5}, {1: 2}, {"dp": 2, "tp": 0}, [2, 2], None])
def test_sizes_of_a_mesh(mesh: Any) -> None:
    """All of them are whole numbers with names."""
    with pytest.raises(InvalidArgument, match="mesh must be sizes by name"):
        planning.plan(of_rank, mesh)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(None, None), ("all", [0, 1, 2]), ([2, 0, 2], [0, 2]), (range(1, 3), [1, 2])],
)
def test_ranks_that_are_asked_for(ranks: Any, expected: list[int] | None) -> None:
    """Each once, in order."""
    assert planning._wanted(ranks, 3) == expected


class Recorded:
    """Digests of ranks that differ along some dimensions, in place of processes."""

    def __init__(self, layout: Layout, differ: set[int]) -> None:
        self.layout, self.differ, self.ran = layout, differ, list[int]()

    def run(self, ranks: Any) -> dict[int, Digest]:
        """Remember which were run."""
        self.ran += ranks
        return {rank: self._digest(rank) for rank in ranks}

    def _digest(self, rank: int) -> Digest:
        place = self.layout.place(rank)
        kind = str([index for dim, index in enumerate(place) if dim in self.differ])
        return of_rank(rank, ())._replace(exact=kind)


@pytest.mark.parametrize(
    ("differ", "ran"),
    [(set(), {0, 11}), ({0}, {0, 2, 3, 6, 9, 11}), ({1}, {0, 1, 2, 9, 11}), ({0, 1}, {*range(12)})],
)
def test_ranks_are_run_along_what_differs(differ: set[int], ran: set[int]) -> None:
    """The first and the last; the ends of the dimensions; all along those that differ."""
    layout = Layout.from_sizes({"dp": 4, "tp": 3})
    recorded = Recorded(layout, differ)
    sampling = planning._RankSampling(recorded, layout)  # type: ignore[arg-type]
    found, done = sampling.digests()
    assert sorted(found) == [*range(12)] and done == {*recorded.ran} == ran
    assert len(recorded.ran) == len(ran)
    assert all(found[rank].exact == recorded._digest(rank).exact for rank in range(12))


def test_a_process_that_left_nothing(tmp_path: Any) -> None:
    """How it ended is said, and what a script must do."""
    job = workers.PlanJob(of_rank, SQUARE, True, "")
    message = r"rank 1 \(dp=0, tp=1\) exited with code 1\. A script must call plan inside"
    with pytest.raises(TorchRecorderError, match=message):
        workers.Workers(job, tmp_path, 1)._result(1, 1)


def test_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell, all that there are."""
    numbers = count(3)
    elsewhere = SimpleNamespace(cpu_count=lambda: next(numbers))
    monkeypatch.setattr(workers, "os", elsewhere)
    assert workers.number_of_processors() == 3
    elsewhere.sched_getaffinity = lambda process: {1, 5}
    assert workers.number_of_processors() == 2
