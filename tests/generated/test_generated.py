"""Generated programs: all that is promised holds for what nobody wrote."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.generated.kinds import KINDS
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS, FAKE_GROUPS

NUMBERS = {"models": 40, "training": 30, "ranks": 10, "compiled": 10, "edits": 15}
"""How many are tried in each part; ``python -m tests.generated`` tries thousands."""

PARTS = [
    *(("models", part) for part in range(4)),
    *(("training", part) for part in range(2)),
    *(("ranks", part) for part in range(2)),
    ("compiled", 0),
    ("edits", 0),
]


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_generated(kind: str, part: int) -> None:
    """The same programs each time."""
    if kind == "ranks" and not (COLLECTIVE_CALLS.present and FAKE_GROUPS.present):
        pytest.skip("this PyTorch cannot plan")
    if kind == "ranks" and sys.platform != "linux":
        pytest.skip("ranks run in forked processes")
    programs, check = KINDS[kind]

    @seed(part)
    @settings(
        max_examples=NUMBERS[kind],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs)
    def holds(program: Any) -> None:
        check(program)

    holds()
