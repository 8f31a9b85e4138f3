"""Digest codec: digests as bytes, to send and store. Parts that several digests share are decoded
once."""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections.abc import Iterator
from types import GenericAlias
from typing import Any, NamedTuple, get_type_hints

import msgspec

from torchrecorder.events import Communication, Rank, RankGroup
from torchrecorder.graph.recording import RunFacts
from torchrecorder.graph.saved_files import loads, naming, read
from torchrecorder.ranks.digest import Digest, Program, digest, rank_of
from torchrecorder.ranks.sent import RANK_COLUMNS, CommunicationColumns, Sent
from torchrecorder.recording import Recording


class _Packed(NamedTuple):
    """A digest whose communications are encoded separately, because these are often equal."""

    facts: dict[str, Any]
    rank: Rank
    kinds: bytes
    columns: tuple[bytes, ...]


def encode_digest(digest: Digest) -> bytes:
    """*digest* as bytes, for `DigestDecoder.decode`."""
    sent, encode = digest.sent, msgspec.msgpack.encode
    numbers = tuple([column.tobytes() for column in sent[2:]])
    facts = {name: fact for name, fact in digest._asdict().items() if name not in ("rank", "sent")}
    parts = _Packed(facts, digest.rank, encode(sent.kinds), numbers)
    return zlib.compress(encode(parts), 1)


class DigestDecoder:
    """Decodes the digests of one run; equal groups and communications share memory."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def decode(self, data: bytes) -> Digest:
        """The digest that `encode_digest` encoded."""
        parts = msgspec.msgpack.decode(zlib.decompress(data), type=_Packed)
        rank = parts.rank._replace(groups=tuple(map(self._group, parts.rank.groups)))
        names = tuple(found.name for found in rank.groups)
        columns: Any = map(array, "iiidd", parts.columns)
        sent = CommunicationColumns(self._kinds(parts.kinds), names, *columns)
        return Digest(rank=rank, sent=sent, **parts.facts)

    def _group(self, group: RankGroup) -> RankGroup:
        return self._known.setdefault(group, group)  # type: ignore[no-any-return]

    def _kinds(self, data: bytes) -> tuple[Sent, ...]:
        if data not in self._known:
            self._known[data] = msgspec.msgpack.decode(data, type=tuple[Sent, ...])
        return self._known[data]  # type: ignore[no-any-return]


RawTable = dict[str, msgspec.Raw]
"""The columns of a table as JSON text."""


COLUMN_TYPES: dict[str, Any] = {
    name: GenericAlias(list, get_type_hints(Communication)[name]) for name in RANK_COLUMNS
}
"""The types of the columns that differ between ranks."""


class _SavedRank(msgspec.Struct):
    """The tables of a file from which a program is computed, and the facts about the rank."""

    format: str
    version: int
    name: str
    run: RunFacts
    scopes: RawTable
    ops: RawTable
    values: RawTable
    grad_nodes: RawTable
    shards: RawTable = {}
    communications: RawTable = {}

    def rank_columns(self) -> Iterator[list[Any]]:
        """The columns of communications that differ between ranks."""
        for name, kind in COLUMN_TYPES.items():
            column = self.communications[name] if self.communications else b"[]"
            yield msgspec.json.decode(column, type=kind)

    def program_key(self) -> bytes:
        """Equal for files of equal programs that are stored in the same way."""
        found = hashlib.blake2b(f"{self.format} {self.version}".encode(), digest_size=16)
        for table in ("scopes", "ops", "values", "grad_nodes", "shards", "communications"):
            for name, column in getattr(self, table).items():
                if name not in RANK_COLUMNS:
                    found.update(f"{table}.{name}:{len(column)}:".encode())
                    found.update(column)
        return found.digest()


class DigestReader:
    """Reads the digests of the saved recordings of one run; *limit* is as for `load`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._programs: dict[bytes, Program] = {}
        self._groups: dict[RankGroup, RankGroup] = {}

    def read(self, path: str) -> Digest:
        """The digest of a saved recording of a distributed process; raises for other files."""
        with naming(path):
            return self._read(path)

    def _read(self, path: str) -> Digest:
        data = read(path, self.limit)
        try:
            file = msgspec.json.decode(data, type=_SavedRank)
            columns = [*file.rank_columns()]
        except (msgspec.MsgspecError, KeyError):  # `loads` explains what is wrong
            recording = loads(data, Recording)
            return digest(recording, rank_of(recording.run, path))
        rank = rank_of(file.run, path)
        groups = [self._groups.setdefault(group, group) for group in rank.groups]
        rank = rank._replace(groups=tuple(groups))
        key = file.program_key()
        if key not in self._programs:
            self._programs[key] = Program.from_recording(loads(data, Recording))
        program = self._programs[key]
        communications = CommunicationColumns.from_columns(program.kinds, rank, *columns)
        return program.digest(file.name, file.run, rank, communications)
