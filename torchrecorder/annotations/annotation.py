"""Annotation: a number per node, computed from a recording, and how to combine several."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from numbers import Real
from statistics import fmean
from typing import Any

from torchrecorder.annotations.parameter_owners import ParameterOwners, Whole
from torchrecorder.checks import CALLABLE, FLAG, TEXT, WORD, Check, check, check_one
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import ScopeId
from torchrecorder.graph.recording import RecordedRun

TIMES, PROCESSES, JOINED = "times", "processes", "joined"
DEVICE, INDUCTOR = "device", "inductor"
"""Requirements of annotations other than flags of `record`."""


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
    "unknown": CALLABLE,
}

NUMBERS = Check(
    "a mapping from ids to numbers",
    lambda value: isinstance(value, Mapping)
    and all(isinstance(item, Real) for item in islice(value.values(), 1)),
)
"""Checks only the first number, because there may be a hundred thousand."""

MEMBERS = Check(
    "a collection of ids, such as ['s0']",
    lambda value: isinstance(value, Iterable) and not isinstance(value, str),
)


class Ratio(float):
    """A number that is a ratio, such as operations per byte; it is infinite if *below* is 0.

    Attributes:
        above: What is divided.
        below: What it is divided by.
    """

    above: float
    below: float

    def __new__(cls, above: float, below: float = 1) -> Ratio:
        found = super().__new__(cls, above / below if below else math.inf)
        found.above, found.below = above, below
        return found

    @staticmethod
    def of_sums(numbers: Iterable[float]) -> Ratio:
        """A `merge` for ratios: the sum of *above*, divided by the sum of *below*."""
        ratios = [number for number in numbers if isinstance(number, Ratio)]
        return Ratio(sum(one.above for one in ratios), sum(one.below for one in ratios))


@dataclass(frozen=True)
class Annotation:
    """A number per op, value, grad node or scope.

    Attributes:
        name: Its name, ``"output_bytes"``.
        title: The heading of its column, ``"Output"``.
        unit: The unit of its numbers; empty for plain counts.
        compute: Returns the numbers of a recording, by node id. Nodes without a number are left
            out.
        merge: Combines several numbers, for closed boxes and for tables: ``sum``, ``max``,
            `Ratio.of_sums`; it may return None. The attribute is None if numbers cannot be
            combined, such as means: then a module has the number of its output.
        show: Formats one number as short text.
        logarithmic: Whether colors use a logarithmic scale.
        needs: Flags of `record` without which it is not measured, ``("flops",)``; or one of
            `TIMES`, `PROCESSES`, `JOINED`, `DEVICE` and `INDUCTOR`.
        passes: Whether it has numbers of the forward and of the backward pass; texts name the pass.
        discrete: Whether numbers are categories; a legend lists each of them.
        unknown: Returns the ids of the nodes of a recording whose number is not known; a scope that
            contains one has no number.
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
    unknown: Callable[[Any], Collection[str]] = lambda recording: ()

    def __post_init__(self) -> None:
        check(self, CHECKS)

    def titled(self, text: str) -> str:
        """The *text* of a number with the title; alone if it has a unit of the same name."""
        says_it = self.unit in text and self.title == f"{self.unit}s"
        return text if says_it else f"{self.title} {text}"

    def on(self, recording: RecordedRun) -> Numbers:
        """The numbers of *recording*.

        Raises:
            InvalidArgument: ``compute`` returned something other than a mapping from ids to
                numbers.
        """
        found = self.compute(recording)
        check_one(f"what {self.name!r} computes", found, NUMBERS)
        nodes = recording.scopes, recording.ops, recording.values, recording.grad_nodes
        for key in islice(found, 1):
            paths = (scope.path for scope in recording.scopes.values())
            known = any(key in table for table in nodes)
            if not known and (key in recording.modules or key in paths):
                raise InvalidArgument(
                    f"what {self.name!r} computes must have ids of scopes, ops, values or grad "
                    f"nodes, not {key!r}: a module has the ids of its scopes in its calls"
                )
        return Numbers(self, found, ParameterOwners(recording))


