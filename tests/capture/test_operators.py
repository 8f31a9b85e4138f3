"""Operators between tensors and numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torchrecorder import record


@pytest.mark.parametrize(
    ("run", "number"),
    [
        (lambda x: x / 2, "other"),
        (lambda x: 2 / x, "self"),
        (lambda x: 2**x, "self"),
        (lambda x: x // 2, "other"),
        (lambda x: 2 // x, "self"),
        (lambda x: x % 2, "other"),
        (lambda x: 2 % x, "self"),
    ],
)
def test_on_which_side_a_number_stands(
    run: Callable[[torch.Tensor], torch.Tensor], number: str
) -> None:
    """A tensor on the right is the other argument, the number the first."""
    op = next(iter(record(run, torch.rand(2)).ops.values()))
    assert op.arguments == ((number, "2"),)
    assert [slot.name for slot in op.inputs] == ["self" if number == "other" else "other"]
