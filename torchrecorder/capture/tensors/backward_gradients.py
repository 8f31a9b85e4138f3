"""BackwardGradients: which backward pass left which gradient."""

from __future__ import annotations

import sys
import weakref

from torch import Tensor

from torchrecorder.events import GRAD_SUFFIX, OpId, ValueId, names_gradient


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
