"""Annotation: a number per node that follows from a recording, and how to add it up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any

from torchrecorder.annotations.parameter_owners import Owned
from torchrecorder.checks import CALLABLE, FLAG, TEXT, WORD, Check, check, check_one
from torchrecorder.graph.recording import RecordedRun

TIMES, PROCESSES, JOINED = "times", "processes", "joined"
DEVICE, INDUCTOR = "device", "inductor"
"""Needs of annotations that are not flags of `record`."""


CHECKS: Mapping[str, Check] = {
    "name": WORD,
    "title": TEXT,
    "unit": TEXT,
    "compute": CALLABLE,
    "merge": CALLABLE.or_none(),
    "show": CALLABLE,
    "logarithmic": FLAG,
    "passes": FLAG,
    "discrete": FLAG,
}

NUMBERS = Check(
    "a mapping from ids to numbers",
    lambda value: isinstance(value, Mapping)
    and all(isinstance(item, Real) for item in islice(value.values(), 1)),
)
"""The first number stands for all: there may be a hundred thousand."""


@dataclass(frozen=True)
class Annotation:
    """A number per op, value or grad node.

    Attributes:
        name: What it is asked for by, ``"output_bytes"``.
        title: Heading of a column of it, ``"Output"``.
        unit: What is counted; empty for plain counts.
        compute: From a recording to its numbers, by node id. A node may be left out.
        merge: Several numbers into one, for closed boxes and for tables: ``sum``, ``max``.
            None where that makes no sense, as for a ratio; it may give None where it makes none
            of these numbers.
        show: One number as short text.
        logarithmic: Orders of magnitude matter: colours go by the logarithm.
        needs: Flags of `record` without which it is not measured, ``("flops",)``; or one of
            `TIMES`, `PROCESSES`, `JOINED`, `DEVICE` and `INDUCTOR`.
        passes: There are numbers of the forward and of the backward pass: texts say of which.
        discrete: Numbers are names, and nothing lies between them: a legend lists each.
    """

    name: str
    title: str
    unit: str
    compute: Callable[[Any], Mapping[str, float]]
    merge: Callable[[Iterable[float]], float | None] | None
    show: Callable[[float], str]
    logarithmic: bool = False
    needs: tuple[str, ...] = ()
    passes: bool = False
    discrete: bool = False

    def __post_init__(self) -> None:
        check(self, CHECKS)

    def on(self, recording: RecordedRun) -> Numbers:
        """The numbers of *recording*.

        Raises:
            InvalidArgument: It computes no mapping to numbers.
        """
        found = self.compute(recording)
        check_one(f"what {self.name!r} computes", found, NUMBERS)
        return Numbers(self, found, Owned(recording))


@dataclass(frozen=True, repr=False)
class Numbers:
    """The numbers of one annotation in one recording.

    Attributes:
        by_node: The number of each node that has one.
        owned: What the modules of the recording own.
    """

    annotation: Annotation
    by_node: Mapping[str, float]
    owned: Owned

    def __repr__(self) -> str:
        name, found = self.annotation.name, len(self.by_node)
        total = f", total {self.annotation.show(self.total())}" if self.by_node else ""
        total = total if self.annotation.merge is sum else ""
        return f"<{name} of {self.owned.recording.name}: {found} number{'s' * (found != 1)}{total}>"

    def of(self, members: Iterable[str]) -> float | None:
        """One number for *members* together; None if they have none, or none in common.

        A module or scope among the members brings the parameters and buffers of the
        module. What is named twice, as a tied parameter is, counts once.
        """
        found = [
            self.by_node[inner] for inner in self.owned.within(members) if inner in self.by_node
        ]
        if len(found) == 1:
            return found[0]
        merge = self.annotation.merge
        return merge(found) if found and merge is not None else None

    def text(self, members: Iterable[str]) -> str:
        """The number of *members* as text; empty where there is none."""
        if self.annotation.passes:
            return self._by_pass(tuple(members))
        number = self.of(members)
        return "" if number is None else self.annotation.show(number)

    def _by_pass(self, members: tuple[str, ...]) -> str:
        grads, show = self.owned.recording.grad_nodes, self.annotation.show
        back = [member for member in members if member in grads]
        forward = [member for member in members if member not in grads]
        found = {"forward": self.of(forward), "backward": self.of(back)}
        told = [f"{show(number)} {when}" for when, number in found.items() if number]
        return ", ".join(told) or ("" if self.of(members) is None else show(0))

    def total(self) -> float:
        """The number of the whole run; 0 where there is nothing to add up."""
        merge = self.annotation.merge
        total = merge(self.by_node.values()) if self.by_node and merge is not None else 0
        return 0 if total is None else total


def measured(quantity: str) -> Callable[[RecordedRun], Mapping[str, float]]:
    """The `compute` of an annotation whose numbers the run itself has measured."""
    return lambda recording: dict(recording.measured.get(quantity, {}))


def is_unmeasured(numbers: Numbers) -> bool:
    """Whether there are none because the run was recorded without measuring them."""
    return bool(numbers.annotation.needs) and not numbers.by_node
