"""Numbers: every annotation that has something to say, for every place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Union

from torchrecorder.annotations import ANNOTATIONS
from torchrecorder.annotations.amounts import exact, of_bytes, of_flops, of_seconds
from torchrecorder.annotations.annotation import Annotation, Numbers
from torchrecorder.annotations.registry import by_name
from torchrecorder.annotations.owned import Owned
from torchrecorder.annotations.statistics import number, share
from torchrecorder.graph.recording import Recording
from torchrecorder.style.style import Style

FORMATS: Mapping[Callable[[float], str], str] = {
    exact: "exact",
    of_bytes: "bytes",
    of_seconds: "seconds",
    of_flops: "flops",
    number: "number",
    share: "share",
}
"""How the page prints what we print so."""

Column = list[Union[float, None]]


def columns(
    recording: Recording,
    members: Sequence[Sequence[str]],
    style: Style,
    strings: Callable[[str], int],
    *,
    times: bool,
) -> list[dict[str, Any]]:
    """One entry for each annotation that any of the places has.

    Args:
        recording: Where the numbers come from.
        members: For each place, what it stands for.
        style: Brings annotations of the user's own.
        strings: Gives the number of a text.
        times: Whether measured times are among them.
    """
    chosen = [each for each in _chosen(style) if times or each.unit != "s"]
    computed = [(each, found) for each in chosen if (found := each.on(recording).by_node)]
    values = _values(recording, members, computed)
    entries = [
        _entry(each, column, strings)
        for (each, _), column in zip(computed, values)
        if any(value is not None for value in column)
    ]
    owned, by_key = Owned(recording), {each["key"]: each for each in entries}
    for each, found in computed:
        if each.passes and each.name in by_key:
            told = Numbers(each, found, owned)
            by_key[each.name]["texts"] = [_text(told.text(inside), strings) for inside in members]
    return entries


def _text(said: str, strings: Callable[[str], int]) -> int:
    return strings(said) if said else -1


def _chosen(style: Style) -> Iterator[Annotation]:
    """Ours, then those of the user."""
    yield from ANNOTATIONS
    known = {each.name for each in ANNOTATIONS}
    for wanted in (style.color_by, *style.numbers):
        found = by_name(wanted) if isinstance(wanted, str) else wanted
        if found is not None and found.name not in known:
            known.add(found.name)
            yield found


def _values(
    recording: Recording,
    members: Sequence[Sequence[str]],
    computed: Sequence[tuple[Annotation, Mapping[str, float]]],
) -> list[Column]:
    owned = Owned(recording)
    values: list[Column] = [[] for _ in computed]
    for inside in members:
        within = owned.within(inside)
        for column, (annotation, found) in zip(values, computed):
            column.append(_one(annotation, [found[each] for each in within if each in found]))
    return values


def _one(annotation: Annotation, found: list[float]) -> float | None:
    if len(found) > 1:
        found = [annotation.merge(found)] if annotation.merge is not None else []
    return _short(found[0]) if found and isfinite(found[0]) else None


def _short(value: float) -> float:
    """Whole numbers in full, others in four digits."""
    if value == int(value):
        return int(value)
    return float(f"{value:.4g}")


def _entry(
    annotation: Annotation, column: Column, strings: Callable[[str], int]
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "key": annotation.name,
        "title": annotation.title,
        "unit": annotation.unit,
        "format": FORMATS.get(annotation.show, "text"),
        "log": int(annotation.logarithmic),
        "sum": int(annotation.merge is sum),
        "values": column,
    }
    if entry["format"] == "text":
        texts = ("" if each is None else annotation.show(each) for each in column)
        entry["texts"] = [_text(each, strings) for each in texts]
    return entry
