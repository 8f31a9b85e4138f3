"""LeafGradients: which backward pass left the gradient of each leaf."""

from __future__ import annotations

from torchrecorder.events import OpId, ValueId

SUFFIX = ".grad"
"""What the name of a gradient ends with; before it stands the value of the leaf."""


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
        """The pass that left the gradient of *leaf*."""
        return self.left.get(leaf, self.last)

    def named(self, names: tuple[str, ...]) -> OpId | None:
        """The pass that left what has these *names*; None if it is no gradient of the run."""
        if self.last is None or not names or not names[0].endswith(SUFFIX):
            return None
        return self.of(ValueId(names[0].removesuffix(SUFFIX)))
