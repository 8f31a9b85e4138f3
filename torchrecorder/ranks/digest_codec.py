"""Digests as bytes, to send and store. Parts that several digests share are decoded once."""

from __future__ import annotations

import zlib
from array import array
from typing import Any, NamedTuple

import msgspec

from torchrecorder.events import Rank, RankGroup
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import Sent, CommunicationColumns


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
