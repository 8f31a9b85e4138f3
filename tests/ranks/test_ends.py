"""How the ranks of a joined run ended: with errors, or in waits for each other."""

from dataclasses import replace

import pytest
import torch.distributed as dist

import torchrecorder
from tests.ranks.made import X, recorded, reduced_twice, unfinished
from tests.work import growth
from torchrecorder.events import SourceLine
from torchrecorder.graph.failure import Failure


def test_errors_of_two_lines_are_two_problems():
    """Also if their messages are equal."""
    failed = [
        replace(each, run=replace(each.run, failure=Failure(
            "ValueError", "no", None, None, False, source=SourceLine("train.py", line, "main")
        )))
        for each, line in zip(recorded(reduced_twice), (7, 8, 8, 7))
    ]
    assert list(torchrecorder.merge(failed).problems) == [
        "ranks 0, 3 failed with ValueError at train.py:7: no",
        "ranks 1–2 failed with ValueError at train.py:8: no",
    ]


def _received_in_a_circle(rank):
    dist.recv(X.clone(), (rank + 1) % 3)


def _reduced_with_each_other(rank):
    tensor_parallel, data_parallel = dist.new_group([0, 1]), dist.new_group([1, 0, 2])
    dist.all_reduce(X.clone(), group=data_parallel if rank else tensor_parallel)


def _reduced_and_received(rank):
    if rank == 1:
        dist.recv(X.clone(), 0)
    else:
        dist.all_reduce(X.clone())


@pytest.mark.parametrize("run, circle", [
    (_received_in_a_circle, "ranks 0 → 1 → 2 → 0"),
    (_reduced_with_each_other, "ranks 0 → 1 → 0"),
    (_reduced_and_received, "ranks 0 → 1 → 0"),
])
def test_ranks_that_wait_for_each_other(run, circle):
    """One line names the shortest circle, if each of its ranks was certainly waiting."""
    found = recorded(run, world=3)
    waiting = [unfinished(each, 0) for each in found]
    *waits, said = torchrecorder.merge(waiting).problems
    assert said == f"{circle} wait for each other"
    assert not any("each other" in wait for wait in waits)
    failures = [
        Failure(error, "", None, None, False, None, 0, SourceLine("train.py", 7, "wait"))
        for error in ("KeyboardInterrupt", "TypeError")
    ]
    interrupted, refused = [
        replace(found[1], run=replace(found[1].run, failure=failure)) for failure in failures
    ]
    problems = torchrecorder.merge([waiting[0], interrupted, waiting[2]]).problems
    assert problems[-1] == f"{circle} waited for each other"
    for other in (refused, unfinished(found[1], None), found[1]):
        problems = torchrecorder.merge([waiting[0], other, waiting[2]]).problems
        assert not any("each other" in problem for problem in problems)


@pytest.mark.parametrize("messages", [1, 2])
def test_ranks_that_wait_in_line(messages):
    """A chain that ends at a rank that is busy, or in a message that was sent, is no circle."""
    def run(rank):
        if rank == 0:
            for _ in range(messages):
                dist.send(X.clone(), 1)
            dist.recv(X.clone(), 1)
        else:
            dist.recv(X.clone(), 0)

    first, second = recorded(run, world=2)
    problems = torchrecorder.merge([unfinished(first, messages), unfinished(second, 0)]).problems
    assert "rank 1 did not send it" in problems[0]
    assert not any("each other" in problem for problem in problems)


def test_ranks_that_wait_in_one_collective_are_told_in_proportion():
    """Who called it is asked once, not for each of them."""
    def merging(number):
        def run(rank):
            for _ in range(2 - rank % 2):
                dist.all_reduce(X.clone())

        found = recorded(run, world=number)
        found = [unfinished(each, len(each.communications) - 1) for each in found]
        return lambda: torchrecorder.merge(found)

    waiting, _ = merging(4)().problems
    assert waiting.endswith("ranks 1, 3 did not call it")
    assert growth(merging, 32) < 2.2
