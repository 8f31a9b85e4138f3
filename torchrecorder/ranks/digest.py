"""Digest: what has to be known of each process to put their recordings together.

It is small, so that those of a thousand processes fit on one. Processes of equal signature did
the same: one whole recording stands for all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from torchrecorder.events import Communication, OpId, Rank, RankGroup, Role, ScopeId, ValueId
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.ranks.sent import Sent, SentByRank


class Digest(NamedTuple):
    """One process.

    Attributes:
        name: The name of its recording.
        rank: Which process it is.
        exact: Equal ones did the same, to the sizes of the tensors.
        similar: Equal ones did the same but for sizes.
        sent: What it sent and received, in order.
        parameter_bytes: Bytes of the weights that it held.
        seconds: How long it ran.
        failure: The error that it ended with; empty if none.
    """

    name: str
    rank: Rank
    exact: str
    similar: str
    sent: SentByRank
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
        SentByRank.of([*_sent(recording)], rank),
        _parameter_bytes(recording),
        recording.run.seconds,
        "" if failure is None else f"{failure.error}: {failure.message}",
    )


# What it sent ---------------------------------------------------------------------------


def module_path(recording: RecordedRun, scope: ScopeId | None) -> str:
    """The dotted path of the innermost module that *scope* lies in; empty for the model."""
    around = recording.within(scope)
    return next(
        (recording.scopes[outer].path for outer in around if recording.scopes[outer].path), ""
    )


def _sent(recording: RecordedRun) -> Iterator[Sent]:
    paths: dict[ScopeId | None, str] = {}
    for told in recording.communications:
        if told.scope not in paths:
            paths[told.scope] = module_path(recording, told.scope)
        op = recording.ops[told.op] if told.op is not None else None
        source = op.source if op is not None else None
        line = "" if source is None else f"{source.file}:{source.line}"
        yield Sent(told, paths[told.scope], line)


def _parameter_bytes(recording: RecordedRun) -> int:
    here = {shard.value: shard.bytes for shard in recording.shards}
    return sum(
        here.get(value.id, value.bytes)
        for value in recording.values.values()
        if value.role is Role.PARAMETER and value.producer is None
    )


# What is alike --------------------------------------------------------------------------


def _hash(parts: Iterator[Any]) -> str:
    found = hashlib.blake2b(digest_size=16)
    encode = msgspec.msgpack.Encoder().encode
    for part in parts:
        found.update(encode(part))
    return found.hexdigest()


def _structure(recording: RecordedRun, rank: Rank, *, sizes: bool) -> Iterator[Any]:
    """What a process did, without anything that tells it from others that did the same."""
    for scope in recording.scopes.values():
        yield scope.kind.value, scope.cls, scope.path, scope.parent, scope.index
    shapes = {value.id: value.shape for value in recording.values.values()}
    shapes.update((shard.value, shard.shape) for shard in recording.shards)
    read = _read(recording)
    for op in recording.ops.values():
        made = [shapes[output] for output in op.outputs] if sizes else len(op.outputs)
        yield op.name, op.scope, op.index, made, [read(slot.value) for slot in op.inputs]
    for value in recording.values.values():
        if value.role is Role.PARAMETER:
            yield value.names, value.dtype, shapes[value.id] if sizes else len(value.shape)
    for shard in recording.shards:
        yield shard.value, shard.mesh, shard.placements
    groups = {group.name: group for group in rank.groups}
    for told in recording.communications:
        yield _relative(told, groups[told.group], rank.rank, sizes)


def _read(recording: RecordedRun) -> Callable[[ValueId], Any]:
    """Tells what an op reads. Of several results of an op, each process may read its own part.

    So they are told by who made them, and numbered in the order of reading.
    """
    met: dict[OpId, dict[ValueId, int]] = {}

    def told(value: ValueId) -> Any:
        producer = recording.values[value].producer
        maker = recording.ops.get(producer) if producer is not None else None
        if maker is None or len(maker.outputs) < 2:
            return value
        known = met.setdefault(maker.id, {})
        return maker.id, known.setdefault(value, len(known))

    return told


def _relative(told: Communication, group: RankGroup, rank: int, sizes: bool) -> Any:
    """A communication as the others of its kind have it: with the place of its peer from here."""
    peer = told.peer
    if peer in group.ranks:
        peer = group.ranks.index(peer)
        if told.tag >= 0 and rank in group.ranks:
            peer -= group.ranks.index(rank)
    size = [told.given, told.received] if sizes else []
    return (
        told.name, told.reduction, group.purpose, len(group.ranks), peer, told.scope, told.op,
        told.grad, size,
    )
