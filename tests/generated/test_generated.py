"""Generated models and training programs: all that is promised holds for what nobody wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings, strategies as st

from tests.generated import checks
from tests.generated.program import PROGRAMS
from tests.generated.shrink import Check
from tests.generated.training import checks as training
from tests.generated.training.program import TRAININGS

KINDS = {"models": (PROGRAMS, checks.check, 40), "training": (TRAININGS, training.check, 30)}
"""Programs, what is checked of each, and how many are tried in each part; ``python -m
tests.generated`` tries thousands."""

PARTS = [*(("models", part) for part in range(4)), *(("training", part) for part in range(2))]


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_generated(kind: str, part: int) -> None:
    """The same programs each time."""
    programs: st.SearchStrategy[Any]
    check: Check
    programs, check, examples = KINDS[kind]

    @seed(part)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs)
    def holds(program: Any) -> None:
        check(program)

    holds()
