"""Digest: the facts about one process that are needed to join it with others.

Digests are small: one process can hold those of a thousand. Processes with equal hashes ran the
same operations, and one complete recording represents all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from torchrecorder.annotations.parameters import PARAMETER_BYTES
from torchrecorder.annotations.places import module_path
from torchrecorder.errors import InvalidArgument, InvalidRecording
from torchrecorder.events import (
    JOINED, Communication, OpId, Rank, Role, ScopeId, ScopeKind, ValueId,
)
from torchrecorder.graph.recording import RecordedRun, RunFacts
from torchrecorder.graph.relations import maker_of
from torchrecorder.ranks.sent import (
    RANK_COLUMNS, CommunicationColumns, Sent, distance, without_rank,
)


class Digest(NamedTuple):
    """The digest of one process."""

    name: str  # of its recording
    rank: Rank
    exact: str  # hash of its operations and the sizes of their tensors
    similar: str  # hash of its operations, without sizes
    sent: CommunicationColumns  # in run order
    parameter_bytes: int  # of its part of the parameters
    seconds: float | None  # its run time
    failure: str  # the exception that ended the run, or the place that an unfinished run reached
    waits_in: int | None  # the index of the communication that it waited for then


class Program(NamedTuple):
    """The operations of a process, as in `Digest`, equal for equal ranks."""

    exact: str
    similar: str
    kinds: tuple[Sent, ...]  # in run order, without their rank-specific fields
    parameter_bytes: int

    @staticmethod
    def from_recording(recording: RecordedRun) -> Program:
        """The program of the process of *recording*."""
        return Program(
            _hash(_structure(recording, sizes=True)),
            _hash(_structure(recording, sizes=False)),
            tuple(map(without_rank, _sent(recording))),
            int(sum(PARAMETER_BYTES.compute(recording).values())),
        )

    def digest(
        self, name: str, run: RunFacts, rank: Rank, communications: CommunicationColumns
    ) -> Digest:
        """The digest of a process that ran it, with its own *communications*."""
        failure = run.failure
        waits_in = None if failure is None else failure.communication
        if waits_in is not None and waits_in not in range(len(communications.kinds)):
            raise InvalidRecording(f"rank {rank.rank}: there is no communication {waits_in}")
        if failure is not None and failure.source is not None and waits_in is not None:
            if communications.kinds[waits_in].line == failure.source.place:  # is told with it
                failure = replace(failure, source=None)
        relative = _relative(communications, rank)
        return Digest(
            name,
            rank,
            _hash((self.exact, relative)),
            _hash((self.similar, relative)),
            communications,
            self.parameter_bytes,
            run.seconds,
            "" if failure is None else failure.text(),
            waits_in,
        )


def digest(recording: RecordedRun, rank: Rank) -> Digest:
    """The digest of the *recording* of one process."""
    program = Program.from_recording(recording)
    sent = recording.communications
    columns = [[getattr(item, name) for item in sent] for name in RANK_COLUMNS]
    communications = CommunicationColumns.from_columns(program.kinds, rank, *columns)
    return program.digest(recording.name, recording.run, rank, communications)


def rank_of(run: RunFacts, where: str) -> Rank:
    """The rank of the process of *run*, which is called *where* in the error message."""
    if run.rank is None:
        raise InvalidArgument(
            f"{where} was not recorded in a distributed process: torch.distributed must be "
            "initialized before the recording begins"
        )
    if run.rank.rank == JOINED:
        raise InvalidArgument(f"{where} has the joined run of several processes already")
    return run.rank


# Communications -------------------------------------------------------------------------


def _sent(recording: RecordedRun) -> Iterator[Sent]:
    paths: dict[ScopeId | None, str] = {}
    for communication in recording.communications:
        scope = communication.scope
        if scope not in paths:
            paths[scope] = module_path(recording, scope)
        op = recording.ops[communication.op] if communication.op is not None else None
        source = op.source if op is not None else None
        line = "" if source is None else source.place
        yield Sent(communication, paths[scope], line, _when(recording, communication))


_WHEN = {
    ScopeKind.MODULE: "forward",
    ScopeKind.OPTIMIZER: ScopeKind.OPTIMIZER.value,
    ScopeKind.CLIPPING: ScopeKind.CLIPPING.value,
}
"""The parts of a run, by the kind of the innermost scope of these."""


def _when(recording: RecordedRun, sent: Communication) -> str:
    """The part of the run; empty outside of these parts, where a pipeline sends its messages."""
    if sent.backward:
        return "backward"
    kinds = (recording.scopes[scope].kind for scope in recording.within(sent.scope))
    return next(filter(None, map(_WHEN.get, kinds)), "")


# Hashes ---------------------------------------------------------------------------------


def _hash(parts: Iterable[Any]) -> str:
    found = hashlib.blake2b(digest_size=16)
    encode = msgspec.msgpack.Encoder().encode
    for part in parts:
        found.update(encode(part))
    return found.hexdigest()


def _structure(recording: RecordedRun, *, sizes: bool) -> Iterator[Any]:
    """The facts of a program that its hashes are computed from."""
    for scope in recording.scopes.values():
        yield scope.kind.value, scope.cls, scope.path, scope.parent, scope.index
    shapes = {value.id: value.shape for value in recording.values.values()}
    shapes.update((shard.value, shard.shape) for shard in recording.shards)
    input_key = _input_keys(recording)
    for op in recording.ops.values():
        made = [shapes[output] for output in op.outputs] if sizes else len(op.outputs)
        yield op.name, op.scope, op.index, made, [input_key(slot.value) for slot in op.inputs]
    for value in recording.values.values():
        if value.role is Role.PARAMETER:
            yield value.names, value.dtype, shapes[value.id] if sizes else len(value.shape)
    for shard in recording.shards:
        yield shard.value, shard.mesh, shard.placements
    for sent in recording.communications:
        size = [sent.given, sent.received] if sizes else []
        yield sent.name, sent.reduction, sent.scope, sent.op, sent.grad, size


def _input_keys(recording: RecordedRun) -> Callable[[ValueId], Any]:
    """Returns a function that gives the key of an input of an op.

    Each rank may read another output of one op, as with ``chunk``: they are numbered as read.
    """
    read: dict[OpId, dict[ValueId, int]] = {}

    def key(value: ValueId) -> Any:
        maker = maker_of(recording, value)
        if maker is None or len(maker.outputs) < 2:
            return value
        known = read.setdefault(maker.id, {})
        return maker.id, known.setdefault(value, len(known))

    return key


def _relative(communications: CommunicationColumns, rank: Rank) -> list[tuple[str, int, int]]:
    """The purpose and size of the group and the relative peer of each communication; in a ring, all
    have the same next one."""
    known: dict[tuple[int, int, bool], tuple[str, int, int]] = {}
    messages = [kind.communication.tag >= 0 for kind in communications.kinds]
    found = []
    for key in zip(communications.group, communications.peer, messages):
        if key not in known:
            place, peer, is_message = key
            group = rank.groups[place]
            if peer in group.ranks:
                is_relative = is_message and rank.rank in group.ranks
                peer = distance(group, rank.rank if is_relative else group.ranks[0], peer)
            known[key] = group.purpose, len(group.ranks), peer
        found.append(known[key])
    return found
