"""Limits: budgets for numbers of modules, and which modules exceed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from torchrecorder.annotations.annotation import Annotation, Numbers
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.annotations.parameters import OWNED
from torchrecorder.annotations.registry import by_name
from torchrecorder.checks import FROM_0, MAPPING, Check, guess
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import ModuleId
from torchrecorder.graph.nodes import Module
from torchrecorder.graph.recording import RecordedRun

Budgets = Mapping[str, Mapping[str, float]]
"""By dotted path or pattern of paths, and by name of an annotation: the upper limit."""


def _are_limits(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(FROM_0.holds, value.values()))


BUDGETS = Check(
    "a mapping from paths to limits, {'encoder': {'parameters': 12e6}}",
    lambda value: MAPPING.holds(value) and all(map(_are_limits, value.values())),
)


def exceeded(recording: RecordedRun, budgets: Budgets) -> list[str]:
    """A line for each budget that is exceeded.

    Args:
        recording: A run in which the annotations of the budgets were measured.
        budgets: Such as ``{"": {"parameters": 12e6}, "layer*": {"flops": 1e9}}``; the empty
            path is the whole run. The calls of a module that is called several times are added
            up.

    Raises:
        InvalidArgument: No module has this path, or the run did not measure the annotation.
        UnknownAnnotation: No annotation has this name.
    """
    return list(_Check(recording).all(budgets))


class _Check:
    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording
        self.inside = ScopeMembers(recording)
        self.named = {
            name: module for module in recording.modules.values() for name in module.names
        }

    def all(self, budgets: Budgets) -> Iterator[str]:
        for path, limits in budgets.items():
            for name, limit in limits.items():
                annotation = by_name(name)
                numbers = self._numbers(annotation)
                for place, needed in self._needed(path, numbers):
                    if needed > limit:
                        shown = f"{annotation.show(needed)} of {annotation.show(limit)}"
                        yield f"{place or 'the whole run'}: {name}: {shown}"

    def _numbers(self, annotation: Annotation) -> Numbers:
        numbers = annotation.on(self.recording)
        if not numbers.by_node and annotation not in OWNED:  # of others, none was measured
            raise InvalidArgument(f"this run has no numbers of {annotation.name!r} to check")
        if annotation.merge is None:
            raise InvalidArgument(f"{annotation.name!r} cannot be added up and has no budget")
        return numbers

    def _needed(self, path: str, numbers: Numbers) -> Iterator[tuple[str, float]]:
        """The number of each module that matches *path*."""
        if path == "":
            yield "", numbers.total()
            return
        found = [name for name in self.named if name and (name == path or fnmatchcase(name, path))]
        if not found:
            close = guess(path, filter(None, self.named))
            raise InvalidArgument(f"no module is called {path!r}{close}")
        for name in found:
            yield name, numbers.of(self._members(self.named[name])) or 0

    def _members(self, module: Module) -> Iterator[str]:
        yield ModuleId(module.id)
        for call in module.calls:
            yield from self.inside.of_scope(call)
