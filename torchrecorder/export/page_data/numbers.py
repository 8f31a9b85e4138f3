"""Numbers: each annotation that has numbers, for every place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import isfinite
from typing import Any

from torchrecorder.annotations import ANNOTATIONS, by_name
from torchrecorder.annotations.amounts import exact, of_bytes, of_flops, of_seconds
from torchrecorder.annotations.annotation import Annotation, Numbers
from torchrecorder.annotations.parameter_owners import ParameterOwners, Whole
from torchrecorder.annotations.statistics import number, share
from torchrecorder.events import STORED
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.style import Style

FORMATS: Mapping[Callable[[float], str], str] = {
    exact: "exact",
    of_bytes: "bytes",
    of_seconds: "seconds",
    of_flops: "flops",
    number: "number",
    share: "share",
}
"""The name of each number format in the page."""

AT_ONCE = 1000
"""The number of places whose members are in memory together."""


def columns(
    recording: RecordedRun,
    members: Sequence[Sequence[str]],
    counts: Sequence[int],
    style: Style,
    strings: Callable[[str], int],
    *,
    outer: Sequence[int],
    calls: Mapping[str, Sequence[str]],
    times: bool,
) -> list[dict[str, Any]]:
    """One entry for each annotation with a number for any place.

    Args:
        recording: The recording with the numbers.
        members: For each place, the recorded nodes that it stands for, those of the places inside
            it included.
        counts: The number of siblings that each place stands for; 1 if it is no fold.
        style: The style, which may name annotations of the user.
        strings: Returns the index of a text.
        outer: The places that are in no other.
        calls: The members of the calls of each class.
        times: Whether measured times are included.
    """
    chosen = (item.on(recording) for item in _chosen(style) if times or item.unit != "s")
    found = [_NumberColumn(numbers) for numbers in chosen if numbers.by_node]
    owned = ParameterOwners(recording)
    for start in range(0, len(members), AT_ONCE):
        places = slice(start, start + AT_ONCE)
        wholes = [*map(owned.within, members[places])]  # once for all annotations
        for column in found:
            column.add(wholes, counts[places])
    every = owned.within(chain.from_iterable(members[place] for place in outer))
    kept = {value.id for value in recording.values.values() if value.role in STORED}
    for column in found:
        column.total = _shown(column.numbers.of_each([every])[0])
        if kept.issuperset(column.numbers.by_node):
            sums = {cls: column.numbers.of(inside) for cls, inside in calls.items()}
            column.by_class = {cls: number for cls, number in sums.items() if number is not None}
    return [
        column.entry(strings) for column in found
        if any(value is not None for value in column.values)
    ]


def _chosen(style: Style) -> Iterator[Annotation]:
    """The annotations of this package, then user-defined ones."""
    yield from ANNOTATIONS
    known = {annotation.name for annotation in ANNOTATIONS}
    for wanted in (style.color_by, *style.numbers):
        found = by_name(wanted) if isinstance(wanted, str) else wanted
        if found is not None and found.name not in known:
            known.add(found.name)
            yield found


@lru_cache(maxsize=4096)
def _shown(value: float | None) -> float | None:
    """Integers in full, other numbers with four digits; None for NaN and infinity."""
    if value is None or not isfinite(value):
        return None
    return int(value) if value == int(value) else float(f"{value:.4g}")


class _NumberColumn:
    """The number of each place, and the folds whose number is the mean of their siblings.

    Attributes:
        total: The number of all places together, in which nothing counts twice.
        by_class: The same of all calls of each class, if it is a number of weights: their sum would
            count a weight in each call.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.annotation = numbers.annotation
        self.values: list[float | None] = []
        self.means: list[int] = []
        self.texts: list[str] = []
        self.total: float | None = None
        self.by_class: dict[str, float] = {}

    def add(self, places: Sequence[Whole], counts: Sequence[int]) -> None:
        """Add places with these nodes, each of which stands for a *count* of siblings."""
        start, amounts = len(self.values), self.numbers.of_each(places)
        for at, count in enumerate(counts):
            if count > 1 and amounts[at] is None:
                amounts[at] = self.numbers.mean(places[at], count)
                self.means += [start + at] if amounts[at] is not None else []
        self.values += map(_shown, amounts)
        if self.annotation.passes:
            self.texts += map(self.numbers.text, places)

    def entry(self, strings: Callable[[str], int]) -> dict[str, Any]:
        """The column for the page."""
        form, texts = FORMATS.get(self.annotation.show, "text"), self.texts
        if form == "text" and not texts:
            texts = ["" if one is None else self.annotation.show(one) for one in self.values]
        numbers = [strings(text) if text else -1 for text in texts]
        return {
            "key": self.annotation.name,
            "title": self.annotation.title,
            "format": form,
            "log": int(self.annotation.logarithmic),
            "sum": int(self.annotation.merge is sum),
            "total": self.total,
            "classes": [[strings(cls), number] for cls, number in self.by_class.items()],
            "means": self.means,
            "values": self.values,
            **({"texts": numbers} if numbers else {}),
        }
