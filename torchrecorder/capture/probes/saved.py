"""SavedTensors: the bytes that each grad node keeps for backward.

Right after a node is met, what it saved is looked at through its ``_raw_saved_*``
attributes. Hooks on saved tensors would tell as much, but with them PyTorch leaves out
its check for tensors modified in place: the run would no longer be the same. What hooks
of the user's have packed away (checkpointing does, offloading does) is not kept by the
node, and is not counted. Memory counts once, at the first node that keeps it, with all
that its storage holds; the memory of parameters does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, UntypedStorage
from torch.nn import Parameter

from torchrecorder.capture.internals.access import saved_attributes, without_dispatch_modes
from torchrecorder.events import BYTES_SAVED, GradId, Measured, OpId, Role, ScopeEntered, ScopeKind

if TYPE_CHECKING:
    from types import FrameType

    from torchrecorder.capture.tape import Tape
    from torchrecorder.capture.tensors.tensor_table import Values

_NARROW = {
    torch.float64: torch.float16,
    torch.int64: torch.int8,
    torch.complex128: torch.complex64,
}
"""Types of wrapped numbers, and narrower ones of the same kind."""


class SavedTensors:
    """Sums up what grad nodes keep, as they are met."""

    def __init__(self, tape: Tape, values: Values) -> None:
        self.tape = tape
        self.values = values
        self._attributes: dict[type, tuple[str, ...]] = {}
        self._kept: dict[int, Any] = {}  # weak references, which keep the addresses taken
        self._named = 0

    def met(self, grad: GradId, owner: OpId, node: Any) -> None:
        """A node was met: note what it keeps that no other node keeps."""
        try:
            amount = 0
            for item in self._saved(node):
                amount += self._bytes(item)
        except Exception as error:
            self.tape.lose("saved", error)
            return
        if amount:
            self.tape.write(Measured(BYTES_SAVED, grad, amount))

    def entered(self, event: ScopeEntered, frame: FrameType) -> None:
        """A checkpointed call keeps its arguments instead of what is made inside."""
        if event.kind is not ScopeKind.CHECKPOINT or not torch.is_grad_enabled():
            return
        found = frame.f_locals
        if found.get("use_reentrant") is not False:
            return  # those are kept by a custom function, which has a node
        tensors = [item for item in found.get("args", ()) if isinstance(item, Tensor)]
        amount = sum(self._bytes(tensor) for tensor in tensors)
        if amount:
            self.tape.write(Measured(BYTES_SAVED, event.scope, amount))

    def _saved(self, node: Any) -> list[Tensor]:
        """The tensors that *node* itself keeps."""
        names = self._attributes.get(type(node))
        if names is None:
            names = saved_attributes(node)
            self._attributes[type(node)] = names
        found: list[Tensor] = []
        for name in names:
            saved = getattr(node, name)
            for entry in saved if isinstance(saved, (tuple, list)) else (saved,):
                if entry is not None and entry.unpack_hook is None:
                    found.append(entry.data)
        return [item for item in found if isinstance(item, Tensor) and not _is_number(item)]

    def _bytes(self, tensor: Tensor) -> int:
        """The memory behind *tensor*, if it has not been counted."""
        if tensor.layout is torch.sparse_coo:
            return self._bytes(tensor._indices()) + self._bytes(tensor._values())
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a wrapper without memory of its own
            return 0
        if len(self.values.named) != self._named:
            self._learn_parameters()
        counted = self._keep(storage)
        if counted or _is_parameter(tensor) or _is_parameter(tensor._base):
            return 0
        return storage.nbytes()

    def _keep(self, storage: UntypedStorage) -> bool:
        """Count the memory of *storage* as known; whether it was."""
        address = storage._cdata
        if address in self._kept:
            return True
        self._kept[address] = storage._weak_ref()
        return False

    def _learn_parameters(self) -> None:
        """The memory of the model's parameters counts as known."""
        named = self.values.named
        self._named = len(named)
        for reference, role, _ in list(named.values()):
            tensor = reference()
            if role is Role.PARAMETER and tensor is not None:
                try:
                    storage = tensor.untyped_storage()
                except (NotImplementedError, RuntimeError, ValueError):  # ValueError: it is lazy
                    continue
                self._keep(storage)

    def __del__(self) -> None:
        for reference in self._kept.values():
            UntypedStorage._free_weak_ref(reference)


def _is_parameter(tensor: Tensor | None) -> bool:
    """Whether *tensor* is a parameter; a plain tensor need not be asked, which takes long."""
    return tensor is not None and type(tensor) is not Tensor and isinstance(tensor, Parameter)


def _is_number(tensor: Tensor) -> bool:
    """Whether *tensor* is a Python number that PyTorch wrapped: it gives way in promotion."""
    narrow = _NARROW.get(tensor.dtype)
    if narrow is None or tensor.dim():
        return False
    with without_dispatch_modes():
        return torch.result_type(tensor, torch.zeros((), dtype=narrow)) == narrow
