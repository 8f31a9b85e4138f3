"""Cleared gradients: leaves whose ``grad`` a post-accumulate-grad hook sets to None.

An example is an optimizer that runs for each parameter as soon as its gradient has arrived. The
leaves that have such hooks are looked at when the pass ends.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from torch import Tensor

from torchrecorder.capture.internals.engine import post_accumulate_hooks
from torchrecorder.capture.modes.python_functions import unwrapped
from torchrecorder.events import GradId, Slot, ValueId

HookedLeaf = tuple[GradId, "weakref.ref[Tensor]", str]
"""The accumulation node of a leaf, the leaf, and the hooks of the leaf in words."""


class HookedLeaves:
    """The leaves of one backward pass that have post-accumulate-grad hooks."""

    def __init__(self, file: Callable[[str], str | None]) -> None:
        self.file = file
        self.ran: set[GradId] = set()  # nodes of the pass
        self._found: list[HookedLeaf] = []

    def add(self, grad: GradId, node: Any) -> None:
        """Add the leaf of the accumulation *node*, called *grad*, if it has hooks."""
        leaf = node.variable
        hooks = post_accumulate_hooks(leaf)
        if hooks:
            words = " or ".join(dict.fromkeys(map(self._words, hooks)))
            self._found.append((grad, weakref.ref(leaf), words))

    def cleared(self, value: Callable[[Tensor], ValueId | None]) -> tuple[Slot, ...]:
        """The leaves whose node ran and that have no ``grad``: each *value*, with the hooks."""
        found = []
        for grad, ref, words in self._found:
            leaf = ref() if grad in self.ran else None
            known = value(leaf) if leaf is not None and leaf.grad is None else None
            if known is not None:
                found.append(Slot(words, known))
        return tuple(found)

    def _words(self, hook: Any) -> str:
        """The name of *hook*, with its file and first line if the program defines it."""
        while isinstance(hook, functools.partial):
            hook = hook.func
        function = hook if hasattr(hook, "__name__") else type(hook).__call__
        code = getattr(unwrapped(function), "__code__", None)
        name = getattr(hook, "__name__", type(hook).__name__)
        file = self.file(code.co_filename) if isinstance(code, CodeType) else None
        return f"{name}() at {file}:{code.co_firstlineno}" if file and code else f"{name}()"
