"""Generated models: recording, inertness, replay and drawing hold for models nobody wrote."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.generated.checks import check
from tests.generated.program import PROGRAMS, Program
from tests.generated.training import checks
from tests.generated.training.program import TRAININGS, Training

EXAMPLES, TRAINING_EXAMPLES = 40, 30
"""For each part; ``python -m tests.generated`` tries thousands."""


@pytest.mark.parametrize("part", range(4))
def test_generated(part: int) -> None:
    """Everything that is promised holds for random models, the same each time."""

    @seed(part)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(PROGRAMS)
    def holds(program: Program) -> None:
        check(program)

    holds()


@pytest.mark.parametrize("part", range(2))
def test_generated_training(part: int) -> None:
    """Also for random training programs, whose gradients and updates are as autograd has them."""

    @seed(part)
    @settings(
        max_examples=TRAINING_EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(TRAININGS)
    def holds(program: Training) -> None:
        checks.check(program)

    holds()
