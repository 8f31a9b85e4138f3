"""Limits: upper limits of numbers of modules, and the modules that exceed them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from torchrecorder.annotations import by_name
from torchrecorder.annotations.annotation import Numbers
from torchrecorder.annotations.parameters import OWNED
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.checks import FROM_0, MAPPING, Check, guess
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.nodes import Module
from torchrecorder.graph.recording import RecordedRun


def _are_limits(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(FROM_0.holds, value.values()))


BUDGETS = Check(
    "a mapping from paths to limits, {'encoder': {'parameters': 12e6}}",
    lambda value: MAPPING.holds(value) and all(map(_are_limits, value.values())),
)


def exceeded(
    recording: RecordedRun, budgets: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """A line for each budget that is exceeded, or that cannot be checked because the number of a
    part is unknown.

    Args:
        recording: A run in which the annotations of the budgets were measured.
        budgets: Upper limits by dotted path or pattern of paths, and by name of an annotation, such
            as ``{"": {"parameters": 12e6}, "layer*": {"flops": 1e9}}``; the empty path is the whole
            run. The calls of a module that is called several times are added up.

    Raises:
        InvalidArgument: No module has this path, or the run did not measure the annotation.
        UnknownAnnotation: No annotation has this name.
    """
    known, modules = recording.call_paths.known, recording.modules.values()
    named = {name: module for module in modules for name in known(module.names) if name}
    inside = ScopeMembers(recording)
    found = []
    for path, limits in budgets.items():
        members = {name: _members(named[name], inside) for name in _matching(path, named)}
        for name, limit in limits.items():
            annotation = by_name(name)
            numbers = annotation.on(recording)
            if not numbers.by_node and annotation not in OWNED:
                raise InvalidArgument(f"this run has no numbers of {name!r} to check")
            if annotation.merge is None:
                raise InvalidArgument(f"{name!r} cannot be added up and has no budget")
            amounts = {place: _amount(numbers, ids) for place, ids in members.items()}
            if path == "":
                amounts["the whole run"] = numbers.total()
            for place, needed in amounts.items():
                if math.isnan(needed):
                    found.append(f"{place}: {name}: unknown, because a part of it has no number")
                elif needed > limit:
                    shown = f"{annotation.show(needed)} of {annotation.show(limit)}"
                    found.append(f"{place}: {name}: {shown}")
    return found


def _amount(numbers: Numbers, members: Collection[str]) -> float:
    """The number of *members*: 0 without any, NaN if one is unknown."""
    return math.nan if numbers.is_unknown(members) else numbers.of(members) or 0


def _matching(path: str, named: Mapping[str, Module]) -> list[str]:
    """The names of modules that match a pattern; none for the empty path, which is the run."""
    matching = [name for name in named if name == path or fnmatchcase(name, path)]
    if path and not matching:
        raise InvalidArgument(f"no module is called {path!r}{guess(path, named)}")
    return matching


def _members(module: Module, inside: ScopeMembers) -> list[str]:
    """A module and the members of all its calls."""
    return [module.id, *inside.of(module.calls)]
