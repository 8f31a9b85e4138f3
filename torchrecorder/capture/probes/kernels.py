"""KernelsHeard: what the dispatch modes of the recorder have in common."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from torchrecorder.capture.internals.access import (
    SHOWS_OPERATORS,
    TorchDispatchMode,
    give_operators_rules,
)

if TYPE_CHECKING:
    from torchrecorder.capture.hooks.backward import BackwardRuns
    from torchrecorder.capture.tape import Tape


class KernelsHeard(TorchDispatchMode):
    """Hears every kernel, in both directions, while it is entered."""

    supports_higher_order_operators = True

    def __init__(self, tape: Tape, backward: BackwardRuns) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        _use_once()
        if not SHOWS_OPERATORS:
            give_operators_rules(type(self), type(self).run_operator)
        self.tape = tape
        self.backward = backward

    def run_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator on functions where PyTorch does not show its inside."""
        return func(*args, **kwargs)


class _Plain(TorchDispatchMode):
    """Runs everything."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@functools.cache
def _use_once() -> None:
    """Let PyTorch import what it needs for its first dispatch mode.

    An exception that it catches while it does keeps the frames around it alive, and tensors in
    them, until the next collection of garbage.
    """
    with _Plain():  # type: ignore[no-untyped-call]
        torch.empty(0).neg()
