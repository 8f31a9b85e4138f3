"""Training: a random training program as plain data, which prints as the Python that makes it."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.generated.program import Step
from tests.generated.training.statements import KINDS
from tests.generated.training.world import NETS, OPTIMIZERS


@dataclass(frozen=True)
class Training:
    """A program that trains two nets, ``a`` and ``b``.

    Attributes:
        steps: Its statements.
        nets: Which of ``NETS`` they are.
        optimizers: Which of ``OPTIMIZERS`` updates each of them.
        joint: The second optimizer updates both nets.
        seed: Of weights and inputs.
    """

    steps: tuple[Step, ...] = ()
    nets: tuple[int, int] = (0, 0)
    optimizers: tuple[int, int] = (0, 0)
    joint: bool = False
    seed: int = 0


def _steps(length: int, depth: int) -> st.SearchStrategy[tuple[Step, ...]]:
    number = st.integers(0, 5)
    usual = ("forward", "square_error", "backward", "step", "training_step")
    plain = [name for name in KINDS if name != "loop"]
    step = st.builds(Step, st.sampled_from(usual) | st.sampled_from(plain), number, number)
    if depth:
        step |= st.builds(Step, st.just("loop"), number, number, _steps(3, depth - 1))
    return st.lists(step, min_size=1, max_size=length).map(tuple)


def _pair(number: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(0, number - 1), st.integers(0, number - 1))


TRAININGS = st.builds(
    Training, _steps(9, 2), _pair(len(NETS)), _pair(len(OPTIMIZERS)), st.booleans(),
    st.integers(0, 3),
)
"""Random training programs."""
