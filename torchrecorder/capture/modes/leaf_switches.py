"""LeafSwitches: record where the program sets ``requires_grad`` of leaf tensors.

Training loops of several models freeze one while they update another. The values of its weights
stay the same, so only these calls tell why one of two steps gave no gradients.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor

from torchrecorder.capture.hooks.source import InternalWork, Sources
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import GradSwitch, ValueId


class LeafSwitches:
    """Writes a `GradSwitch` for each call of ``requires_grad_`` that changes a leaf."""

    def __init__(self, tape: Tape, values: TensorTable, sources: Sources) -> None:
        self.tape = tape
        self.values = values
        self.sources = sources
        self._unknown: list[tuple[weakref.ref[Tensor], GradSwitch]] = []

    def run(self, func: Callable[..., Any], frame: FrameType, *args: Any, **kwargs: Any) -> Any:
        """Run *func*, which *frame* calls to set ``requires_grad``."""
        leaf, before = args[0], args[0].requires_grad
        result = func(*args, **kwargs)
        if leaf.requires_grad is not before:
            with self.tape.survives_errors("functions"):
                self._switched(leaf, frame)
        return result

    def _switched(self, leaf: Tensor, frame: FrameType) -> None:
        self.tape.pause()
        try:
            source = self.sources.walk(frame)[0]
            known = self.values.peek(leaf)
            switch = GradSwitch(
                known or ValueId(""), leaf.requires_grad, self.tape.index, source
            )
            if known is None:
                self._unknown.append((weakref.ref(leaf), switch))
            else:
                self.tape.write(switch)
        except InternalWork:
            pass
        self.tape.resume()

    def finish(self) -> None:
        """Write the switches of tensors that were read only later."""
        for ref, switch in self._unknown:
            leaf = ref()
            value = self.values.peek(leaf) if leaf is not None else None
            if value is not None:
                self.tape.write(switch._replace(value=value))
        self._unknown.clear()
