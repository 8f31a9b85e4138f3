"""Lines: the changes of a comparison as lines of text, where equal ones share a line."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence

from torchrecorder.checks import plural
from torchrecorder.comparison.display_names import AROUND, INDEX
from torchrecorder.comparison.kinds import ALONE, Change, ChangeKind
from torchrecorder.events import STORED, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.style import labels

MAX_RANGE = 48
"""The maximum number of characters of a range of names."""

WEIGHTS = (ChangeKind.FROZEN, ChangeKind.UNFROZEN)
"""Kinds of differences of weights that are counted in one line."""

RESULTS, SIZED_WEIGHTS = "because of their inputs", "because of their modules"
"""The texts for results and weights of several forms that follow from other differences."""

READERS = "because of what was added or removed before them"
"""The same for what reads another tensor."""

MAX_FORMS = {RESULTS: 1, SIZED_WEIGHTS: 3, READERS: 3}
"""How many different texts about them have lines of their own."""

COUNT = re.compile(r"(?<=\(call )\d+(?=\))|(?<= #)\d+$")
"""The number of a call of a module, or of an operation among those of its name."""


def lines(
    changes: Sequence[Change], after: RecordedRun
) -> Iterator[tuple[ChangeKind, str, str]]:
    """One line for all equal changes, at the position of the first: their kind, places and text."""
    causes = _causes(changes, after)
    groups = grouped((_key(change, causes), change) for change in changes)
    for first, *others in groups.values():
        places, what = [change.where for change in (first, *others)], _what(first)
        if first.kind in WEIGHTS:
            what = _share(len(places), after)
        elif first.kind is ChangeKind.RENAMED and any(one.text != first.text for one in others):
            former = (change.text.removeprefix("was ") for change in (first, *others))
            what = f"was {_names(list(former))}"
        elif first in causes and others:
            what = causes[first]
        yield first.kind, _names(places), what if what != first.where.rpartition(": ")[2] else ""


def _causes(changes: Sequence[Change], after: RecordedRun) -> Mapping[Change, str]:
    """Changes that follow from others and have many forms, and the texts about their cause."""
    found: dict[str, list[Change]] = {cause: [] for cause in MAX_FORMS}
    for change in changes:
        if change.follows:
            found[_cause(change, after)].append(change)
    return {
        change: cause for cause, follow in found.items()
        if len({_relative(change.text, change.where) for change in follow}) > MAX_FORMS[cause]
        for change in follow
    }


def _cause(change: Change, after: RecordedRun) -> str:
    if change.kind is ChangeKind.REWIRED:
        return READERS
    value = after.values.get(ValueId(change.after or ""))
    return SIZED_WEIGHTS if value is not None and value.role in STORED else RESULTS


def _key(change: Change, causes: Mapping[Change, str]) -> Hashable:
    """Equal for changes that share a line."""
    if change.kind in WEIGHTS:
        return change.kind
    if change in causes:
        return change.kind, causes[change]
    if change.kind is ChangeKind.RENAMED:
        return change.kind, INDEX.sub("0", change.where), without_numbers(change.text)
    if change.kind is ChangeKind.REWIRED:
        return change.kind, _relative(change.text, change.where)
    if change.kind in ALONE and change.text and not change.text.startswith(AROUND):
        return change.kind, _in_any_block(change.where), change.text
    return change.kind, change.text or COUNT.sub("0", _what(change))


def _in_any_block(where: str) -> str:
    """A place with 0 for indices and numbers of calls, and in the names of modules around it."""
    around, dot, name = _path(where).rpartition(".")
    rest = COUNT.sub("0", where.removeprefix(f"{around}{dot}"))
    return INDEX.sub("0", f"{re.sub('[0-9]+', '0', around)}{dot}{rest}")


def _relative(text: str, where: str) -> str:
    """A text without the paths of the module *where* and of the one around it."""
    path = _path(where)
    names = filter(None, (path, path.rpartition(".")[0]))
    return re.sub(rf"(?<![\w.])({'|'.join(map(re.escape, names))})[.:] ?", "", text)


def _what(change: Change) -> str:
    return change.text or change.where.rpartition(": ")[2]


def _share(number: int, after: RecordedRun) -> str:
    """*60 of 62 parameters*."""
    modules = after.modules.values()
    total = len({slot.value for module in modules for slot in module.parameters})
    counted = plural(total, "parameter")
    return f"all {counted}" if number == total > 1 else f"{number} of {counted}"


def _names(places: Sequence[str]) -> str:
    """*layers.0 … layers.3* for places that differ in indices, *fc and 3 more* for others."""
    names = tuple(dict.fromkeys(map(_path, places)))
    patterns = {INDEX.sub("0", place) for place in places}
    if len(places) == 1:
        return places[0]
    if len(patterns) == 1 and len(names) == len(places):
        text = places[0].replace(_path(places[0]), labels.names(names), 1)
        if len(text) <= MAX_RANGE:
            return text
    return f"{places[0]} and {len(places) - 1} more"


def _path(place: str) -> str:
    """The path of a module, without its class and without the operation in it."""
    return re.split(": | \\(", place)[0]
