"""MemoryProbe: when the memory of tensors is allocated and released.

A dispatch mode sees every new tensor in forward and backward, also those that Python never gets:
tensors saved for backward, and gradients. A weak reference to the storage reports its release.
Tensors from before the run count from its beginning: parameters, buffers and gradients of the
model, and all others that the run reads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.internals.access import SHOWS_OPERATORS, current_node
from torchrecorder.capture.probes.device import DeviceProbe
from torchrecorder.capture.probes.kernels import RecorderDispatchMode
from torchrecorder.capture.scope import Gradients, Observer, OpenScope
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import memory_owner
from torchrecorder.events import (
    BYTES_PEAK, NO_STORAGE, Allocation, GradId, Measured, OpId, new_tuple,
)

_ADOPTS = frozenset(("aten::lift_fresh", "aten::lift", "aten::lift_fresh_copy"))
"""Operators whose argument was just created by C++ code that the mode does not see."""


class MemoryProbe(RecorderDispatchMode, Observer):
    """A dispatch mode that records allocations and releases."""

    def __init__(self, tape: Tape, backward: BackwardRuns) -> None:
        super().__init__(tape, backward)
        self.values = backward.autograd.values
        self.moment = 0  # counts allocations and releases
        self.begun: dict[int, tuple[int, str, int]] = {}  # by storage: bytes, node, moment
        self.done: list[Allocation] = []
        self.windows: dict[str, tuple[int, int]] = {}
        self._references: dict[int, Any] = {}
        self._node = ""
        self._open: dict[str, int] = {}
        self._roles: dict[int, tuple[str, int]] = {}
        self._alias: set[int] = set()

    def find_weights(self) -> None:
        """Record the named parameters and buffers, and their gradients."""
        for reference, role, _ in list(self.values.named.values()):
            tensor = reference()
            if tensor is not None:
                self._add_weight(tensor, role.value)

    def _add_weight(self, tensor: Tensor, role: str) -> None:
        """Record a parameter or buffer, and its gradient."""
        if is_lazy(tensor):
            return
        storage = self._set_role(tensor, role, -1)
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is not None:
            self._set_role(gradient, "gradient", storage)

    def _set_role(self, tensor: Tensor, role: str, leaf: int) -> int:
        """Record the storage of *tensor* with a *role*; returns its number."""
        self._track(tensor, None)
        storage = self.values.storages.of(tensor).number
        self._roles[storage] = role, leaf
        return storage

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run *func*, and record new memory."""
        kwargs = kwargs or {}
        if not SHOWS_OPERATORS and self.tape.ignores_calls:
            return func(*args, **kwargs)
        try:
            self._before_kernel(func, args, kwargs)
        except Exception as error:
            self.tape.record_error("memory", error)
        result = self.run(func, args, kwargs)
        try:
            shares = _returns_aliases(func)
            for tensor in _tensors(result):
                self._track(tensor, self._node, shares=shares)
        except Exception as error:
            self.tape.record_error("memory", error)
        return result

    def _before_kernel(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a kernel, record its unknown arguments, which are from before the run."""
        if current_node() is not None:
            self._node = self.backward.current() or self.backward.last_started() or self._node
        else:
            self._node = self.tape.op or self.tape.scope or ""
        if _name(func) in _ADOPTS:
            return
        for tensor in itertools.chain(_tensors(args), _tensors(kwargs.values())):
            self._track(tensor, None)

    def _track(self, tensor: Tensor, node: str | None, *, shares: bool = False) -> None:
        """Record that the memory of *tensor* was allocated in *node*; None: before the run.

        If it *shares* the unknown memory of an argument, it is a fake tensor made of a real one.
        """
        storage = self.values.storages.of(tensor).number
        if storage == NO_STORAGE or storage in self._alias:
            return
        known = self.begun.get(storage)
        if known is None and shares:
            self._alias.add(storage)
            return
        if known is not None and node is None:
            return
        amount = memory_owner(tensor).untyped_storage().nbytes()
        if known is not None:
            if known[0] == amount:
                return
            self._release(storage)  # it was resized
        elif node is None:
            self.begun[storage] = amount, "", 0
        if node is not None:
            self.moment += 1
            self.begun[storage] = amount, node, self.moment
        self._references[storage] = self.values.storages.when_released(
            tensor, lambda: self._gone(storage)
        )

    def _gone(self, storage: int) -> None:
        """The memory was released; called by PyTorch."""
        try:
            self._release(storage)
        except Exception as error:
            self.tape.record_error("memory", error)

    def _release(self, storage: int) -> None:
        self._references.pop(storage, None)
        if storage in self.begun:
            self.moment += 1
            self._close(storage, self._node, self.moment)

    def _close(self, storage: int, node: str, moment: int | None) -> None:
        """Store an allocation with its release."""
        role = self._roles.pop(storage, ("", -1))
        row = (storage, *self.begun.pop(storage), node, moment, *role)
        self.done.append(new_tuple(Allocation, row))

    # Where the run is -----------------------------------------------------------------

    def op_begins(self, op: OpId) -> None:
        """Releases from now on belong to this op."""
        self._begin(op)

    def op_ended(self, op: OpId) -> None:
        self._end(op)

    def scope_entered(self, scope: OpenScope) -> None:
        self._begin(scope.scope, node=False)

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        self._end(scope.scope)

    def node_begins(self, grad: GradId, run: int, given: Gradients) -> None:
        self._begin(grad)

    def node_ended(self, grad: GradId, run: int) -> None:
        self._end(grad)

    def _begin(self, place: str, *, node: bool = True) -> None:
        if node:
            self._node = place
        self._open[place] = self.moment

    def _end(self, place: str) -> None:
        begun = self._open.pop(place, self.moment)
        first, last = self.windows.get(place, (begun, self.moment))
        self.windows[place] = min(first, begun), max(last, self.moment)

    # The end --------------------------------------------------------------------------

    def finish(self) -> None:
        """Write the events, and remove the weak references, at the end of the run."""
        for place in list(self._open):
            self._end(place)
        self.find_weights()
        self._references.clear()
        for storage in list(self.begun):
            self._close(storage, "", None)
        found = sorted(self.done, key=lambda item: (item.begin, item.storage))
        for entry in found:
            self.tape.write(entry)
        if not any(isinstance(item, DeviceProbe) and item.used for item in self.tape.observers):
            self._write_peaks(found)
        self.done.clear()

    def _write_peaks(self, allocations: list[Allocation]) -> None:
        """Write the peak of live bytes during each op, autograd node and module call."""
        changes = [0] * (self.moment + 1)
        for item in allocations:
            changes[item.begin] += item.bytes
            if item.end is not None:
                changes[item.end] -= item.bytes
        live = Peaks(list(itertools.accumulate(changes)))
        for place, (first, last) in self.windows.items():
            self.tape.write(Measured(BYTES_PEAK, place, live.between(first, last)))


class Peaks:
    """The maxima of ranges of *numbers*, also of many long ones: of blocks they are known."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers, self.length = numbers, math.isqrt(len(numbers)) or 1
        starts = range(0, len(numbers), self.length)
        self.of_blocks = [max(numbers[start : start + self.length]) for start in starts]

    def between(self, first: int, last: int) -> int:
        """The maximum from index *first* to *last*, both included."""
        begin, end = -(-first // self.length), (last + 1) // self.length  # whole blocks
        if begin >= end:
            return max(self.numbers[first : last + 1])
        before = self.numbers[first : begin * self.length]
        after = self.numbers[end * self.length : last + 1]
        return max([*before, *self.of_blocks[begin:end], *after])


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in the arguments or results of an operator."""
    if isinstance(value, Tensor):
        return [value]
    if not isinstance(value, (tuple, list, type({}.values()))):
        return []
    tensors: list[Tensor] = []
    for item in value:
        if isinstance(item, Tensor):
            tensors.append(item)
        elif isinstance(item, (tuple, list)):
            tensors.extend(inner for inner in item if isinstance(inner, Tensor))
    return tensors


def _name(func: Any) -> str:
    schema = getattr(func, "_schema", None)
    return schema.name if schema is not None else ""


def _returns_aliases(func: Any) -> bool:
    """Whether results of *func* alias its arguments: views, and in-place operators."""
    schema = getattr(func, "_schema", None)
    if schema is None or schema.name in _ADOPTS:
        return False
    return any(item.alias_info is not None for item in schema.returns)
