"""BackwardGradients: which backward pass left which gradient."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from torch import Tensor

from torchrecorder.events import GRAD_SUFFIX, OpId, ValueId


class BackwardGradients:
    """The gradients that backward passes left: of leaves, and those that hooks kept.

    Attributes:
        last: The last pass that began.
        left: For each leaf behind a pass, the last such pass.
    """

    def __init__(self) -> None:
        self.last: OpId | None = None
        self.left: dict[ValueId, OpId] = {}
        self._kept: dict[int, tuple[weakref.ref[Tensor], OpId]] = {}

    def of(self, leaf: ValueId) -> OpId | None:
        """The pass that wrote the gradient of *leaf*."""
        return self.left.get(leaf, self.last)

    def named(self, names: tuple[str, ...]) -> OpId | None:
        """The pass that wrote the gradient with these *names*; None if it is not from the run."""
        if self.last is None or not names or not names[0].endswith(GRAD_SUFFIX):
            return None
        return self.of(ValueId(names[0].removesuffix(GRAD_SUFFIX)))

    def keep(self, gradients: Iterable[weakref.ref[Tensor]], maker: OpId) -> None:
        """Note which of the gradients that the pass *maker* computed exist after it."""
        kept = {key: known for key, known in self._kept.items() if known[0]() is not None}
        for gradient in gradients:
            tensor = gradient()
            if tensor is not None:
                kept[id(tensor)] = gradient, maker
        self._kept = kept

    def maker_of(self, tensor: Tensor) -> OpId | None:
        """The pass that computed the gradient *tensor*; None if none did, or if it is unknown."""
        known = self._kept.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def clear(self) -> None:
        """Remove all weak references."""
        self._kept.clear()
