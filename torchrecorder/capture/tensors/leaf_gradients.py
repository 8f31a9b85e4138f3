"""LeafGradients: which backward pass left the gradient of each leaf."""

from __future__ import annotations

from torchrecorder.events import GRAD_SUFFIX, OpId, ValueId


class LeafGradients:
    """Which backward pass left the gradient of each leaf.

    Attributes:
        last: The last pass that began.
        left: For each leaf behind a pass, the last such pass.
    """

    def __init__(self) -> None:
        self.last: OpId | None = None
        self.left: dict[ValueId, OpId] = {}

    def of(self, leaf: ValueId) -> OpId | None:
        """The pass that wrote the gradient of *leaf*."""
        return self.left.get(leaf, self.last)

    def named(self, names: tuple[str, ...]) -> OpId | None:
        """The pass that wrote the gradient with these *names*; None if it is not from the run."""
        if self.last is None or not names or not names[0].endswith(GRAD_SUFFIX):
            return None
        return self.of(ValueId(names[0].removesuffix(GRAD_SUFFIX)))