@dataclass(frozen=True)
class Numbers:
    """The numbers of one annotation in one recording.

    Attributes:
        by_node: Numbers by node id.
        owned: Parameters and buffers by module.
    """

    annotation: Annotation
    by_node: Mapping[str, float]
    owned: ParameterOwners

    def __repr__(self) -> str:
        name, found = self.annotation.name, len(self.by_node)
        total = f", total {self.annotation.show(self.total())}" if self.by_node else ""
        total = total if self.annotation.merge is sum else ""
        return f"<{name} of {self.owned.recording.name}: {found} number{'s' * (found != 1)}{total}>"

    def of(self, members: Iterable[str]) -> float | None:
        """The combined number of *members*; None if they have none, or if one is unknown.

        A module or scope among the members includes the parameters and buffers of the module, but
        not its operations: `torchrecorder.Recording.table` has numbers of modules with all in them.
        Duplicates, such as tied parameters, count once. If numbers cannot be combined, a scope has
        its own number, else that of its first output with a number.
        """
        check_one("members", members, MEMBERS)
        return self.of_each([self.owned.within(members)])[0]

    def of_each(self, places: Sequence[Whole]) -> list[float | None]:
        """The combined number of the members of each of many places, as from `of`."""
        by_node, merged, unknown = self.by_node, self._merged, self.unknown
        found = self._counted(places)
        if unknown:
            pairs = zip(places, found)
            found = [nodes if unknown.isdisjoint(whole) else [] for whole, nodes in pairs]
        return [  # plain numbers, no `Ratio`
            (+by_node[nodes[0]] if len(nodes) == 1 else merged(nodes)) if nodes else None
            for nodes in found
        ]

    def _merged(self, nodes: Sequence[str]) -> float | None:
        merge = self.annotation.merge
        number = None if merge is None else merge([*map(self.by_node.__getitem__, nodes)])
        return None if number is None else +number

    def is_unknown(self, members: Iterable[str]) -> bool:
        """Whether one of *members* has an unknown number."""
        return bool(self.unknown) and not self.unknown.isdisjoint(self.owned.within(members))

    def all_of(self, members: Iterable[str]) -> list[float]:
        """The number of each of *members*; of the outermost scopes, if numbers cannot be combined.

        Grad nodes alone, as in the backward view, have those of the tensors whose gradients they
        receive.
        """
        [nodes] = self._counted([self.owned.within(members)])
        return [*map(self.by_node.__getitem__, nodes)]

    def _counted(self, places: Sequence[Whole]) -> list[list[str]]:
        """The nodes of each place whose numbers count."""
        has = self.by_node.__contains__
        found = [[*filter(has, whole)] for whole in places]
        return found if self.annotation.merge is not None else [*map(self._alone, places, found)]

    def _alone(self, whole: Whole, nodes: list[str]) -> list[str]:
        """Those that count if numbers cannot be combined; all *nodes* have numbers."""
        if not nodes:
            nodes = [self._received[member] for member in whole if member in self._received]
        if len(nodes) < 2:
            return nodes
        return _of_outputs(self.owned.recording, whole, nodes) or nodes

    @cached_property
    def _received(self) -> Mapping[str, str]:
        """For each grad node, the first tensor with a number whose gradient it receives."""
        found: dict[str, str] = {}
        for value in self.owned.recording.values.values():
            if value.grad is not None and value.id in self.by_node:
                found.setdefault(value.grad.grad, value.id)
        return found

    def mean(self, members: Iterable[str], count: int) -> float | None:
        """The mean of *count* siblings, if numbers cannot be combined and each sibling has one."""
        if self.annotation.merge is not None or count < 2:
            return None
        found = self.all_of(members)
        return fmean(found) if len(found) == count else None

    def text(self, members: Iterable[str]) -> str:
        """The number of *members* as text; empty where there is none."""
        if self.annotation.passes:
            return self._by_pass(tuple(members))
        number = self.of(members)
        return "" if number is None else self.annotation.show(number)

    @cached_property
    def _calls(self) -> frozenset[str]:
        """The calls of backward."""
        return frozenset(run.op for run in self.owned.recording.backward_runs)

    def _by_pass(self, members: tuple[str, ...]) -> str:
        show, recording = self.annotation.show, self.owned.recording
        calls = self._calls
        passes: tuple[list[str], list[str]] = [], []
        for member in members:
            passes[member in recording.grad_nodes or member in calls].append(member)
        forward, back = passes
        found = {"forward": self.of(forward), "backward": self.of(back)}
        parts = [f"{show(number)} {when}" for when, number in found.items() if number]
        return ", ".join(parts) or ("" if self.of(members) is None else show(0))

    @cached_property
    def unknown(self) -> frozenset[str]:
        """The nodes whose number is unknown."""
        return frozenset(self.annotation.unknown(self.owned.recording))

    def total(self) -> float:
        """The number of the whole run; 0 without numbers or without ``merge``, NaN if one of the
        numbers is unknown."""
        if self.unknown:
            return math.nan
        merge = self.annotation.merge
        total = merge(self.by_node.values()) if self.by_node and merge is not None else 0
        return 0 if total is None else total


def _of_outputs(recording: RecordedRun, inside: Collection[str], nodes: list[str]) -> list[str]:
    """For each outermost scope *inside*, itself or its first output in *nodes*; none if one has
    neither."""
    wanted = frozenset(nodes)
    scopes = (recording.scopes.get(ScopeId(item)) for item in inside)
    calls = [scope for scope in scopes if scope is not None and scope.parent not in inside]
    ways = [(call.id, *(value for _, value in call.outputs)) for call in calls]
    found = [next((node for node in way if node in wanted), None) for way in ways]
    known: list[str] = [node for node in found if node is not None]
    return known if len(known) == len(calls) else []


def measured(quantity: str) -> Callable[[RecordedRun], Mapping[str, float]]:
    """The `compute` function of an annotation whose numbers were measured in the run."""
    return lambda recording: dict(recording.measured.get(quantity, {}))


def is_unmeasured(numbers: Numbers) -> bool:
    """Whether there are no numbers because the run was recorded without the flag for them."""
    return bool(numbers.annotation.needs) and not numbers.by_node
