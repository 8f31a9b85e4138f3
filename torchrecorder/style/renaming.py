"""Renaming: other names of modules, ops and tensors in a figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from torchrecorder.checks import warn_unmatched
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.end_names import end_title
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun


class Renaming:
    """Finds new names; None for names without one.

    Of several that match, the first exact one in *names* counts, then the first pattern.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.given = frozenset(names.values())
        self.patterns = [name for name in names if any(letter in name for letter in "*?[")]

    def scope(self, scope: Scope, recording: RecordedRun) -> str | None:
        """The title of a module or function, by one of its paths or its name."""
        paths = recording.call_paths[scope.id] if self.names else ()
        return self.find(filter(None, (*paths, scope.name)))

    def cls(self, scope: Scope) -> str:
        """The class of a module."""
        found = self.find([scope.cls])
        return scope.cls if found is None else found

    def op(self, op: Op, recording: RecordedRun) -> str:
        """The title of an op, by its name or one of its paths."""
        found = self.find((*recording.call_paths.of_op(op), op.name)) if self.names else None
        return op.name if found is None else found

    def tensor(self, names: Sequence[str], role: str, recording: RecordedRun) -> str | None:
        """The title of a tensor, by one of its *names* or its role."""
        known = recording.call_paths.known(names) if self.names else ()
        return self.find((*known, role))

    def check(self, *recordings: RecordedRun) -> None:
        """Warn about names that match nothing in any of *recordings*."""
        known = (name for recording in recordings for name in called(recording))
        warn_unmatched("rename", self.names, known)

    def find(self, called: Iterable[str]) -> str | None:
        """The text for a part with these names, most specific first."""
        if not self.names:
            return None
        ways = list(called)
        exact = [way for way in ways if way in self.names]
        fitting = exact or [
            pattern for way in ways for pattern in self.patterns if fnmatchcase(way, pattern)
        ]
        return self.names[fitting[0]] if fitting else None


def called(recording: RecordedRun) -> Iterator[str]:
    """All names in *recording* that a mapping can use."""
    for scope in recording.scopes.values():
        yield from (*recording.call_paths[scope.id], scope.name, scope.cls)
    for op in recording.ops.values():
        yield from (op.name, *recording.call_paths.of_op(op))
    for value in recording.values.values():
        yield from (value.role.value, *recording.call_paths.known(value.names))
    for slot in recording.outputs:
        yield from ("output", slot.name, end_title("output", slot.name))


def check_names(names: object) -> None:
    """Refuse *names* that are not a mapping from text to text."""
    if not isinstance(names, Mapping):
        raise InvalidArgument(
            f'rename must map names to names, {{"self_attn": "Attention"}}, not {names!r}'
        )
    wrong = [pair for pair in names.items() if not all(isinstance(item, str) for item in pair)]
    if wrong:
        raise InvalidArgument(f"rename must map text to text, not {wrong[0][0]!r}: {wrong[0][1]!r}")
