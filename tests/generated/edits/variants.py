"""Variants: what a step of a model does more, or in another way, with equal results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

RUNS: list[int] = []
"""The block of each run of a step with a variant, by its id; see `renew`."""


def renew() -> None:
    """Count anew."""
    RUNS.clear()


@dataclass(frozen=True)
class Variant:
    """What becomes of the result of a step.

    Attributes:
        run: Takes its submodule, or None, and the result.
        name: Of the submodule.
        part: Makes the submodule.
        around: It is given the step itself as a function, not the result.
    """

    run: Callable[[Any, Any], Any]
    name: str = ""
    part: Callable[[], nn.Module] | None = None
    around: bool = False


class Larger(nn.Module):
    """The larger of two equal tensors."""

    def forward(self, x):
        return _larger(None, x)


class Shifted(nn.Module):
    """Adds nothing, computed from a weight of *size* zeros."""

    def __init__(self, size, requires_grad=True):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size), requires_grad)

    def forward(self, x):
        return x + self.weight.sum() * 0


class Around(nn.Module):
    """Calls what it is given."""

    def forward(self, action):
        return action()


def _larger(part, x):
    return torch.fmax(x, x)


def _smaller(part, x):
    return torch.fmin(x, x)


def _both(part, x):
    larger = torch.fmax(x, x)
    return torch.fmin(larger, larger)


def _unused(part, x):
    larger = torch.fmax(x, x)
    torch.fmin(x, x)
    return larger


def _unused_before(part, x):
    torch.fmin(x, x)
    return torch.fmax(x, x)


def _by_part(part, x):
    return part(x)


def _without_grad(part, action):
    with torch.no_grad():
        return action()


VARIANTS = {
    "plain": Variant(lambda part, action: action(), around=True),
    "around": Variant(_by_part, "around", Around, around=True),
    "larger": Variant(_larger),
    "smaller": Variant(_smaller),
    "both": Variant(_both),
    "unused": Variant(_unused),
    "unused_before": Variant(_unused_before),
    "module": Variant(_by_part, "larger", Larger),
    "renamed": Variant(_by_part, "maximum", Larger),
    "narrow": Variant(_by_part, "shifted", lambda: Shifted(3)),
    "wide": Variant(_by_part, "shifted", lambda: Shifted(5)),
    "frozen": Variant(_by_part, "shifted", lambda: Shifted(5, requires_grad=False)),
    "rolled": Variant(lambda part, x: torch.roll(x, 0, 0)),
    "rolled_back": Variant(lambda part, x: torch.roll(x, 0, -1)),
}
"""Every variant by name."""


def run(block: Any, action: Callable[[], Any], name: str) -> Any:
    """The result of a step, which is *action*, with the variant of this *name*."""
    variant = VARIANTS[name]
    part = getattr(block, variant.name) if variant.part is not None else None
    if variant.around:
        RUNS.append(id(block))
        return variant.run(part, action)
    made = action()
    if not _is_usual(made):
        return made
    RUNS.append(id(block))
    return variant.run(part, made)


def _is_usual(made: Any) -> bool:
    """Whether all variants can take it."""
    usual = isinstance(made, Tensor) and made.layout is torch.strided and made.dim() > 0
    return usual and made.dtype == torch.float32 and type(made) is Tensor
