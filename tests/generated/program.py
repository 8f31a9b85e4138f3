"""Program: a random model as plain data, small enough to read when it breaks something.

A program is a tree of steps. Each step names what it does (see `tests.generated.steps`), which
of the tensors made so far it takes, and what it does inside. Printed, it is Python that makes
it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.generated.steps import STEPS
from tests.generated.steps.kind import Kind

RESULTS = ("last", "tuple", "dict", "nested", "dataclass", "everything", "input")
"""What a program can return."""


@dataclass(frozen=True)
class Step:
    """One thing that a model does.

    Attributes:
        kind: A name in ``STEPS``.
        one: Which tensor it takes, counted back from the latest.
        other: Which second tensor or variant it takes.
        body: The steps of the block inside.
        variant: What it does more, see `tests.generated.edits.variants`; empty for nothing.
    """

    kind: str
    one: int = 0
    other: int = 0
    body: tuple[Step, ...] = ()
    variant: str = ""


@dataclass(frozen=True)
class Program:
    """A model with its inputs.

    Attributes:
        steps: What its outermost module does.
        result: How it returns its tensors.
        train: It is in training mode.
        grad: Its inputs require gradients.
        seed: Of its weights and inputs.
    """

    steps: tuple[Step, ...] = ()
    result: str = "last"
    train: bool = False
    grad: bool = True
    seed: int = 0

    @property
    def kinds(self) -> set[str]:
        """Every kind of step in it, at any depth."""
        return kinds_in(self.steps)


def kinds_in(steps: Iterable[Step]) -> set[str]:
    """Every kind of step among *steps* and inside of them."""
    found: set[str] = set()
    for step in steps:
        found |= {step.kind} | kinds_in(step.body)
    return found


def steps_of(
    kinds: Mapping[str, Kind], length: int, depth: int
) -> st.SearchStrategy[tuple[Step, ...]]:
    """At most *length* steps of these *kinds*, nested at most *depth* deep."""
    number = st.integers(0, 5)
    plain = [name for name, kind in kinds.items() if not kind.block]
    step = st.builds(Step, st.sampled_from(plain), number, number)
    if depth:
        around = [name for name, kind in kinds.items() if kind.block]
        inside = steps_of(kinds, 3, depth - 1)
        step |= st.builds(Step, st.sampled_from(around), number, number, inside)
    return st.lists(step, min_size=1, max_size=length).map(tuple)


PROGRAMS = st.builds(
    Program, steps_of(STEPS, 6, 2), st.sampled_from(RESULTS), st.booleans(), st.booleans(),
    st.integers(0, 3),
)
"""Random programs."""
