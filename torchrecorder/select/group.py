"""Group: puts chosen siblings into a new scope with a name.

The scope is added to the recording before a view is built. So depth, folding, focus and every
format treat it as a module; ops and values do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Union

from torchrecorder.checks import TEXTS
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import OpId, ScopeId, ScopeKind, Slot, ValueId
from torchrecorder.graph.nodes import Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import (
    NOT_INPUTS, Boundaries, ops_inside, readers_of, values_behind,
)
from torchrecorder.name_patterns import NamePatterns
from torchrecorder.select.focus import advice
from torchrecorder.select.functions import NewScope, free, nested_in

Members = Mapping[str, Union[str, Sequence[str]]]
"""For each new name, the patterns of its members, as a sequence or separated by commas."""


@dataclass(frozen=True)
class GroupSiblings:
    """Groups siblings under names."""

    # for each name, paths of scopes, or of ops (``"layer1.add"``); patterns such as
    # ``"layers.*.norm"`` make one group in each scope that has them. Parameters and buffers
    # are moved into the group of their readers; they may be named too. So are ops between the
    # members.
    names: Members = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.names, Mapping):
            raise InvalidArgument(
                f"group must map names to lists of paths, {{'Stem': ['conv1', 'bn1']}}, "
                f"not {self.names!r}"
            )
        for name, members in self.names.items():
            if not isinstance(name, str) or not name.strip() or not _named(members):
                raise InvalidArgument(
                    f"a group needs a name and the paths of its members, not {name!r}: "
                    f"{members!r}"
                )

    def __call__(self, recording: RecordedRun) -> RecordedRun:
        """*recording* with a scope around the members of each group; itself without groups.

        Raises:
            InvalidArgument: A path matches nothing, something is in two groups, or the members of
                a group are not in one scope.
        """
        if not self.names:
            return recording
        taken: dict[str, str] = {}
        wanted = map(patterns, self.names.values())
        everything = NamePatterns(chain.from_iterable(wanted))
        ops = recording.ops.values()
        others = {op.id for op in ops if _fitting(recording, op, everything)}
        for name, members in self.names.items():
            groups = _by_parent(recording, name, patterns(members))
            for item in chain.from_iterable(groups.values()):
                if item.id in taken:
                    raise InvalidArgument(
                        f"{_path(recording, item)!r} is in two groups, {taken[item.id]!r} "
                        f"and {name!r}: take it out of one"
                    )
                taken[item.id] = name
            for parent, items in groups.items():
                items += _between(recording, parent, items, others)
            recording = _with_groups(recording, name, groups)
        return recording


def _named(members: object) -> bool:
    return TEXTS.holds(members) and bool(patterns(members))  # type: ignore[arg-type]


def patterns(members: str | Sequence[str]) -> tuple[str, ...]:
    """The patterns in a list, or in a text with commas."""
    given = members.split(",") if isinstance(members, str) else members
    return tuple(text for text in (str(item).strip() for item in given) if text)


def _paths(recording: RecordedRun, item: Scope | Op) -> Sequence[str]:
    """The paths of *item* for patterns; for an op, those of its scope, each with its name."""
    paths = recording.call_paths
    return paths[item.id] if isinstance(item, Scope) else paths.of_op(item)


def _path(recording: RecordedRun, item: Scope | Op) -> str:
    return _paths(recording, item)[0]


def _fitting(recording: RecordedRun, item: Scope | Op, wanted: NamePatterns) -> list[str]:
    """The patterns that *item* matches, and its id if it is wanted."""
    paths = _paths(recording, item)
    found = list(dict.fromkeys(chain.from_iterable(map(wanted.fitting, paths))))
    return [*found, item.id] if item.id in wanted else found


def _by_parent(
    recording: RecordedRun, name: str, wanted: tuple[str, ...]
) -> dict[ScopeId | None, list[Scope | Op]]:
    """The items that match the patterns of a group, by the scope they are in."""
    found: dict[ScopeId | None, list[Scope | Op]] = {}
    hits: dict[str, set[ScopeId | None]] = {pattern: set() for pattern in wanted}
    tried, inside = NamePatterns(wanted), set[Union[str, None]]()
    for parent, item in _run_through(recording):
        if parent in inside:
            inside.add(item.id)
            continue
        fitting = _fitting(recording, item, tried)
        if fitting:
            inside.add(item.id)
            found.setdefault(parent, []).append(item)
        for element in fitting:
            hits[element].add(parent)
    weights = _weights(recording, [item for item, parents in hits.items() if not parents])
    for each, values in weights.items():
        _check_read_inside(recording, name, values, inside)
        if values:
            del hits[each]
    _check(recording, name, found, hits)
    return found


def _weights(recording: RecordedRun, wanted: Sequence[str]) -> dict[str, list[Value]]:
    """The parameters and buffers that match each of the patterns."""
    tried, known = NamePatterns(wanted), recording.call_paths.known
    found: dict[str, list[Value]] = {pattern: [] for pattern in wanted}
    for value in recording.values.values() if wanted else ():
        if value.role in NOT_INPUTS:
            fitting = chain.from_iterable(map(tried.fitting, known(value.names)))
            for pattern in dict.fromkeys(fitting):
                found[pattern].append(value)
    return found


def _check_read_inside(
    recording: RecordedRun, name: str, weights: Sequence[Value], inside: Collection[str | None]
) -> None:
    """Check that all readers of named parameters and buffers are in the group."""
    for weight in weights:
        ran = (recording.ops[op] for op in recording.consumers.get(weight.id, ()))
        readers = [op for op in ran if not op.recompute]
        outside = {_path(recording, op): None for op in readers if op.id not in inside}
        if outside or not readers:
            advice = f"add {', '.join(map(repr, outside))} to the group"
            raise InvalidArgument(
                f"group {name!r}: {weight.names[0]!r} is a {weight.role.value} and is drawn "
                f"with its readers; {advice if readers else 'this run has none'}"
            )


def _run_through(recording: RecordedRun) -> Iterator[tuple[ScopeId | None, Scope | Op]]:
    """Every scope and op with the scope around it, outer ones first."""
    scopes = [scope for scope in recording.scopes.values() if not scope.recompute]
    yield from ((scope.parent, scope) for scope in scopes)
    yield from ((op.scope, op) for op in recording.ops.values() if not op.recompute)


def _check(
    recording: RecordedRun,
    name: str,
    children: Mapping[ScopeId | None, Sequence[Scope | Op]],
    hits: Mapping[str, set[ScopeId | None]],
) -> None:
    """Check that every pattern matches, and that the members of a group are siblings."""
    for pattern, parents in hits.items():
        if not parents:
            known = (_path(recording, item) for _, item in _run_through(recording))
            problem = advice("module or operation", pattern, known)
            raise InvalidArgument(f"group {name!r}: {problem}")
    scattered = [pattern for pattern, parents in hits.items() if parents != set(children)]
    if scattered:
        raise InvalidArgument(
            f"group {name!r}: its members must be siblings in one scope, and "
            f"{', '.join(map(repr, hits))} are in "
            f"{_scope_names(recording, children)}. Name siblings, or make a group of each"
        )


def _scope_names(recording: RecordedRun, parents: Iterable[ScopeId | None]) -> str:
    paths = [
        recording.scopes[parent].path if parent is not None else "" for parent in parents
    ]
    names = [repr(path) if path else "the model itself" for path in dict.fromkeys(paths)]
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _ops_in(recording: RecordedRun, items: Iterable[Scope | Op]) -> set[OpId]:
    """The ops among *items* and inside them, at any depth."""
    ops = [item.id for item in items if isinstance(item, Op)]
    scopes = [item.id for item in items if isinstance(item, Scope)]
    return {*ops, *ops_inside(recording, scopes)}


def _between(
    recording: RecordedRun,
    parent: ScopeId | None,
    items: Sequence[Scope | Op],
    others: Collection[str],
) -> Iterator[Op]:
    """The ops in *parent* that read *items*, and that only *items* or such ops read."""
    inside = _ops_in(recording, items)
    given = {slot.value for slot in recording.outputs}
    ops = [
        op for op in recording.children[parent]
        if isinstance(op, Op) and not op.recompute
        and op.id not in inside and op.id not in others and given.isdisjoint(op.outputs)
    ]
    ahead = set[OpId]()
    for op in reversed(ops):
        readers = {reader.id for reader in readers_of(recording, op) if not reader.recompute}
        if readers and readers <= inside | ahead:
            ahead.add(op.id)
    for op in ops:
        before = {recording.values[slot.value].producer for slot in op.inputs}
        if op.id in ahead and not inside.isdisjoint(before):
            inside.add(op.id)
            yield op


def _with_groups(
    recording: RecordedRun, name: str, groups: Mapping[ScopeId | None, Sequence[Scope | Op]]
) -> RecordedRun:
    """*recording* with a scope around the siblings of each group, which are in different scopes."""
    added: dict[ScopeId, Scope] = {}
    moved: dict[str, ScopeId | None] = {}
    names: dict[ScopeId, dict[ValueId, str]] = {}  # of what the members of each group read
    for (parent, items), id_ in zip(groups.items(), free(ScopeId(f"s:{name}"), recording.scopes)):
        first, *_ = ordered = sorted(items, key=attrgetter("index"))
        path = "" if parent is None else recording.scopes[parent].path
        new = NewScope(ScopeKind.FUNCTION, "", name, first.source)
        added[id_] = new.around(items, first, id_, parent, path)
        moved.update((item.id, id_) for item in items)
        names[id_] = {slot.value: slot.name for item in ordered[::-1] for slot in item.inputs[::-1]}
    scopes = sorted((*added.values(), *recording.scopes.values()), key=attrgetter("index"))
    nested = nested_in(
        recording,
        (each.replace(parent=moved[each.id]) if each.id in moved else each for each in scopes),
        moved,
    )
    ends = Boundaries(nested, added)
    filled = {
        scope: nested.scopes[scope].replace(
            inputs=tuple(
                Slot(names[scope].get(value, argument), value)
                for argument, value in ends.inputs(scope)
                if nested.values[value].role not in NOT_INPUTS
            ),
            outputs=tuple(_outputs(nested, ends, scope)),
        )
        for scope in added
    }
    return replace(nested, scopes={**nested.scopes, **filled})


def _outputs(recording: RecordedRun, ends: Boundaries, scope: ScopeId) -> Iterator[Slot]:
    """Values used outside: outputs of the model first, then the others, latest first."""
    given = {slot.value: number for number, slot in enumerate(recording.outputs)}
    inside = set(ops_inside(recording, [scope]))
    back = _coming_back(recording, inside, (slot.value for slot in ends.inputs(scope)))
    used = {slot.value for slot in ends.outputs(scope)}
    ordered = sorted(map(recording.ops.__getitem__, inside), key=attrgetter("index"))
    made = [value for op in ordered for value in op.outputs if value in used]
    found = sorted(
        reversed(made), key=lambda value: (given.get(value, len(given)), value in back)
    )
    return (Slot(str(number), value) for number, value in enumerate(dict.fromkeys(found)))


def _coming_back(
    recording: RecordedRun, inside: Collection[OpId], read: Iterable[ValueId]
) -> set[ValueId]:
    """Values computed in a group that what it *read* depends on, through later ops."""
    first = min((recording.ops[op].index for op in inside), default=0)
    found = values_behind(recording, read, lambda op: op.id not in inside and op.index > first)
    return {value for value in found if recording.values[value].producer in inside}
