"""Checks: everything that must hold for the recordings of the ranks of a random job."""

from __future__ import annotations

import json
import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor

from tests.generated.checks import COUNTS, is_drawn, nothing_in, strictly
from tests.generated.ranks.program import Job
from tests.generated.ranks.statements import Block
from tests.generated.ranks.witness import Call, Witness
from tests.generated.steps.kind import COLUMNS, ROWS
from tests.planning.in_process import Here
from tests.structure import structure
from torchrecorder.capture.planned import fake_mesh
from torchrecorder.events import GRADIENT_MESSAGE, MESSAGE
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.consistency import problems
from torchrecorder.planning import plan
from torchrecorder.planning.translate import is_equal
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.ranks import Ranks
from torchrecorder.recording import Recording

MESSAGES = (MESSAGE, GRADIENT_MESSAGE)

ENDS = ("send", "recv")
"""The two calls of a message."""

VARIABLE = ("all_to_all", "gather", "reduce", "scatter")
"""Collectives to which ranks may give other sizes."""


def check(job: Job) -> None:
    """Everything that must hold, one after the other."""
    with strictly():
        _check(job)


def factory(job: Job) -> Callable[[Any], Any]:
    """What makes the model of a rank, and the step that it runs."""
    def make(mesh: Any) -> tuple[Block, Callable[[], None]]:
        model = Block(job.steps, mesh)
        trained = [*model.parameters()]
        optimizer = torch.optim.SGD(trained, 0.1) if job.updates and trained else None

        def step() -> None:
            x = torch.ones(ROWS, COLUMNS).requires_grad_()
            torch.stack([each.sum() for each in model([x])]).sum().backward()
            for parameter in model.parameters() if job.averages else ():
                if parameter.grad is not None:
                    dist.all_reduce(_local(parameter.grad))
            if optimizer is not None:
                optimizer.step()

        return model, step

    return make


def _local(tensor: Any) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _check(job: Job) -> None:
    found = [apart(partial(ran, job, rank)) for rank in range(job.world)]
    seen = [calls for calls, _, _ in found]
    recordings = {rank: recording for rank, (_, recording, _) in enumerate(found)}
    digests = {rank: digest for rank, (_, _, digest) in enumerate(found)}
    for rank, calls in enumerate(seen):
        communicates(recordings[rank], calls)
    run = Ranks([*digests.values()], recordings)
    has_lanes(run, seen)
    if differ(seen):
        assert run.problems
    else:
        assert not run.problems, run.problems
        is_joined(run, seen)
        is_sampled(job, digests)
    for recording in (run.recording, run.whole):
        is_whole(recording)
    run.summary()
    COUNTS.add("ranks", sum(map(len, seen)), len(run.collectives))


def ran(job: Job, rank: int) -> tuple[list[Call], Recording, Digest]:
    """What a rank communicates without a recorder, its recording, and the digest of this."""
    _, step = factory(job)(fake_mesh(rank, job.mesh))
    with Witness() as witness:
        step()
    dist.destroy_process_group()
    workers = Here(factory(job), job.mesh)
    digests = workers.run([rank])
    return witness.calls, workers.recordings[rank], digests[rank]


