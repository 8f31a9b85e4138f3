"""Entries: what is known of each living tensor, and which of them share memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from torchrecorder.capture.tensors.storage import Storage
from torchrecorder.capture.tensors.describe import reach_of
from torchrecorder.events import OpId, Role, ScopeId, ValueId


class Foreign(NamedTuple):
    """A result that a module of ours returned in another thread."""

    name: str
    given: list[tuple[str, weakref.ref[Tensor]]]
    result: weakref.ref[Tensor]


class Aside(NamedTuple):
    """A detached tensor that nobody has read yet: what it was made of, and the writes till then."""

    result: weakref.ref[Tensor]
    value: ValueId
    seen: int


class Entry(weakref.ref[Tensor]):
    """What the table knows of one tensor; it is itself the weak reference to it."""

    __slots__ = (
        "key",
        "value",
        "version",
        "seen",
        "storage",
        "requires_grad",
        "role",
        "names",
        "producer",
        "scope",
        "original",
    )

    key: int
    value: ValueId
    version: int
    seen: int
    storage: Storage
    requires_grad: bool
    role: Role
    names: tuple[str, ...]
    producer: OpId | None
    scope: ScopeId | None
    original: Tensor | None  # of an alias of ours; lives as long as the alias, as it would without

    def copy(self, tensor: Tensor, forget: Callable[[Entry], None]) -> Entry:
        """The same about another *tensor*, which has no gradient."""
        entry = Entry(tensor, forget)
        for name in Entry.__slots__:
            setattr(entry, name, getattr(self, name))
        entry.key, entry.requires_grad, entry.original = id(tensor), False, None
        return entry


def around_in(
    entries: Mapping[int, Entry], tensor: Tensor, storage: Storage
) -> tuple[Tensor | None, bool]:
    """The narrowest tensor known around *tensor* in its *storage*, and whether others may be.

    Of equal ones, it is that met last. Where only parts beside it are known, it is a part that
    nobody has met; unless others were met before that are no more.
    """
    low, high = reach_of(tensor)
    nearest: tuple[int, Tensor | None] = 0, None
    unclear = storage.faded
    for entry in list(entries.values()):
        other = entry() if entry.storage is storage else None
        if other is not None and other is not tensor:
            start, end = reach_of(other)
            unclear = unclear or start < high and low < end
            if start <= low and high <= end and (nearest[1] is None or end - start <= nearest[0]):
                nearest = end - start, other
    return nearest[1], unclear


def forgetting(
    entries: dict[int, Entry], aliases: set[int], lose: Callable[[str, BaseException], None]
) -> Callable[[Any], None]:
    """What takes the entry of a dead tensor out of *entries*, and out of *aliases*."""

    def forget(entry: Entry) -> None:
        try:
            entries.pop(entry.key, None)
            entry.storage.faded = True
            if aliases:
                aliases.discard(entry.key)
        except Exception as error:
            lose("values", error)

    return forget
