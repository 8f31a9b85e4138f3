"""Entries: facts about each living tensor, which tensors share memory, their grad nodes, and the
gradients that backward passes left."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from torchrecorder.capture.tensors.storage import Storage
from torchrecorder.events import (
    GRAD_SUFFIX,
    GradEdge,
    OpId,
    Role,
    ScopeId,
    ValueId,
    names_gradient,
)


class Foreign(NamedTuple):
    """A result that a recorded module returned in another thread."""

    name: str
    given: list[tuple[str, weakref.ref[Tensor]]]
    result: weakref.ref[Tensor]

    def living(self) -> list[tuple[str, Tensor]]:
        """What the module was given, as far as it still exists."""
        return [(name, tensor) for name, ref in self.given if (tensor := ref()) is not None]


class Detached(NamedTuple):
    """A detached tensor that was not read yet: its source, and the number of writes until then."""

    result: weakref.ref[Tensor]
    value: ValueId
    seen: int


class DetachedTensors:
    """The detached tensors that were not read yet."""

    def __init__(self) -> None:
        self._known: dict[int, Detached] = {}

    def add(self, tensor: Tensor, value: ValueId, seen: int) -> None:
        """*tensor* has the memory of *value*, after so many writes were *seen*."""
        self._known[id(tensor)] = Detached(weakref.ref(tensor), value, seen)

    def of(self, tensor: Tensor) -> Detached | None:
        """What is known of *tensor*, if it is one of them."""
        known = self._known.get(id(tensor))
        return known if known is not None and known.result() is tensor else None

    def clear(self) -> None:
        """Forget them."""
        self._known.clear()


class Entry(weakref.ref[Tensor]):
    """Facts about one tensor, in a weak reference to it."""

    __slots__ = (
        "key", "value", "version", "seen", "storage", "requires_grad", "role", "names", "producer",
        "scope", "original",
    )  # fmt: skip

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
    original: Tensor | None  # the original of an alias, kept alive by it

    def copy(self, tensor: Tensor, forget: Callable[[Entry], None]) -> Entry:
        """A copy of the entry for another *tensor*, without a grad node."""
        entry = Entry(tensor, forget)
        for name in Entry.__slots__:
            setattr(entry, name, getattr(self, name))
        entry.key, entry.requires_grad, entry.original = id(tensor), False, None
        entry.set_storage(self.storage)
        return entry

    def set_storage(self, storage: Storage) -> None:
        """The memory of the tensor is in *storage* from now on."""
        self.storage = storage
        storage.tensors[self.key] = None


class TensorNames:
    """Finds the role and name of a tensor of unknown origin; implemented by `AttributeNames`."""

    def of(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The role and name of *tensor*, wherever the program holds it."""

    def of_running(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The role and name of *tensor*, if a module that is running holds it itself."""


class HiddenSource(Protocol):
    """Records what no instrument saw; implemented and explained by `HiddenOps`."""

    def record(self, tensor: Tensor) -> ValueId: ...
    def update(self, tensor: Tensor, entry: Entry) -> ValueId: ...


class GradSource(Protocol):
    """Finds the grad node behind a tensor; implemented and explained by `AutogradWalk`."""

    made: dict[GradEdge, ValueId]

    @property
    def hidden(self) -> HiddenSource: ...
    def adopt(self, node: Any, other: Any) -> None: ...
    def begin(self) -> None: ...
    def find_numbering(self) -> None: ...
    def expect_unrecorded(self, made: Iterable[Tensor]) -> None: ...
    def custom_backward(self) -> str | None: ...
    def is_older(self, node: Any) -> bool: ...
    def knows(self, tensor: Tensor) -> bool: ...
    def edge_of(self, tensor: Tensor, producer: OpId) -> GradEdge | None: ...
    def map_alias(self, alias: Tensor, tensor: Tensor) -> None: ...


def around_in(
    entries: Mapping[int, Entry], tensor: Tensor, storage: Storage
) -> tuple[Tensor | None, bool]:
    """The smallest known tensor that contains *tensor* in its *storage*, and whether others may.

    Of equal ones, the one seen last. If only other parts are known, it is a new part, unless there
    were other tensors that no longer exist.
    """
    low, high = storage.reach(tensor)
    nearest: tuple[int, Tensor | None] = 0, None
    unclear = storage.faded
    for key in list(storage.tensors):
        entry = entries.get(key)
        other = entry() if entry is not None and entry.storage is storage else None
        if other is not None and other is not tensor:
            start, end = storage.reach(other)
            unclear = unclear or start < high and low < end
            if start <= low and high <= end and (nearest[1] is None or end - start <= nearest[0]):
                nearest = end - start, other
    return nearest[1], unclear


def forgetting(
    entries: dict[int, Entry], aliases: set[int], lose: Callable[[str, BaseException], None]
) -> Callable[[Any], None]:
    """A callback that removes the entry of a dead tensor from *entries* and *aliases*."""

    def forget(entry: Entry) -> None:
        try:
            entries.pop(entry.key, None)
            entry.storage.tensors.pop(entry.key, None)
            entry.storage.faded = True
            if aliases:
                aliases.discard(entry.key)
        except Exception as error:
            lose("values", error)

    return forget


class BackwardGradients:
    """The gradients that backward passes left: of leaves, and those that hooks kept.

    Attributes:
        last: The last pass that began.
        left: For each leaf behind a pass, the last such pass.
    """

    def __init__(self) -> None:
        self.last: OpId | None = None
        self.left: dict[ValueId, OpId] = {}
        self._passes: dict[OpId, tuple[int, int]] = {}
        self._kept: dict[int, tuple[weakref.ref[Tensor], OpId]] = {}

    def of(self, leaf: ValueId) -> OpId | None:
        """The pass that wrote the gradient of *leaf*."""
        return self.left.get(leaf, self.last)

    def named(self, names: tuple[str, ...]) -> OpId | None:
        """The pass that wrote the gradient with these *names*; None if it is not from the run."""
        if self.last is None or not names_gradient(names):
            return None
        return self.of(ValueId(names[0].removesuffix(GRAD_SUFFIX)))

    def begin(self, op: OpId, values: int) -> None:
        """The pass *op* begins; so many *values* exist."""
        self._passes[op] = values, sys.maxsize

    def end(self, op: OpId, values: int) -> None:
        """The pass *op* is over, with so many *values*: forget the gradients that nobody kept."""
        self._passes[op] = self._passes[op][0], values
        self._kept = {key: known for key, known in self._kept.items() if known[0]() is not None}

    def is_from_hook(self, value: ValueId, maker: OpId) -> bool:
        """Whether an operation made *value* while the pass *maker* ran: one of a hook."""
        first, end = self._passes.get(maker, (0, 0))
        return first <= int(value[1:]) < end

    def made_by_hook(self, entry: Entry | None, run: OpId) -> bool:
        """Whether the tensor of *entry* is what a hook in the pass *run* made, without a graph."""
        if entry is None or entry.producer in (None, run) or entry.requires_grad:
            return False
        return self.is_from_hook(entry.value, run)

    def meet(self, gradient: Tensor, maker: OpId) -> None:
        """Note a *gradient* that the pass *maker* computed, which a hook may keep."""
        self._kept[id(gradient)] = weakref.ref(gradient), maker

    def maker_of(self, tensor: Tensor) -> OpId | None:
        """The pass that computed the gradient *tensor*; None if none did, or if it is unknown."""
        known = self._kept.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def clear(self) -> None:
        """Remove all weak references."""
        self._kept.clear()