def apart(run: Callable[[], Any]) -> Any:
    """What *run* returns or raises in a process of its own.

    PyTorch caches placements of distributed tensors, with the groups of an earlier rank.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def target() -> None:
        try:
            result = run(), None
        except Exception as error:
            result = None, RuntimeError("".join(traceback.format_exception(error)[-3:]))
        sender.send(result)
        sender.close()
        os._exit(0)

    process = context.Process(target=target)
    process.start()
    sender.close()
    result, error = receiver.recv()
    process.join()
    if error is not None:
        raise error
    return result


def differ(seen: list[list[Call]]) -> bool:
    """Whether ranks do not call the same in the groups that they share."""
    sent: Counter[Any] = Counter()
    for rank, calls in enumerate(seen):
        for call in calls:
            if call.name in ENDS:
                ends = (rank, call.peer) if call.name == "send" else (call.peer, rank)
                sent[call.group, ends, call.tag] += 1 if call.name == "send" else -1

    def forms(calls: list[Call]) -> list[tuple[str, int]]:
        return [(call.name, 0 if call.name in VARIABLE else call.bytes) for call in calls]

    return any(sent.values()) or any(
        forms(queue.get(rank, [])) != forms(queue.get(ranks[0], []))
        for (_, ranks), queue in queues(seen).items() for rank in ranks
    )


def queues(seen: list[list[Call]]) -> dict[Any, dict[int, list[Call]]]:
    """The collectives of each group, by its purpose and ranks, in each rank."""
    found: dict[Any, dict[int, list[Call]]] = {}
    for rank, calls in enumerate(seen):
        for call in calls:
            if call.name not in ENDS:
                group = found.setdefault((call.group, call.ranks), {})
                group.setdefault(rank, []).append(call)
    return found


def communicates(recording: Recording, calls: list[Call]) -> None:
    """A rank has recorded what the dispatcher saw, in this order."""
    run = recording.run
    assert run.rank is not None
    groups = {group.name: group for group in run.rank.groups}
    found = [
        Call(
            each.name, groups[each.group].purpose, groups[each.group].ranks,
            max(each.given, each.received), each.peer, each.tag,
        )
        for each in recording.communications
    ]
    assert found == calls, (found, calls)


def has_lanes(run: Ranks, seen: list[list[Call]]) -> None:
    """Each rank is in one lane, with others that call the same, and bytes add up."""
    assert sorted(rank for lane in run.lanes for rank in lane.ranks) == [*range(len(seen))]
    for lane in run.lanes:
        assert len({tuple(call.name for call in seen[rank]) for rank in lane.ranks}) == 1
        sums = [sum(call.bytes for call in seen[rank]) for rank in lane.ranks]
        assert lane.sent_bytes == (min(sums), max(sums)), (lane.sent_bytes, sums)


def is_joined(run: Ranks, seen: list[list[Call]]) -> None:
    """Each collective is joined from the calls of all ranks of its group, and each message from
    those of sender and receiver."""
    wanted: Counter[Any] = Counter()
    for rank, calls in enumerate(seen):
        wanted.update(
            (call.name, (rank, call.peer), call.bytes) for call in calls if call.name == "send"
        )
    for (_, ranks), of_rank in queues(seen).items():
        rows = (max(row, key=lambda call: call.bytes) for row in zip(*of_rank.values()))
        wanted.update((call.name, ranks, call.bytes) for call in rows)
    found = Counter((each.name, each.ranks, each.bytes) for each in run.collectives)
    assert found == wanted, (found, wanted)
    parts = sorted((part.rank, part.place) for each in run.collectives for part in each.parts)
    places = [(rank, place) for rank, calls in enumerate(seen) for place, _ in enumerate(calls)]
    assert parts == places


def is_sampled(job: Job, digests: dict[int, Digest]) -> None:
    """A plan that records only some ranks finds what all ranks record; also if dimensions are
    taken for large, of which it records as few as it needs."""
    for many in (plan.MANY, 1):
        with mock.patch.object(plan, "MANY", many):
            layout = plan.MeshLayout.from_sizes(job.mesh)
            sampling = plan._RankSampling(Known(digests), layout)  # type: ignore[arg-type]
            found, _ = sampling.digests()
        assert found.keys() == digests.keys()
        for rank, digest in found.items():
            assert is_equal(_unnamed(digest), _unnamed(digests[rank])), (rank, many)


class Known:
    """In the place of the processes of a plan: each rank has run already."""

    def __init__(self, digests: dict[int, Digest]) -> None:
        self.digests = digests

    def run(self, ranks: Iterable[int]) -> dict[int, Digest]:
        """The digests of these ranks."""
        return {rank: self.digests[rank] for rank in ranks}


def _unnamed(digest: Digest) -> Digest:
    """Without the names of groups, which PyTorch counts in each rank."""
    groups = tuple(group._replace(name="") for group in digest.rank.groups)
    names = tuple("" for _ in digest.sent.names)
    return digest._replace(
        rank=digest.rank._replace(groups=groups), sent=digest.sent._replace(names=names)
    )


def is_whole(recording: Recording) -> None:
    """The recording of all lanes is one like any other; but a lane can come before another one
    whose messages it receives."""
    received = {
        f"{op.id} {op.name} reads {slot.value} before it is made"
        for op in recording.ops.values() for slot in op.inputs if slot.name in MESSAGES
    }
    nothing_in([each for each in structure(recording) if each not in received])
    nothing_in([*problems(recording)])
    is_drawn(recording)
    text = json.dumps(encode(recording))
    assert json.dumps(encode(decode(json.loads(text), Recording))) == text
