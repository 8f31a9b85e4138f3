"""Results: the annotations of one recording, rankings and tables of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Union, get_args

from torchrecorder.annotations import ANNOTATIONS, by_name, numbers_of, unmeasured
from torchrecorder.annotations.annotation import Annotation, Numbers, is_unmeasured
from torchrecorder.annotations.parameter_owners import ParameterOwners, Whole
from torchrecorder.annotations.places import op_name, scope_name
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.checks import LIST, check_one, one_of, whole_number
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.events import ScopeId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of

By = Literal["module", "scope", "op", "type", "grad"]
"""The rows of a ranking or table: modules with all their calls, single calls, ops, ops grouped by
name, grad nodes."""

KINDS = get_args(By)


class Ranked(NamedTuple):
    """One row of a ranking.

    Attributes:
        ids: The scopes, ops or grad nodes that it stands for.
    """

    name: str
    number: float
    text: str
    ids: tuple[str, ...]


class Results(Mapping[str, Numbers]):
    """Numbers by the name of their annotation, computed on first use.

    Iteration gives the names of annotations for which the recording has numbers.
    """

    def __init__(self, recording: RecordedRun) -> None:
        self._recording = recording
        self._found: dict[str, Numbers] = {}

    def __getitem__(self, name: str) -> Numbers:
        """The numbers of the annotation *name*; there may be none.

        Raises:
            UnknownAnnotation: No annotation has this name.
        """
        if not isinstance(name, str):
            by_name(name)  # which refuses it
        if name not in self._found:
            self._found[name] = by_name(name).on(self._recording)
        return self._found[name]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(item.name for item in ANNOTATIONS if self[item.name].by_node)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return f"<annotations {', '.join(self._names)}>"


def top(
    recording: RecordedRun, name: Union[str, Annotation], n: int, *, by: By
) -> list[Ranked]:
    """See `torchrecorder.Recording.top`. The numbers of modules add up to the total."""
    numbers = by_name(name).on(recording)
    if is_unmeasured(numbers):
        raise UnknownAnnotation(unmeasured(recording, numbers.annotation))
    check_one("n", n, whole_number(0))
    inside = ScopeMembers(recording)
    found = ranked(numbers, inside, by)
    if not found and any(True for _ in _places(inside, by)):
        others = [f"{kind!r}" for kind in KINDS if ranked(numbers, inside, kind)]
        if others:
            raise InvalidArgument(
                f"{numbers.annotation.name!r} has no numbers by {by!r}, only by {', '.join(others)}"
            )
    return found[:n]


def ranked(numbers: Numbers, inside: ScopeMembers, by: str = "module") -> list[Ranked]:
    """All places with a number, the largest first, and NaN before all others."""
    found = []
    for place, ids, members in _places(inside, by):
        number = numbers.of(_own(numbers, ids, members))
        if number is not None:
            found.append(Ranked(place, number, numbers.annotation.show(number), ids))
    return sorted(found, key=lambda one: -math.inf if math.isnan(one.number) else -one.number)


def table(
    recording: RecordedRun, columns: Sequence[Union[str, Annotation]] | None, *, by: By
) -> list[dict[str, Any]]:
    """See `torchrecorder.Recording.table`."""
    check_one("columns", columns, LIST.or_none())
    wanted = columns if columns is not None else tuple(Results(recording))
    filled = [numbers_of(recording, item) for item in wanted]
    inside, owned = ScopeMembers(recording), ParameterOwners(recording)
    rows = []
    for place, ids, members in _places(inside, by):
        facts = {"count": len(ids)} if by == "type" else _facts(recording, ids[0])
        row: dict[str, Any] = {"id": ids[0], "name": place, **facts}
        nested = by in ("module", "scope")
        whole = owned.within(inside.of(ids))  # of a row once, not for each column
        alone: dict[tuple[str, ...], Whole] = {}
        for numbers in filled:
            row[numbers.annotation.name] = numbers.of(whole)
            if nested and numbers.annotation.merge is not None:
                calls = tuple(call for call in ids if call in numbers.by_node)
                if calls not in alone:
                    alone[calls] = owned.within(_own(numbers, ids, members))
                row[f"self_{numbers.annotation.name}"] = numbers.of(alone[calls])
        rows.append(row)
    return rows


def _own(numbers: Numbers, ids: tuple[str, ...], members: Sequence[str]) -> list[str]:
    """*members* without those of submodules that were called; scopes stay if numbers cannot be
    combined."""
    recording = numbers.owned.recording
    calls = frozenset(ids) if numbers.annotation.merge is not None else frozenset()
    found = [member for member in members if member not in calls or member in numbers.by_node]
    for identifier in ids[:1]:
        scope = recording.scopes.get(ScopeId(identifier))
        module = recording.module_of(scope) if scope is not None else None
        if module is not None:
            read = numbers.owned.read_in.get(module.id, ())
            found.extend(slot.value for one in (module, *read) for slot in one.stored)
    return found


def _places(
    inside: ScopeMembers, by: str
) -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """The rows of a kind: the name, the ids, and the members whose numbers are combined.

    Scopes of the same path are together for modules, and ops of the same name for types, each in
    the order in which the first of them ran.
    """
    check_one("by", by, one_of(*KINDS))
    recording = inside.recording
    if by in ("module", "scope"):
        scopes = [scope for scope in recording.scopes.values() if not scope.recompute]
        calls = grouped(
            ((scope_name(recording, one.id), one.cls if by == "module" else one.id), one.id)
            for one in scopes
        )
        for (name, _), ids in calls.items():
            yield name, tuple(ids), [item for scope in ids for item in inside.alone(scope)]
    elif by in ("op", "type"):
        ops = [op for op in recording.ops.values() if not op.recompute]
        names = ((op.name, "") if by == "type" else (op_name(recording, op), op.id) for op in ops)
        found = grouped((name, op.id) for name, op in zip(names, ops))
        for (name, _), same in found.items():
            yield name, tuple(same), [item for op in same for item in inside.of_op(op)]
    else:
        for grad in recording.grad_nodes.values():
            yield op_name(recording, grad), (grad.id,), [grad.id]


def _facts(recording: RecordedRun, node: str) -> dict[str, Any]:
    step = step_of(recording, node)
    if isinstance(step, Scope):
        return {"type": step.cls, "kind": step.kind.value}
    if step is None:
        return {}
    source = step.source.place if step.source is not None else None
    return {"type": step.name, "kind": step.kind.value, "source": source}
