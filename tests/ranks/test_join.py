"""Putting together what processes sent: who took part, who was late, what does not fit."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import torchrecorder
from tests.capture.processes import process_group
from tests.ranks.made import X, recorded, reduced_twice, timed, unfinished
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS
from torchrecorder.errors import InvalidArgument, InvalidRecording
from torchrecorder.graph.failure import Failure


def test_each_collective_is_one_of_all_its_members():
    """In order, with the bytes of it."""
    run = torchrecorder.merge(recorded(reduced_twice))
    assert run.problems == ()
    assert [(each.name, each.order, each.bytes) for each in run.collectives] == [
        ("all_reduce", 0, 48), ("all_reduce", 1, 16)
    ]
    for each in run.collectives:
        assert [part.rank for part in each.parts] == [0, 1, 2, 3]
        assert each.last is each.waited is None


def test_a_collective_that_one_process_leaves_out():
    """Said with the rank, what the others ran, and where; what comes after is not compared."""
    def run(rank):
        dist.all_reduce(X.clone())
        if rank != 2:
            dist.broadcast(X.clone(), 0)
        dist.all_reduce(X[:1].clone())

    found = torchrecorder.merge(recorded(run))
    (problem,) = found.problems
    assert "no. 2 of group default_pg (ranks 0–3)" in problem
    assert "ranks 0–1, 3 ran broadcast of 48 B" in problem
    if COLLECTIVE_CALLS.present:
        assert "48 B at " in problem and "test_join.py:" in problem
    assert "rank 2 ran all_reduce of 16 B" in problem
    assert "later collectives, not compared: 1" in problem
    assert len(found.collectives) == 1
    assert problem in found.summary()


def test_a_collective_that_is_missing_at_the_end():
    """The one that would hang the job is named with those who wait in it."""
    found = torchrecorder.merge(recorded(lambda rank: rank == 3 or reduced_twice(rank)))
    (problem,) = found.problems
    assert problem.startswith("no. 1 of group default_pg (ranks 0–3): ranks 0–2 ran all_reduce")
    assert "rank 3 ran no collective" in problem


def test_amounts_that_differ():
    """Of what has to be equal; not of what may be uneven."""
    def reduce(rank):
        dist.all_reduce(X[:rank + 1].clone())

    def exchange(rank):
        parts = [X[: rank + 1].clone() for _ in range(2)]
        dist.all_to_all([each.clone() for each in parts], parts)

    (problem,) = torchrecorder.merge(recorded(reduce, world=2)).problems
    assert "rank 0 ran all_reduce of 16 B" in problem and "rank 1 ran all_reduce of 32 B" in problem
    assert torchrecorder.merge(recorded(exchange, world=2)).problems == ()


def _ring(rank):
    dist.send(X.clone(), (rank + 1) % 4, tag=1)
    dist.recv(X.clone(), (rank - 1) % 4, tag=1)


def test_sends_find_their_receives():
    """By sender, receiver and tag, whatever the order."""
    run = torchrecorder.merge(recorded(_ring))
    assert run.problems == ()
    pairs = [tuple(part.rank for part in each.parts) for each in run.collectives]
    assert sorted(pairs) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert {each.name for each in run.collectives} == {"send"}


def test_a_receive_from_any_rank():
    """It takes what nobody else takes."""
    def run(rank):
        if rank == 0:
            dist.recv(X.clone(), 2)
            dist.recv(X.clone(), 1)
        elif rank < 3:
            dist.send(X.clone(), 0)

    first, *others = recorded(run)
    named, anybody = first.communications
    first = replace(first, communications=(named, anybody._replace(peer=-1)))
    found = torchrecorder.merge([first, *others])
    assert found.problems == ()
    pairs = [tuple(part.rank for part in each.parts) for each in found.collectives]
    assert sorted(pairs) == [(1, 0), (2, 0)]


def test_messages_that_do_not_fit():
    """One that nobody takes, one that nobody sends, and one of another size."""
    def run(rank):
        if rank == 0:
            dist.send(X.clone(), 1, tag=1)
            dist.send(X.clone(), 1, tag=5)
        else:
            dist.recv(X[:1].clone(), 0, tag=1)
            dist.recv(X.clone(), 0, tag=6)

    problems = torchrecorder.merge(recorded(run, world=2)).problems
    assert len(problems) == 3
    assert "rank 0 sent 48 B, but rank 1 received 16 B" in problems[0]
    assert "tag 5 from rank 0 to rank 1 was sent but not received" in problems[1]
    assert "tag 6 from rank 0 to rank 1 was to be received but not sent" in problems[2]


def test_who_came_last_was_done_first():
    """The others waited for it: so much longer were they at it, without comparing clocks."""
    recordings = recorded(reduced_twice)
    busy = {0: (0.5, 0.1), 1: (0.6, 0.2), 2: (0.2, 0.4), 3: (0.7, 0.3)}
    run = torchrecorder.merge([timed(recordings[rank], *busy[rank]) for rank in busy])
    first, second = run.collectives
    assert (first.last, second.last) == (2, 0)
    assert [part.waited for part in first.parts] == pytest.approx([0.3, 0.4, 0.0, 0.5])
    sent = [part.sent.communication for part in first.parts]
    assert [(each.seconds, each.blocked_seconds) for each in sent] == [
        (seconds, None) for seconds, _ in busy.values()
    ]
    assert first.waited == pytest.approx(0.5)
    assert [each for each, _ in run.top("waited")] == [first, second]
    assert run.top("waited", 1)[0][1] == pytest.approx(0.5)
    assert "rank 2" in run.summary()


def test_waiting_time_is_at_most_idle_time():
    """What goes on beside other work is waited for only where the program stops for it."""
    recordings = recorded(reduced_twice, world=2)
    late = timed(recordings[0], 0.1, 0.1)
    run = torchrecorder.merge([late, timed(recordings[1], 0.9, 0.9, blocked=0.05)])
    assert [part.waited for part in run.collectives[0].parts] == pytest.approx([0.0, 0.05])


def test_a_process_that_is_not_there():
    """It is named, and the rest is put together."""
    run = torchrecorder.merge(recorded(reduced_twice)[1:3])
    assert run.problems == ("no recording of ranks 0, 3",)
    assert [part.rank for part in run.collectives[0].parts] == [1, 2]


def test_a_process_that_failed():
    """Its error is said, and what it had sent until then is put together."""
    def run(rank):
        dist.all_reduce(X.clone())
        if rank == 1:
            raise ValueError("no data")
        dist.all_reduce(X.clone())

    recordings = []
    for rank in range(2):
        try:
            recordings += recorded(lambda _, rank=rank: run(rank), world=1)
        except ValueError as error:
            recordings.append(torchrecorder.recording_of(error))
    two = [_as_rank(each, rank) for rank, each in enumerate(recordings)]
    found = torchrecorder.merge(two)
    line = two[1].run.failure.source
    assert f"rank 1 failed with ValueError at {line.place}: no data" in found.problems
    assert any("rank 1 ran no collective" in each for each in found.problems)
    assert len(found.lanes) == 2


def test_processes_that_wait():
    """One line for those in the same collective, with who called another one, and who none."""
    def run(rank):
        dist.all_reduce(X.clone())
        if rank == 1:
            dist.all_reduce(X.clone())
        elif rank < 4:
            dist.broadcast(X.clone(), 0)

    found = [*recorded(run, world=6)][:5]
    waiting = [unfinished(each, 1) for each in found[:3]]
    busy = unfinished(found[4], None, "no progress for 5 s in data at data.py:3")
    problems = torchrecorder.merge([*waiting, found[3], busy]).problems
    at = r" at \S+:\d+" if COLLECTIVE_CALLS.present else r"(?: at \S+:\d+)?"
    group = r"no. 2 of group default_pg \(ranks 0–5\)"
    for problem, expected in zip(problems, [
        "no recording of rank 5",
        rf"ranks 0, 2 wait in {group}, broadcast of 48 B{at} \(no progress for 5 s\); "
        "rank 4 did not call it; rank 1 called all_reduce",
        rf"rank 1 waits in {group}, all_reduce of 48 B{at} \(no progress for 5 s\); "
        "rank 4 did not call it; ranks 0, 2–3 called broadcast",
        "rank 3 ran to its end",
        "rank 4 did not end: no progress for 5 s in data at data.py:3",
        f"{group}: ranks 0, 2–3 ran broadcast .*; rank 4 ran no collective",
    ], strict=True):
        assert re.fullmatch(expected, problem), problem


def test_a_wait_is_one_problem():
    """Not also a mismatch. Ranks whose errors only differ in numbers share it."""
    first, *others, last = recorded(lambda rank: rank == 3 or reduced_twice(rank))
    (waits, ran) = torchrecorder.merge(
        [*(unfinished(each, 0) for each in (first, *others)), last]
    ).problems
    assert waits.startswith("ranks 0–2 wait in no. 1 of") and "; rank 3 did not call it" in waits
    assert ran == "rank 3 ran to its end"
    failed = [
        replace(each, run=replace(each.run, failure=Failure(
            "RuntimeError", f"reset by 127.0.0.1:{port}", None, None, False, None, 0
        )))
        for port, each in enumerate((first, *others), start=80)
    ]
    fails, _ = torchrecorder.merge([*failed, last]).problems
    assert fails.startswith("ranks 0–2 failed in no. 1 of")
    assert fails.endswith("; rank 3 did not call it: RuntimeError: reset by 127.0.0.1:80")


@pytest.mark.parametrize("waits", ["send", "recv"])
def test_a_message_without_its_other_end(waits):
    """The line of the rank that waits says it, and no other."""
    def run(rank):
        if rank == 0:
            dist.send(X.clone(), 1)
            (dist.send if waits == "send" else dist.recv)(X.clone(), 1)
        else:
            dist.recv(X.clone(), 0)

    first, second = recorded(run, world=2)
    problems = torchrecorder.merge([unfinished(first, 1), second]).problems
    verb = "receive" if waits == "send" else "send"
    assert [each.partition("; ")[2] for each in problems] == [f"rank 1 did not {verb} it", ""]
    assert problems[0].startswith(f"rank 0 waits in {waits} of 48 B ")
    assert problems[1] == "rank 1 ran to its end"
    assert len(torchrecorder.merge([unfinished(first, 0), second]).problems) == 3


def test_lanes_say_how_they_ended():
    """In figures."""
    first, second = recorded(reduced_twice, world=2)
    run = torchrecorder.merge([unfinished(first, 1), second])
    assert [lane.ended for lane in run.lanes] == ["waits in all_reduce", ""]
    figure = torchrecorder.make_dot(run.recording).pipe("svg").decode()
    assert "waits in all_reduce" in figure
    assert "still running" in figure or not COLLECTIVE_CALLS.present
    run = torchrecorder.merge([unfinished(first, None), second])
    assert run.lanes[0].ended == "did not end"
    failed = replace(first, run=replace(first.run, failure=Failure(
        "RuntimeError", "timeout", None, None, False, None, 0
    )))
    run = torchrecorder.merge([failed, second])
    assert run.lanes[0].ended == "failed in all_reduce with RuntimeError"
    assert re.match(r"rank 0 failed in no. 1 of .*: RuntimeError: timeout", run.problems[0])


class _Fails(torch.nn.Module):
    """Raises in ranks 1 and 2, and in the backward pass of rank 3."""

    def forward(self, x, rank):
        x = x * 2 + 1
        if rank == 1:
            x = [x][rank]
        if rank == 2:
            x = x @ torch.ones(5, 5)
        if rank == 3:
            x.register_hook(self.refuse)
        return x

    def refuse(self, gradient):
        raise ValueError("the hook says no")


def test_each_lane_has_its_error(tmp_path):
    """At the operation and module where it was raised, also in a file of the joined run."""
    def run(rank):
        model(torch.ones(2, 3, requires_grad=True), rank).sum().backward()

    model, recordings = _Fails(), []
    for rank in range(4):
        with process_group(rank, 4):
            with contextlib.suppress(Exception), torchrecorder.Recorder(name="job") as recorder:
                run(rank)
        recordings.append(recorder.recording)
    joined = torchrecorder.merge(recordings).recording
    first = _Fails.forward.__code__.co_firstlineno
    begins = recordings[2].run.failure.message[:12]  # PyTorch's words
    errors = [
        f"IndexError at test_join.py:{first + 3}: list index out of range",
        f"RuntimeError at test_join.py:{first + 5}: {begins}",
        f"in backward: ValueError at test_join.py:{first + 11}: the hook says no",
    ]
    names = [item.error for item in joined.run.failures]
    assert names == ["IndexError", "RuntimeError", "ValueError"]
    paths = [joined.scopes[item.scope].path for item in joined.run.failures]
    for rank, path in enumerate(paths, 1):
        assert path in (f"rank_{rank}.model", f"rank_{rank}")  # the name needs Python 3.11
    assert joined.run.failure is None
    for found in (joined, torchrecorder.load(joined.save(tmp_path / "joined.json"))):
        for depth, expected in ((1, [1, 1, 0]), (2, [1, 1, 1])):
            texts = _texts(torchrecorder.figure(found, depth=depth))
            assert [sum(error in text for text in texts) for error in errors] == expected, texts
        lines = found.summary().splitlines()[-3:]
        for line, path, name in zip(lines, paths, names):
            assert line.startswith(f"Failed in {path}: {name} at ")
    whole = joined.render(tmp_path / "joined.html").read_text(encoding="utf-8")
    assert whole.count(errors[2].partition(": ")[2]) >= 2
    part = _texts(torchrecorder.figure(joined, focus=paths[1]))
    assert sum(errors[1] in text for text in part) == 1


def _texts(figure):
    """The texts of boxes and clusters."""
    return [" ".join(line.text for line in each.label) for each in (*figure.shapes, *figure.groups)]


def test_a_communication_that_is_not_there():
    """A file that names it is refused."""
    for place in (2, -1):
        with pytest.raises(InvalidRecording, match=f"no communication {place}"):
            torchrecorder.merge([unfinished(each, place) for each in recorded(reduced_twice)])


def _as_rank(recording, rank):
    """*recording*, had it been made by one of two processes."""
    facts = recording.run.rank
    groups = tuple(group._replace(ranks=(0, 1)) for group in facts.groups)
    facts = facts._replace(rank=rank, world=2, groups=groups)
    return replace(recording, run=replace(recording.run, rank=facts))


# Files and mistakes ---------------------------------------------------------------------------


def test_files_and_patterns(tmp_path):
    """Saved recordings are found by a pattern, and give the same as those in memory."""
    recordings = recorded(reduced_twice)
    for rank, each in enumerate(recordings):
        each.save(tmp_path / f"rank{rank}.json.gz")
    run = torchrecorder.merge(tmp_path / "rank*.json.gz")
    assert run.summary() == torchrecorder.merge(recordings).summary()
    assert run.ranks == (0, 1, 2, 3)
    one_by_one = torchrecorder.merge([tmp_path / f"rank{rank}.json.gz" for rank in (1, 0)])
    assert one_by_one.ranks == (0, 1)


@pytest.mark.parametrize(("given", "message"), [
    ([], "nothing to merge"),
    ("nowhere*.json", "no file 'nowhere"),
    (Path(__file__).parent, "is a folder: give its files, as "),
    (3, "paths, patterns or recordings"),
    ([3], "paths, patterns or recordings"),
])
def test_what_cannot_be_merged(given, message):
    """Said before anything is read."""
    with pytest.raises(InvalidArgument, match=message):
        torchrecorder.merge(given)


def test_recordings_that_do_not_go_together():
    """One of a process that was alone, and two of the same process."""
    alone = torchrecorder.record(torch.nn.Linear(2, 1), torch.ones(1, 2))
    with pytest.raises(InvalidArgument, match="not recorded in a distributed process"):
        torchrecorder.merge(alone)
    (first,) = recorded(reduced_twice, world=1)
    with pytest.raises(InvalidArgument, match="both recordings of rank 0"):
        torchrecorder.merge([first, first])


def test_wrong_questions():
    """A number that collectives do not have, and no number of lines."""
    run = torchrecorder.merge(recorded(reduced_twice, world=2))
    with pytest.raises(InvalidArgument, match="'waited' or 'bytes'"):
        run.top("flops")
    for ask in (run.top, run.summary):
        with pytest.raises(InvalidArgument, match="n must be"):
            ask(n=0)
    assert repr(run) == "<Ranks of job: 2 ranks, 1 lane, 2 collectives, 0 problems>"


def test_gather_needs_processes():
    """Outside of them the message says what does without."""
    recording = torchrecorder.record(torch.nn.Linear(2, 1), torch.ones(1, 2))
    with pytest.raises(InvalidArgument, match="initialized; merge"):
        torchrecorder.gather(recording)
