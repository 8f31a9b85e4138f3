"""Job: a random program of several processes as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hypothesis import strategies as st

from tests.generated.program import Step, steps_of
from tests.generated.ranks.statements import KINDS

NAMES = ("pp", "dp", "tp")
"""The mesh dimensions of a job, of which it has one to three."""


@dataclass(frozen=True)
class Job:
    """A program that each rank of a device mesh runs, with a backward pass at its end.

    Attributes:
        steps: Its statements.
        sizes: Of the mesh dimensions.
        averages: Gradients of parameters are averaged by hand after the backward pass.
        updates: An optimizer updates the parameters in the end.
    """

    steps: tuple[Step, ...] = ()
    sizes: tuple[int, ...] = (2,)
    averages: bool = False
    updates: bool = False

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes by name."""
        return dict(zip(NAMES, self.sizes))

    @property
    def world(self) -> int:
        """The number of ranks."""
        return prod(self.sizes)


_SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple).filter(
    lambda sizes: prod(sizes) <= 8
)

JOBS = st.builds(Job, steps_of(KINDS, 5, 2), _SIZES, st.booleans(), st.booleans())
"""Random jobs."""
