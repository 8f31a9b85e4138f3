"""Retained tensors: the tensors of ``keep=``; they are not saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torchrecorder.checks import guess
from torchrecorder.errors import NotKept
from torchrecorder.events import GradId


class Replay(Protocol):
    """The autograd nodes of a run and the gradients that they received; see `ReplayProbe`."""

    def given(self, grad: GradId) -> tuple[Any, ...]:
        """The gradients that the node *grad* received."""

    def run(self, grad: GradId, given: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """Run the node *grad* again, on the gradients that it received or on those *given*."""


class Tensors(Mapping[str, Any]):
    """Tensors by the dotted path of their scope, or by the name of their operation.

    For a scope that was called once: its output, a tensor or a mapping of several by name. For one
    that was called more than once: a list with the output of each call.
    """

    def __init__(self, calls: Mapping[str, list[Any]]) -> None:
        self._calls = calls

    def __getitem__(self, path: str) -> Any:
        if not isinstance(path, str) or path not in self._calls:
            kept = ", ".join(map(repr, self._calls)) or "nothing; files hold no tensors"
            close = guess(path, self._calls) or f": record with keep=[{path!r}]."
            raise NotKept(f"no tensors were kept for {path!r}{close} Kept: {kept}")
        calls = self._calls[path]
        return calls[0] if len(calls) == 1 else list(calls)

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"<tensors of {', '.join(self._calls) or 'nothing'}>"


@dataclass(frozen=True)
class Kept:
    """Tensors and autograd nodes that are kept after the run.

    Attributes:
        activations: Copies of the outputs of scopes and operations.
        gradients: Copies of their gradients, after the last backward run.
        replay: Grad nodes to run again.
    """

    activations: Tensors = field(default_factory=lambda: Tensors({}))
    gradients: Tensors = field(default_factory=lambda: Tensors({}))
    replay: Replay | None = None
