"""Packed: digests as bytes, to be sent and put together; what many have in common is kept once."""

from __future__ import annotations

import zlib
from array import array
from typing import Any, NamedTuple

import msgspec

from torchrecorder.events import Rank, RankGroup
from torchrecorder.ranks.digest import Digest
from torchrecorder.ranks.sent import Sent, SentByRank


class _Packed(NamedTuple):
    """A digest in parts, those that many have in common as one piece of bytes."""

    digest: bytes
    rank: Rank
    kinds: bytes
    columns: tuple[bytes, ...]


class _Own(NamedTuple):
    """What a digest has but its process and what that sent."""

    name: str
    exact: str
    similar: str
    parameter_bytes: int
    seconds: float | None
    failure: str


def packed(digest: Digest) -> bytes:
    """*digest* as bytes, for `Shared.unpacked`."""
    sent = digest.sent
    own = _Own(**{name: getattr(digest, name) for name in _Own._fields})
    columns = sent.group, sent.order, sent.peer, sent.seconds, sent.blocked
    encode = msgspec.msgpack.encode
    numbers = tuple([column.tobytes() for column in columns])
    parts = _Packed(encode(own), digest.rank, encode(sent.kinds), numbers)
    return zlib.compress(encode(parts), 1)


class Shared:
    """What the digests of one run have in common, each once."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def unpacked(self, text: bytes) -> Digest:
        """The digest that `packed` was given."""
        parts = msgspec.msgpack.decode(zlib.decompress(text), type=_Packed)
        own = msgspec.msgpack.decode(parts.digest, type=_Own)
        rank = parts.rank._replace(groups=tuple(map(self._group, parts.rank.groups)))
        group, order, peer, seconds, blocked = parts.columns
        sent = SentByRank(
            self._kinds(parts.kinds),
            tuple(found.name for found in rank.groups),
            array("i", group),
            array("i", order),
            array("i", peer),
            array("d", seconds),
            array("d", blocked),
        )
        return Digest(rank=rank, sent=sent, **own._asdict())

    def _group(self, group: RankGroup) -> RankGroup:
        return self._known.setdefault(group, group)  # type: ignore[no-any-return]

    def _kinds(self, text: bytes) -> tuple[Sent, ...]:
        if text not in self._known:
            self._known[text] = msgspec.msgpack.decode(text, type=tuple[Sent, ...])
        return self._known[text]  # type: ignore[no-any-return]
