"""Kind: what one kind of step does, and what its module needs for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ROWS, COLUMNS = 2, 4
"""The shape to which `fit` brings every tensor."""


@dataclass(frozen=True)
class Kind:
    """One kind of step.

    Attributes:
        run: Takes the block, its tensors so far, and the step; what it returns is added.
        part: Makes the submodule, parameter or buffer that it uses; steps of one kind and
            variant in one block share it.
        block: It has a block inside.
        hears: An outside function mode hears what it does.
        reruns: Its calls can be made again one by one.
        reaches: All its gradients flow through the graph of the run.
        modules: Hooks at the end of a module's list see what the recorder sees.
    """

    run: Callable[[Any, list[Tensor], Any], Any]
    part: Callable[[Any], Any] | None = None
    block: bool = False
    hears: bool = True
    reruns: bool = True
    reaches: bool = True
    modules: bool = True


class Kinds(dict[str, Kind]):
    """Kinds by name, to which functions can be added by decoration."""

    def kind(self, part: Any = None, **facts: bool) -> Callable[[Any], Any]:
        """Add the decorated function as a kind of its name."""

        def add(run: Any) -> Any:
            name = run.__name__.strip("_")
            assert name not in self, name
            self[name] = Kind(run, part, **facts)
            return run

        return add


def pick(live: list[Tensor], number: int) -> Tensor:
    """A tensor made before, counted back from the latest."""
    return live[-1 - number % len(live)]


def either(number: int, *ways: Callable[[], Any]) -> Any:
    """What one of the *ways* gives."""
    return ways[number % len(ways)]()


def fit(tensor: Tensor) -> Tensor:
    """*tensor* as one of the usual shape and type; itself if it is one already."""
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype != torch.float32:
        tensor = tensor.float()
    if tensor.dim() > 2:
        tensor = tensor.squeeze()
    if tensor.numel() == ROWS * COLUMNS:
        return tensor if tensor.shape == (ROWS, COLUMNS) else tensor.reshape(ROWS, COLUMNS)
    if tensor.dim() == 1 and len(tensor) == ROWS:
        tensor = tensor[:, None]
    if tensor.dim() == 2 and tensor.shape[1] not in (1, COLUMNS):
        tensor = tensor.sum(1, keepdim=True)
    return tensor.expand(ROWS, COLUMNS)


def two(live: list[Tensor], step: Any) -> tuple[Tensor, Tensor]:
    """The two tensors that *step* takes, fitted."""
    return fit(pick(live, step.one)), fit(pick(live, step.other))


def one(live: list[Tensor], step: Any) -> Tensor:
    """The tensor that *step* takes, fitted."""
    return fit(pick(live, step.one))


def writable(live: list[Tensor], number: int) -> Tensor:
    """A floating tensor made before that may be written: a copy of a leaf with gradients."""
    found = pick(live, number)
    if found.is_leaf and found.requires_grad or not found.is_floating_point():
        found = fit(found) * 1
        live.append(found)
    return found
