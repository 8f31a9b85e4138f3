"""Trials: what a PyTorch does, where its names do not tell."""

from __future__ import annotations

from typing import Any

import torch


def creates_contexts() -> bool:
    """Whether PyTorch tells of a custom function that is applied: by its frame, or its context."""
    if hasattr(torch.autograd.Function.apply, "__code__"):
        return True
    created = []

    class Context(torch.autograd.function.BackwardCFunction):
        def __init__(self) -> None:
            created.append(self)

    class Trial(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any) -> None:
            """Nothing."""

    Trial._backward_cls = Context
    Trial.apply()  # type: ignore[no-untyped-call]
    return bool(created)
