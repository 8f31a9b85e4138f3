"""Numbers: the measured numbers of two recordings, and their differences.

Counts, bytes and FLOPs are compared exactly. Times and statistics vary between runs: they differ if
their ratio is above a factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Union

from torchrecorder.annotations import ANNOTATIONS, by_name, numbers_of
from torchrecorder.annotations.annotation import Annotation, is_unmeasured
from torchrecorder.annotations.results import ranked
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.checks import ABOVE_0, TEXTS, Check, check_one
from torchrecorder.comparison.match import Matching
from torchrecorder.events import ScopeId
from torchrecorder.graph.recording import RecordedRun

Wanted = Union[str, Sequence[str], Mapping[str, float]]
"""Names of annotations, or a mapping from names to the minimum factor of a difference."""

DEFAULT_FACTOR = 1.1
"""The factor for numbers that vary from run to run."""

BRIEF = ("parameters", "output_bytes", "saved_bytes", "flops", "breaks")
"""Numbers of the whole run in a short text; most others change together with these."""

NOISE = 1e-6
"""Sign changes below this magnitude are ignored."""

FACTORS = Check(
    "names of annotations, or factors of at least 1 by name, such as {'gradient_norm': 2}",
    lambda value: TEXTS.holds(value)
    or isinstance(value, Mapping)
    and all(ABOVE_0.holds(item) and item >= 1 for item in value.values()),
)


class Total(NamedTuple):
    """One number of both runs as a whole."""

    name: str
    title: str
    before: float
    after: float
    text: str  # empty where they are equal

    @property
    def described(self) -> str:
        """Its name and its change."""
        return f"{self.name}: {self.text}"

    @property
    def titled(self) -> str:
        """Its title in figures, and its change."""
        return f"{self.title}: {self.text}"


def factors(wanted: Wanted) -> dict[str, float]:
    """The minimum factor of a difference by annotation; raises for wrong names and factors."""
    check_one("numbers", wanted, FACTORS)
    if isinstance(wanted, Mapping):
        return {by_name(name).name: float(factor) for name, factor in wanted.items()}
    names = [wanted] if isinstance(wanted, str) else wanted
    return {name: 1.0 if is_exact(by_name(name)) else DEFAULT_FACTOR for name in names}


def is_exact(annotation: Annotation) -> bool:
    """Whether it is the same in every run of the same model on the same inputs."""
    return annotation.unit != "s" and not {"stats", "memory", "profile"} & {*annotation.needs}


def totals(before: RecordedRun, after: RecordedRun, wanted: Mapping[str, float]) -> Iterator[Total]:
    """Numbers of both runs as a whole: all exact ones, and the requested ones."""
    for annotation in ANNOTATIONS:
        if annotation.merge is None or annotation.discrete:
            continue
        if not (is_exact(annotation) or annotation.name in wanted):
            continue
        sides = annotation.on(before), annotation.on(after)
        if any(map(is_unmeasured, sides)):
            continue
        old, new = (side.total() for side in sides)
        yield Total(
            annotation.name,
            annotation.title,
            old,
            new,
            change_text(annotation, old, new, wanted.get(annotation.name, 1.0)),
        )


def places(
    matching: Matching, wanted: Mapping[str, float]
) -> Iterator[tuple[ScopeId, ScopeId, str]]:
    """The modules in which a number differs, by both ids; warns if a run has not measured it."""
    for name, factor in wanted.items():
        sides = numbers_of(matching.before, name), numbers_of(matching.after, name)
        if any(map(is_unmeasured, sides)):
            continue
        old, new = (
            {entry.ids[0]: entry for entry in ranked(side, ScopeMembers(side.owned.recording))}
            for side in sides
        )
        for left, right in matching.scopes.items():
            if left in old and right in new:
                annotation = sides[0].annotation
                text = change_text(annotation, old[left].number, new[right].number, factor)
                if text:
                    yield left, right, f"{name}: {text}"


def change_text(annotation: Annotation, before: float, after: float, factor: float) -> str:
    """The change of a number, ``"80 → 120 (+50 %)"``; empty without one."""
    shown = annotation.show(before), annotation.show(after)
    if shown[0] == shown[1] or not _differ(before, after, factor):
        return ""
    return f"{shown[0]} → {shown[1]}{_by_how_much(before, after)}"


def _differ(before: float, after: float, factor: float) -> bool:
    if math.isnan(before) or math.isnan(after):
        return True
    low, high = sorted((abs(before), abs(after)))
    return low < high >= low * factor or (before * after < 0 and high > NOISE)


def _by_how_much(before: float, after: float) -> str:
    if not (math.isfinite(before) and math.isfinite(after)) or before <= 0 or after <= 0:
        return ""
    share = after / before
    if not 0.1 < share < 10:
        return f" (×{share:.3g})"
    return f" ({100 * (share - 1):+.3g} %)".replace("-", "−")
