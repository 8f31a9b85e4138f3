"""Merge the captions of folded siblings; numbers become ranges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from torchrecorder.events import ScopeId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import maker_of, step_of
from torchrecorder.style import labels
from torchrecorder.views.tensors import in_each, results
from torchrecorder.views.view import Arrow, View

MAX_SETTINGS = 5
"""The maximum number of merged settings."""

SQUARE = re.compile(r"\d+(×\d+)+")


def together(words: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Merge the short texts of several modules; numbers become ranges.

    Example:
        >>> together([("64 → 64", "3×3"), ("128 → 128", "3×3", "stride 2")])
        ('64 … 128 → 64 … 128', '3×3', 'stride 2 in 1 of 2')
    """
    if all(item == words[0] for item in words):
        return words[0]
    found = grouped((labels.NUMBER.sub("0", text), text) for entry in words for text in entry)
    return tuple(
        _joined(texts) + f" in {len(texts)} of {len(words)}" * (len(texts) < len(words))
        for texts in found.values()
    )[:MAX_SETTINGS]


def _joined(texts: Sequence[str]) -> str:
    """Merge several texts: sizes such as 3×3 are listed, other numbers become a range."""
    if len(set(texts)) > 1 and SQUARE.fullmatch(texts[0]):
        return labels.several(tuple(texts))
    return labels.span(texts)


def first_to_last(texts: Sequence[str]) -> str:
    """The first and last of several texts, if they differ."""
    if all(text == texts[0] for text in texts):
        return texts[0]
    return f"{texts[0]} … {texts[-1]}" if texts[0] != texts[-1] else f"{texts[0]} …"


def times(recording: RecordedRun, count: int, instances: Sequence[str]) -> str:
    """``×4``, or ``×3 … 6`` if folds of different lengths are merged."""
    around = Counter(
        recording.scopes[ScopeId(instance)].parent
        for instance in instances
        if instance in recording.scopes
    )
    low, high = min(around.values(), default=count), max(around.values(), default=count)
    return f"×{low} … {high}" if low < high == count else f"×{count}"


def same(view: View, arrow: Arrow) -> ValueId | None:
    """The output of the tail of an arrow; that of the first repeat, if it stands for several.

    Arrows through hidden boxes have the same value if the same tensor enters these boxes.
    """
    value = view.given(arrow) or arrow.value
    if value is None:
        return value
    instances = view.boxes[arrow.tail].instances
    if instances:
        return in_each(view.recording, instances, value)[0]
    return _of_first(view.recording, arrow.tail, value)


def _of_first(recording: RecordedRun, item: str, value: ValueId) -> ValueId:
    """The output of *item*, the first of equal siblings, for *value* of another one."""
    own = results(recording, item)
    if not own or value in own:
        return value
    form = _form(recording, item)
    maker = maker_of(recording, value)
    for source in (maker.id, *recording.within(maker.scope)) if maker is not None else ():
        found = results(recording, source)
        if value in found and _form(recording, source) == form and len(found) == len(own):
            return own[found.index(value)]
    return value


def _form(recording: RecordedRun, item: str) -> tuple[object, str]:
    """A key that is equal for equal siblings: the function of an op, the class of a scope."""
    step = step_of(recording, item)
    assert step is not None
    return step.kind, step.qualname if isinstance(step, Op) else step.cls


def result(recording: RecordedRun, item: str, value: ValueId | None) -> int:
    """The index of a value among the results of an op or scope; their number for others."""
    found = results(recording, item)
    return found.index(value) if value in found else len(found)
