"""Recordings of processes that are one after the other this process."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist

from tests.capture.processes import process_group
from torchrecorder import Recorder
from torchrecorder.events import UNFINISHED
from torchrecorder.graph.failure import Failure

X = torch.ones(3, 4)


def recorded(run, world=4, **options):
    """What each of so many processes records of ``run(rank)``."""
    found = []
    for rank in range(world):
        with process_group(rank, world):
            with Recorder(name="job", **options) as recorder:
                run(rank)
            found.append(recorder.recording)
    return found


def timed(recording, *seconds, blocked=None):
    """*recording*, had its communications taken so long."""
    sent = [
        told._replace(seconds=each, blocked_seconds=blocked)
        for told, each in zip(recording.communications, seconds, strict=True)
    ]
    return replace(recording, communications=tuple(sent))


def reduced_twice(rank):
    """Two collectives of all ranks."""
    dist.all_reduce(X.clone())
    dist.all_reduce(X[:1].clone())


def unfinished(recording, communication, message="no progress for 5 s"):
    """*recording*, had it been saved in a wait for a communication."""
    failure = Failure(UNFINISHED, message, None, None, False, None, communication)
    last = [*recording.ops.values()][-1]
    ops = {**recording.ops, last.id: last.replace(failed=True)}
    run = replace(recording.run, failure=failure, running=(last.id,))
    return replace(recording, run=run, ops=ops)
