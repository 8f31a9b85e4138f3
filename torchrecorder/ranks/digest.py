"""Digest: the facts about one process that joining needs.

Digests are small, so that one process can hold those of a thousand. Processes with equal hashes ran
the same operations, and one complete recording represents all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from torchrecorder.events import Communication, OpId, Rank, RankGroup, Role, ScopeId, ValueId
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.ranks.sent import Sent, CommunicationColumns


class Digest(NamedTuple):
    """The digest of one process.

    Attributes:
        name: The name of its recording.
        rank: The process.
        exact: Hash of its operations and the sizes of their tensors.
        similar: Hash of its operations, without sizes.
        sent: Its communications, in run order.
        parameter_bytes: The size of its part of the parameters.
        seconds: How long it ran; None if unknown.
        failure: The exception that ended the run; empty if none.
    """

    name: str
    rank: Rank
    exact: str
    similar: str
    sent: CommunicationColumns
    parameter_bytes: int
    seconds: float | None
    failure: str


def digest(recording: RecordedRun, rank: Rank) -> Digest:
    """The digest of the *recording* of one process."""
    failure = recording.run.failure
    return Digest(
        recording.name,
        rank,
        _hash(_structure(recording, rank, sizes=True)),
        _hash(_structure(recording, rank, sizes=False)),
        CommunicationColumns.of([*_sent(recording)], rank),
        _parameter_bytes(recording),
        recording.run.seconds,
        "" if failure is None else f"{failure.error}: {failure.message}",
    )


# Communications -------------------------------------------------------------------------


def module_path(recording: RecordedRun, scope: ScopeId | None) -> str:
    """The dotted path of the innermost module around *scope*; empty for the root module."""
    around = recording.within(scope)
    return next(
        (recording.scopes[outer].path for outer in around if recording.scopes[outer].path), ""
    )


def _sent(recording: RecordedRun) -> Iterator[Sent]:
    paths: dict[ScopeId | None, str] = {}
    for communication in recording.communications:
        scope = communication.scope
        if scope not in paths:
            paths[scope] = module_path(recording, scope)
        op = recording.ops[communication.op] if communication.op is not None else None
        source = op.source if op is not None else None
        line = "" if source is None else f"{source.file}:{source.line}"
        yield Sent(communication, paths[scope], line)


def _parameter_bytes(recording: RecordedRun) -> int:
    here = {shard.value: shard.bytes for shard in recording.shards}
    return sum(
        here.get(value.id, value.bytes)
        for value in recording.values.values()
        if value.role is Role.PARAMETER and value.producer is None
    )


# Hashes ---------------------------------------------------------------------------------


def _hash(parts: Iterator[Any]) -> str:
    found = hashlib.blake2b(digest_size=16)
    encode = msgspec.msgpack.Encoder().encode
    for part in parts:
        found.update(encode(part))
    return found.hexdigest()


def _structure(recording: RecordedRun, rank: Rank, *, sizes: bool) -> Iterator[Any]:
    """What a process ran, without anything that is different in each rank."""
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
    groups = {group.name: group for group in rank.groups}
    for communication in recording.communications:
        yield _relative(communication, groups[communication.group], rank.rank, sizes)


def _input_keys(recording: RecordedRun) -> Callable[[ValueId], Any]:
    """Returns a function that gives the key of an input of an op.

    If an op has several outputs, each rank may read a different one, as with ``chunk``. So the key
    of such an input is its producer and a number in the order of reading.
    """
    read: dict[OpId, dict[ValueId, int]] = {}

    def key(value: ValueId) -> Any:
        producer = recording.values[value].producer
        maker = recording.ops.get(producer) if producer is not None else None
        if maker is None or len(maker.outputs) < 2:
            return value
        known = read.setdefault(maker.id, {})
        return maker.id, known.setdefault(value, len(known))

    return key


def _relative(sent: Communication, group: RankGroup, rank: int, sizes: bool) -> Any:
    """A communication with its peer relative to *rank*, so that equal ranks have equal ones."""
    peer = sent.peer
    if peer in group.ranks:
        peer = group.ranks.index(peer)
        if sent.tag >= 0 and rank in group.ranks:
            peer -= group.ranks.index(rank)
    size = [sent.given, sent.received] if sizes else []
    return (
        sent.name, sent.reduction, group.purpose, len(group.ranks), peer, sent.scope, sent.op,
        sent.grad, size,
    )
