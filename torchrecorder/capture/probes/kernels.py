"""RecorderDispatchMode: the base class of the recorder's dispatch modes."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.internals.access import (
    SHOWS_OPERATORS, DisableTorchFunction, HigherOrderOperator, TorchDispatchMode,
    give_operators_rules,
)
from torchrecorder.capture.tape import Tape


class RecorderDispatchMode(TorchDispatchMode):
    """Sees the operator of every kernel, in forward and backward."""

    supports_higher_order_operators = True

    def __init__(self, tape: Tape, backward: BackwardRuns) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        _use_once()
        if not SHOWS_OPERATORS:
            give_operators_rules(type(self), type(self).run_operator)
        self.tape = tape
        self.backward = backward

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run *func* without function modes: C++ has called it, so they would not see it."""
        if isinstance(func, HigherOrderOperator):
            return func(*args, **kwargs)
        with DisableTorchFunction():
            return func(*args, **kwargs)

    def run_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a higher-order operator whose operators PyTorch does not expose."""
        return func(*args, **kwargs)


class _Plain(TorchDispatchMode):
    """A dispatch mode that only runs operators."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@functools.cache
def _use_once() -> None:
    """Enter a dispatch mode once, so that the imports of PyTorch for the first one are done.

    An exception that is caught during these imports keeps the frames around it, and their tensors,
    alive until the next garbage collection.
    """
    with _Plain():  # type: ignore[no-untyped-call]
        torch.empty(0).neg()
