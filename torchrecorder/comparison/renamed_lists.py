"""Renamed lists: lists of modules that have another name in the other run, as ``layers.0 … 3`` and
``blocks.0 … 3``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from torchrecorder.comparison.step_keys import Side
from torchrecorder.events import ScopeKind
from torchrecorder.graph.align import IndexPair, between
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import scopes_inside


def renamed_lists(
    a: Side,
    b: Side,
    left: Sequence[Scope | Op],
    right: Sequence[Scope | Op],
    pairs: Sequence[IndexPair],
) -> Iterator[tuple[Scope, Scope]]:
    """The elements of lists of one length between the same *pairs* of steps, if their layers are
    of much the same classes."""
    for gap, other_gap in between(pairs, len(left), len(right)):
        lists = _lists(left[place] for place in gap)
        others = _lists(right[place] for place in other_gap)
        if [*map(len, lists.values())] != [*map(len, others.values())]:
            continue
        for scopes, twins in zip(lists.values(), others.values()):
            if len(scopes) > 1 and _are_alike(_layers(a, scopes), _layers(b, twins)):
                yield from zip(scopes, twins)


def _lists(steps: Iterator[Scope | Op]) -> Mapping[str, list[Scope]]:
    """The calls of modules in each list, in the order in which they ran."""
    named = ((step, step.name.rpartition(".")) for step in steps
             if isinstance(step, Scope) and step.kind is ScopeKind.MODULE and not step.recompute)
    return grouped((name, step) for step, (name, _, number) in named if number.isdigit())


def _layers(side: Side, scopes: Sequence[Scope]) -> Counter[str]:
    """How many modules with weights of their own there are of each class."""
    recording = side.recording
    inside = scopes_inside(recording, [scope.id for scope in scopes])
    modules = (recording.module_of(recording.scopes[scope]) for scope in inside)
    return Counter(module.cls for module in modules if module is not None and module.parameters)


def _are_alike(layers: Counter[str], others: Counter[str]) -> bool:
    """Whether half of the layers have a counterpart of the same class."""
    most = max(layers.total(), others.total())
    return most > 0 and 2 * (layers & others).total() >= most
