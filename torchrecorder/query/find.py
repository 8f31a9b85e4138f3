"""Find: modules, calls, tensors and operations by name, source line or id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, Union

from torchrecorder.annotations.places import op_in_words, op_name, scope_name
from torchrecorder.checks import TEXT, check_one, guess
from torchrecorder.errors import InvalidArgument, NotThere
from torchrecorder.events import CALLED, FunctionCall, Role, SourceLine
from torchrecorder.graph.end_names import end_names
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import GradNode, Module, Op, Scope, Value
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun

NamedPart = Union[Module, Scope, Op, Value, GradNode, FunctionCall]

_LINE = re.compile(r"(.*\.\w+):(\d+)")
RANDOM = "random"
"""A name of all ops that draw random numbers."""

_MAX_PARTS = 6
"""Maximum number of parts in a message."""


def find(recording: RecordedRun, what: str) -> list[NamedPart]:
    """All parts that match *what*; may be empty. See `torchrecorder.Recording.find`."""
    found = {part.id: part for kind in _by_kind(recording, what) for part in kind}
    return list(found.values())


def the_one(recording: RecordedRun, what: str) -> NamedPart:
    """The one part that matches *what*, of the first kind with matches; of the values of a tensor
    that is written in place, the first.

    Raises:
        NotThere: Nothing or more than one part has this name; the message lists names.
    """
    found = first_kind(recording, what)
    values = [part for part in found if isinstance(part, Value)]
    before = [part for part in values if part.producer is None]
    if len(before) == 1 and what in before[0].names:
        return before[0]
    storages = {part.storage for part in values if what in part.names}
    if len(values) == len(found) and len(storages) == 1 and min(storages) >= 0:  # made in the run
        return found[0]
    if len(found) > 1:
        listed = [f"{part.id} is {_in_words(recording, part)}" for part in found[:_MAX_PARTS]]
        more = f", and {len(found) - _MAX_PARTS} more" if len(found) > _MAX_PARTS else ""
        raise NotThere(
            f"{what!r} is ambiguous: {', '.join(listed)}{more}. Use an id, such as "
            f"{found[0].id!r}, for one of them, or recording.find({what!r}) for all"
        )
    return found[0]


def tensor_named(recording: RecordedRun, name: str) -> Value:
    """The tensor of this name; a parameter comes first."""
    found = [part for part in first_kind(recording, name) if isinstance(part, Value)]
    if not found:
        raise InvalidArgument(
            f"{name!r} is not the name of a tensor: pass that of a parameter, such as "
            "'layer1.0.weight', or of an input"
        )
    own = [value for value in found if value.role is Role.PARAMETER and name in value.names]
    value = own[0] if own else the_one(recording, name)
    assert isinstance(value, Value)
    return value


def first_kind(recording: RecordedRun, what: str) -> list[NamedPart]:
    """All matches of the first kind with matches: modules, calls, tensors, ops, grad nodes.

    Raises:
        NotThere: Nothing has this name; the message suggests one.
    """
    for kind in _by_kind(recording, what):
        if kind:
            return kind
    names = dict.fromkeys(_names(recording))
    some = ", ".join(map(repr, [*names][:_MAX_PARTS])) + " ..." * (len(names) > _MAX_PARTS)
    known = f". Modules, tensors and operations are {some}" if names else ": it is empty"
    close = guess(what, names) or known
    raise NotThere(f"nothing in this recording is called {what!r}{close}")


def _by_kind(recording: RecordedRun, what: str) -> Iterator[list[NamedPart]]:
    """The matches of *what*: by id, by the names of each kind, by line, by class."""
    check_one("a name", what, TEXT)
    tables: tuple[Mapping[Any, NamedPart], ...] = (
        recording.modules, recording.scopes, recording.ops, recording.values,
        recording.grad_nodes, recording.function_calls,
    )
    for table in tables:
        if what in table:
            yield [table[what]]
            return
    line = _LINE.fullmatch(what)
    if line is not None:
        yield [op for op in recording.ops.values() if _is_at(op.source, line)]
        yield [scope for scope in recording.scopes.values() if _is_at(scope.source, line)]
        return
    for named in _kinds(recording):
        yield named.like(what)


class _PartNames:
    """Parts of one kind, in run order, with the names of each; read when they are first asked."""

    def __init__(self, named: Iterable[tuple[NamedPart, Iterable[str]]]) -> None:
        self._named = named
        self._parts: list[NamedPart] = []

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, (part, names) in enumerate(self._named):
            self._parts.append(part)
            for name in dict.fromkeys(names):
                places.setdefault(name, []).append(place)
        return places

    def like(self, what: str) -> list[NamedPart]:
        """The parts with the name *what*, or else those with a name that matches it as a pattern.
        """
        places = self._places.get(what, [])
        if not places and any(letter in what for letter in "*?["):
            names = filter(partial(fnmatchcase, pat=what), self._places)
            places = sorted({place for name in names for place in self._places[name]})
        return [self._parts[place] for place in places]


@once
def _kinds(recording: RecordedRun) -> tuple[_PartNames, ...]:
    """The parts of each kind, in the order in which they are searched."""
    paths, known = recording.call_paths, recording.call_paths.known
    ends = grouped((value, name) for _, value, names in end_names(recording) for name in names)
    modules, scopes = recording.modules.values(), recording.scopes.values()
    values, ops = recording.values.values(), recording.ops.values()
    calls, grads = recording.function_calls.values(), recording.grad_nodes.values()
    return (
        _PartNames((module, known(module.names)) for module in modules),
        _PartNames((scope, paths[scope.id]) for scope in scopes),
        _PartNames((one, (*known(one.names), *ends.get(one.id, ()))) for one in values),
        _PartNames((op, _names_of_op(recording, op)) for op in ops),
        _PartNames((module, (module.cls, module.qualname)) for module in modules),
        _PartNames((scope, _classes(scope)) for scope in scopes),
        _PartNames((call, _function_names(call)) for call in calls),
        _PartNames((grad, (grad.name,)) for grad in grads),
    )


def _names_of_op(recording: RecordedRun, op: Op) -> Iterator[str]:
    yield from (op.name, op.qualname, op_name(recording, op))
    yield from (RANDOM,) if op.random else ()
    place = scope_name(recording, op.scope)
    if place:
        yield f"{place}.{op.name}"


def _classes(scope: Scope) -> Iterator[str]:
    """The names of a call: its name and class, and for a region also its kind."""
    yield from (scope.name, scope.cls)
    if scope.kind not in CALLED:
        yield from (scope.kind.value, f"{scope.kind.value} {scope.cls}")


def _function_names(call: FunctionCall) -> Iterator[str]:
    """The names of a call of a Python function, with and without its class."""
    yield call.name
    yield call.name.rpartition(".")[2]
    yield call.called


def _is_at(source: SourceLine | None, line: re.Match[str]) -> bool:
    if source is None or source.line != int(line[2]):
        return False
    file, wanted = (f"/{path}".replace("\\", "/") for path in (source.file, line[1]))
    return file.endswith(wanted)


def _names(recording: RecordedRun) -> Iterator[str]:
    """All names that `find` knows."""
    for module in recording.modules.values():
        yield from filter(None, module.names)
    for _, _, names in end_names(recording):
        yield from names
    for value in recording.values.values():
        yield from value.names
    for op in recording.ops.values():
        yield op.name
    for module in recording.modules.values():
        yield module.cls
    for scope in recording.scopes.values():
        yield from filter(None, (scope.path, *_classes(scope)))
    for call in recording.function_calls.values():
        yield from _function_names(call)


def _in_words(recording: RecordedRun, part: NamedPart) -> str:
    if isinstance(part, Op):
        return op_in_words(recording, part.id)
    if isinstance(part, Scope):
        call = f", call {part.call + 1}" if part.module is not None else ""
        return f"{scope_name(recording, part.id)}{call}"
    if isinstance(part, Module):
        return next(filter(None, part.names), part.cls)
    if isinstance(part, FunctionCall):
        called = f", called at {part.source.place}" if part.source else ""
        return f"{part.name}(){called}"
    if isinstance(part, GradNode):
        owner = f" of {op_in_words(recording, part.owner)}" if part.owner is not None else ""
        return f"{part.name}{owner}"
    if part.producer is not None and not part.names:
        return f"the result of {op_in_words(recording, part.producer)}"
    reader = next(iter(recording.consumers.get(part.id, ())), None)
    read = f", read by {op_in_words(recording, reader)}" if reader is not None else ""
    return f"{part.names[0] if part.names else part.role.value} ({[*part.shape]}{read})"
