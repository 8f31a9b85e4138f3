"""Numbers: each annotation that has numbers, for every place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from math import isfinite
from statistics import fmean
from typing import Any, Union

from torchrecorder.annotations import ANNOTATIONS
from torchrecorder.annotations.amounts import exact, of_bytes, of_flops, of_seconds
from torchrecorder.annotations.annotation import Annotation, Numbers, of_outputs
from torchrecorder.annotations.parameter_owners import (
    FunctionRead, ParameterOwners, own, without_former,
)
from torchrecorder.annotations.registry import by_name
from torchrecorder.annotations.statistics import number, share
from torchrecorder.graph.nodes import Module
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

NumberColumn = list[Union[float, None]]


def columns(
    recording: RecordedRun,
    members: Sequence[Sequence[str]],
    parents: Sequence[int],
    counts: Sequence[int],
    style: Style,
    strings: Callable[[str], int],
    *,
    times: bool,
) -> list[dict[str, Any]]:
    """One entry for each annotation with a number for any place.

    Args:
        recording: The recording with the numbers.
        members: For each place, the recorded nodes that it stands for, those of the places inside
            it included.
        parents: For each place the index of the one around it, which is smaller; -1 at the top.
        counts: The number of siblings that each place stands for; 1 if it is no fold.
        style: The style, which may name annotations of the user.
        strings: Returns the index of a text.
        times: Whether measured times are included.
    """
    chosen = [item for item in _chosen(style) if times or item.unit != "s"]
    computed = [(item, found) for item in chosen if (found := item.on(recording).by_node)]
    owned = ParameterOwners(recording)
    places = _Places(owned, members, parents, counts)
    values = [places.column(annotation, found) for annotation, found in computed]
    entries = [
        _entry(item, column, means, strings)
        for (item, _), (column, means) in zip(computed, values)
        if any(value is not None for value in column)
    ]
    by_key = {entry["key"]: entry for entry in entries}
    for element, found in computed:
        if element.passes and element.name in by_key:
            numbers = Numbers(element, found, owned)
            by_key[element.name]["texts"] = [
                _text(numbers.text(inside), strings) for inside in members
            ]
    return entries


def _text(text: str, strings: Callable[[str], int]) -> int:
    return strings(text) if text else -1


def _chosen(style: Style) -> Iterator[Annotation]:
    """The annotations of this package, then user-defined ones."""
    yield from ANNOTATIONS
    known = {annotation.name for annotation in ANNOTATIONS}
    for wanted in (style.color_by, *style.numbers):
        found = by_name(wanted) if isinstance(wanted, str) else wanted
        if found is not None and found.name not in known:
            known.add(found.name)
            yield found


class _Places:
    """Maps each scope, op, value and grad node to the places that count it."""

    def __init__(
        self,
        owners: ParameterOwners,
        members: Sequence[Sequence[str]],
        parents: Sequence[int],
        counts: Sequence[int],
    ) -> None:
        self.owners = owners
        self.recording = recording = owners.recording
        self.members, self.parents = members, parents
        if recording.former:
            self.members = [without_former(recording, inside) for inside in members]
            self.parents = [*_counted_in(recording, members, parents)]
        self.counts = counts
        self.innermost: dict[str, int] = {}
        for place, inside in enumerate(self.members):
            self.innermost.update(dict.fromkeys(inside, place))
        owned: dict[str, list[int]] = {}
        for module in recording.modules.values():
            scopes = self._calls(module) if module.stored else ()
            for value in own(module):
                owned.setdefault(value, [self.innermost.get(value, -1)]).extend(scopes)
        around = cache(self._around)  # most parameters of a module are in the same places
        self._owned = {value: around(tuple(starts)) for value, starts in owned.items()}
        reads = owners.function_reads.items()
        for read in (read for op, found in reads if op in self.innermost for read in found):
            for value in read.values:
                known = self._owned.get(value) or self._around([self.innermost.get(value, -1)])
                self._owned[value] = {**known, **self._up_to(read)}

    def column(
        self, annotation: Annotation, numbers: Mapping[str, float]
    ) -> tuple[NumberColumn, list[int]]:
        """The number of each place, and the folds whose number is the mean of their siblings."""
        if annotation.merge is sum:
            if all(map(float.is_integer, map(float, numbers.values()))):
                return self._sums({node: int(amount) for node, amount in numbers.items()}), []
            return [None if item is None else _shown(item) for item in self._sums(numbers)], []
        found: list[list[str]] = [[] for _ in self.parents]
        innermost, owned = self.innermost, self._owned
        for node in numbers:
            if node not in owned and node in innermost:
                found[innermost[node]].append(node)
        for place in reversed(range(len(found))):
            if found[place] and self.parents[place] >= 0:
                found[self.parents[place]] += found[place]
        for node in (node for node in owned if node in numbers):
            for place in owned[node]:
                found[place].append(node)
        column: NumberColumn = []
        means: list[int] = []
        received = annotation.merge is None and self.innermost.keys().isdisjoint(numbers)
        of_grads = Numbers(annotation, numbers, self.owners)
        for place, nodes in enumerate(found):
            if len(nodes) > 1 and annotation.merge is None:
                nodes = of_outputs(self.recording, self.members[place], nodes) or nodes
            amounts = [numbers[node] for node in nodes]
            if received:  # the boxes of the backward view are grad nodes
                amounts = of_grads.all_of(self.members[place])
            if annotation.merge is None and len(amounts) == self.counts[place] > 1:
                means.append(place)
                amounts = [fmean(amounts)]
            column.append(_one(annotation, amounts) if amounts else None)
        for node in annotation.unknown(self.recording):
            for place in owned.get(node) or self._around([innermost.get(node, -1)]):
                column[place] = None
        return column, means

    def _sums(self, numbers: Mapping[str, float]) -> NumberColumn:
        """The sum for each place, from the sums of the places inside it."""
        found: NumberColumn = [None] * len(self.parents)
        innermost, owned, parents = self.innermost, self._owned, self.parents
        apart = [node for node in numbers if node not in owned and node in innermost]
        for node in apart:
            found[innermost[node]] = (found[innermost[node]] or 0) + numbers[node]
        for place in reversed(range(len(found))) if apart else ():
            inner, around = found[place], parents[place]
            if inner is not None and around >= 0:
                found[around] = (found[around] or 0) + inner
        for node in (node for node in owned if node in numbers):
            for place in owned[node]:
                found[place] = (found[place] or 0) + numbers[node]
        return found

    def _up_to(self, read: FunctionRead) -> dict[int, None]:
        """The places of a function and of what is around it, up to the module around it."""
        end = self.innermost.get(read.around, -1) if read.around is not None else -1
        found, place = dict[int, None](), self.innermost.get(read.scope, -1)
        while place not in (-1, end):
            found[place] = None
            place = self.parents[place]
        return found

    def _around(self, starts: Iterable[int]) -> dict[int, None]:
        """*starts* and all places around them, without duplicates."""
        found: dict[int, None] = {}
        for place in starts:
            while place >= 0 and place not in found:
                found[place] = None
                place = self.parents[place]
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, Module]:
        modules = self.recording.modules.values()
        return {name: module for module in modules for name in module.names}

    def _calls(self, module: Module) -> list[int]:
        """The places of a module and of all modules around it, and of the calls of these."""
        owners = {module.id: module}
        paths = module.around()
        owners.update((one.id, one) for path in paths if (one := self._by_name.get(path)))
        nodes = (node for one in owners.values() for node in (one.id, *one.calls))
        return [self.innermost[node] for node in nodes if node in self.innermost]


def _counted_in(
    recording: RecordedRun, members: Sequence[Sequence[str]], parents: Sequence[int]
) -> Iterator[int]:
    """The parent of each place; -1 if only the place itself is from the first of two compared
    runs."""
    former = [bool(inside) and recording.former.issuperset(inside) for inside in members]
    for place, parent in enumerate(parents):
        yield parent if former[place] <= former[parent] else -1


def _one(annotation: Annotation, found: list[float]) -> float | None:
    if len(found) > 1:
        merged = annotation.merge(found) if annotation.merge is not None else None
        found = [] if merged is None else [merged]
    return _shown(found[0]) if found else None


def _shown(value: float) -> float | None:
    """Integers in full, other numbers with four digits; None for NaN and infinity."""
    if not isfinite(value):
        return None
    if value == int(value):
        return int(value)
    return float(f"{value:.4g}")


def _entry(
    annotation: Annotation,
    column: NumberColumn,
    means: Sequence[int],
    strings: Callable[[str], int],
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "key": annotation.name,
        "title": annotation.title,
        "format": FORMATS.get(annotation.show, "text"),
        "log": int(annotation.logarithmic),
        "sum": int(annotation.merge is sum),
        "means": means,
        "values": column,
    }
    if entry["format"] == "text":
        texts = ("" if item is None else annotation.show(item) for item in column)
        entry["texts"] = [_text(text, strings) for text in texts]
    return entry
