"""Blocks: a few siblings that repeat together, such as alternating layers, or the ops of a loop.

Adjacent siblings differ, but the blocks are equal. Blocks are found by the fold keys of their
members; their connections are compared when they fold (see `equal`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, groupby, product
from math import prod
from typing import NamedTuple

from torchrecorder.events import (
    GradId, OpId, Role, ScopeId, ScopeKind, Slot, SourceLine, ValueId, names_gradient,
)
from torchrecorder.graph.mappings import reached
from torchrecorder.graph.nodes import Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.running_sums import sum_sign
from torchrecorder.graph.structural_hash import (
    arguments_without_values, lasting_outputs, without_numbers, written,
)
from torchrecorder.views.fold.periods import ReadsOfSiblings, Repetition, Rounds, runs

PREFIX = "block:"
"""The prefix of the ids of blocks."""

MIN_BOXES_SAVED = 6
"""The minimum number of boxes that a fold of plain siblings must save."""

CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")

_GIVEN = Role.INPUT, Role.CONSTANT

_LEVELS = 4
"""The maximum number of levels of nested loops that are found."""


def is_block(item: str) -> bool:
    """Whether *item* is the id of a block."""
    return item.startswith(PREFIX)


def block_id(items: Sequence[str]) -> str:
    """The id of the block of these siblings."""
    return f"{PREFIX}{items[0]}"


def loose_fold_key(recording: RecordedRun, item: str) -> tuple[object, ...] | None:
    """A key that is equal for similar repeats: their class, and names without numbers.

    Sizes, connections and optional parts may differ, but not the changes between two compared runs.
    None if *item* is not a scope.
    """
    scope = recording.scopes.get(ScopeId(item))
    if scope is None:
        return None
    differences = recording.differences.get(item)
    name = without_numbers(scope.name)
    return scope.kind, scope.cls, name, scope.failed, scope.recompute, differences


def min_repeats(recording: RecordedRun, item: str) -> int:
    """The minimum number of repeats that fold: two, or three if no scopes are inside."""
    children = recording.children[ScopeId(item)]
    return 2 if any(isinstance(child, Scope) for child in children) else 3


class FoldItem(NamedTuple):
    """One sibling, or a run of blocks that counts as one.

    Attributes:
        key: Its fold key; None if it cannot repeat.
        items: The siblings.
        composed: Whether one of them contains scopes.
        alone: Whether it is a single scope, which folds without a block.
        source: The line that called it.
        pools: Whether it reduces the size of one tensor, without weights.
        loads: Whether it is a call of a data loader.
        given: The inputs and constants that an op reads.
    """

    key: Hashable
    items: tuple[str, ...]
    composed: bool = False
    alone: bool = False
    source: SourceLine | None = None
    pools: bool = False
    loads: bool = False
    given: frozenset[ValueId] = frozenset()


BlockRun = tuple[tuple[FoldItem, ...], ...]
"""The blocks of a run; their units are pairwise equal."""


def unit_of(recording: RecordedRun, item: str) -> FoldItem:
    """The fold item of a scope or op.

    Scopes have equal keys if their structures are equal, and their names without numbers: ``fc1``
    and ``fc2`` may fold, ``query`` and ``key`` may not.
    """
    scope = recording.scopes.get(ScopeId(item))
    if scope is not None:
        children = recording.children[scope.id]
        composed = any(isinstance(child, Scope) for child in children)
        module = recording.module_of(scope)
        plain = not composed and not (module and module.stored)
        pools = plain and _pools(
            recording, scope.inputs, [output.value for output in scope.outputs]
        )
        key = recording.structures[scope.id], without_numbers(scope.name)
        loads = scope.kind is ScopeKind.DATA_LOADER
        return FoldItem(key, (item,), composed, True, scope.source, pools, loads)
    grad = recording.grad_nodes.get(GradId(item))
    if grad is not None and grad.owner is not None:
        owner = recording.ops[grad.owner]
        return FoldItem((grad.name, op_key(recording, owner)), (item,), source=owner.source)
    op = recording.ops.get(OpId(item))
    if op is None:
        return FoldItem(None, (item,))
    pools = _pools(recording, op.inputs, op.outputs)
    values = [recording.values[slot.value] for slot in op.inputs]
    given = frozenset(value.id for value in values if value.role in _GIVEN)
    return FoldItem(op_key(recording, op), (item,), source=op.source, pools=pools, given=given)


def _pools(recording: RecordedRun, given: Sequence[Slot], made: Sequence[ValueId]) -> bool:
    """Whether there is one input, and one output that is smaller."""
    if len(given) != 1 or len(made) != 1:
        return False
    values = recording.values
    return prod(values[made[0]].shape) < prod(values[given[0].value].shape)


def loose_unit(recording: RecordedRun, item: str) -> FoldItem:
    """The fold item of a scope or op if sizes and settings may differ.

    Then ops are equal if the same line of code called them.
    """
    unit, op = unit_of(recording, item), recording.ops.get(OpId(item))
    if op is not None:
        called = (op.kind, op.qualname, op.failed, op.source, recording.differences.get(item))
        return unit._replace(key=called if op.source is not None else None)
    key = loose_fold_key(recording, item)
    return unit._replace(key=(key, _contents(recording, item)) if key else None)


def _contents(recording: RecordedRun, item: str) -> Hashable:
    """The first scope in a container, whose own class says nothing about its contents."""
    scope = recording.scopes.get(ScopeId(item))
    if scope is None or scope.cls not in CONTAINERS:
        return None
    inner = (loose_fold_key(recording, child.id) for child in recording.children[scope.id])
    return next(filter(None, inner), None)


def op_key(recording: RecordedRun, op: Op) -> Hashable:
    """The fold key of an op.

    Numbers in its arguments do not count: in a loop, an argument may be the index. Nor do the
    gradients that a backward pass accumulates into, which the first of several lacks, nor its
    results. In a loop over weights, or with varying sizes, shapes and settings do not count. In an
    op that adds to a sum, it does not matter whether the sum exists yet.
    """
    values, differences = recording.values, recording.differences.get(op.id)
    if op.id in recording.weight_loops or op.id in recording.varying_sizes:
        return op.kind, op.qualname, op.failed, op.source, differences
    outputs = lasting_outputs(values, op)
    if op.id in recording.running_sums:
        forms = tuple(_form(values[output]) for output in outputs)
        return op.kind, op.failed, op.source, sum_sign(op), forms, differences
    return (
        op.kind,
        op.qualname,
        op.failed,
        differences,
        written(op, outputs),
        arguments_without_values(op.arguments),
        tuple(
            (slot.name, *_form(values[slot.value]))
            for slot in op.inputs
            if not names_gradient((slot.name,))
        ),
        tuple(_form(values[output]) for output in outputs),
    )


def place_dependent(recording: RecordedRun) -> frozenset[str]:
    """The ops whose fold item may differ in another call of equal structure: they read an input or
    constant of the run, or their key leaves something out."""
    given = (value.id for value in recording.values.values() if value.role in _GIVEN)
    readers = (reader for value in given for reader in recording.consumers.get(value, ()))
    return frozenset[str](readers).union(
        recording.varying_sizes, recording.running_sums, recording.weight_loops
    )


def _form(value: Value) -> tuple[Hashable, ...]:
    return value.shape, value.dtype


def items_of(part: Sequence[FoldItem]) -> tuple[str, ...]:
    """The siblings of a block."""
    return tuple(item for unit in part for item in unit.items)


Readers = Mapping[str, Sequence[str]]
"""For each sibling, the siblings that read one of its outputs."""


def blocks(units: Sequence[FoldItem], readers: Callable[[], Readers] = dict) -> Iterator[BlockRun]:
    """The sequences of equal blocks among siblings; nested ones come before those that contain
    them.

    If a sequence can be cut into blocks in several ways, the cut is chosen that the fewest edges
    cross. A batch is in the block of the sibling after it. *readers* returns, for each sibling, the
    siblings that read it; it is called only if there are sequences.
    """
    row, reads = _with_batches(units), cache(lambda: ReadsOfSiblings(readers()))
    for _ in range(_LEVELS):
        found = dict(_runs(row, reads))
        yield from found.values()
        if not found:
            return
        row = list(_collapsed(row, found))


def _with_batches(units: Sequence[FoldItem]) -> list[FoldItem]:
    """*units*, with each call of a data loader joined to the sibling after it."""
    row: list[FoldItem] = []
    for unit in reversed(units):
        if unit.loads and row and row[-1].key is not None:
            after = row.pop()
            key, items = ("batch", unit.key, after.key), unit.items + after.items
            unit = FoldItem(key, items, after.composed, source=unit.source, pools=after.pools)
        row.append(unit)
    return row[::-1]


def _runs(
    row: Sequence[FoldItem], reads: Callable[[], ReadsOfSiblings]
) -> Iterator[tuple[int, BlockRun]]:
    """The start and the blocks of each sequence; sequences of single scopes need no blocks.

    If the blocks of a sequence contain sequences themselves, only the inner ones are yielded.
    """

    def wanted(run: Repetition) -> bool:
        if _is_alone(row, run):
            return row[run.start].composed or run.times > 2
        return _is_worth(row, run)

    for run in runs([unit.key for unit in row], wanted):
        if _is_alone(row, run):
            continue
        inner = dict(_runs(row[run.start : run.start + run.period], reads))
        for place, (start, parts) in product(range(run.times if inner else 0), inner.items()):
            at = run.start + place * run.period + start
            yield at, _blocks(row, at, len(parts[0]), len(parts))
        if not inner:
            run = _best_cut(row, run, reads())
            yield run.start, _blocks(row, run.start, run.period, run.times)


def _best_cut(row: Sequence[FoldItem], run: Repetition, reads: ReadsOfSiblings) -> Repetition:
    """*run* from its best start, in blocks of several iterations if these belong together."""
    start = _beginning(row, run, reads.readers)
    cut = run._replace(start=start, spare=run.spare - (start - run.start))
    rounds = Rounds([unit.items for unit in row[start : cut.end]], run.period, reads)
    together = rounds.in_block()
    times, rest = divmod(run.times, together)
    longer = Repetition(start, run.period * together, times, run.period * rest + cut.spare)
    if together == 1 or times < 2 or not _is_worth(row, longer):
        return cut
    return longer._replace(start=_beginning(row, longer, reads.readers))


def _blocks(row: Sequence[FoldItem], start: int, length: int, times: int) -> BlockRun:
    """*times* blocks of equal *length*, from *start*."""
    ends = range(start, start + length * times, length)
    return tuple(tuple(row[at : at + length]) for at in ends)


def _beginning(row: Sequence[FoldItem], run: Repetition, readers: Readers) -> int:
    """The start of the first block, so that the fewest values pass to the second block.

    No value should skip a block. Ties are broken by a jump back to an earlier line of code, then by
    a pooling at the end of the first block.
    """
    part = row[run.start : run.start + 2 * run.period + run.spare]
    place = {item: number for number, unit in enumerate(part) for item in unit.items}
    change = [0] * (len(part) + 1)
    long: list[tuple[int, int]] = []
    for item, number in place.items():
        reads = [place[reader] - number for reader in readers.get(item, ()) if reader in place]
        long += [(number, far) for far in reads if far > run.period]
        reach = max((far for far in reads if 0 < far <= run.period), default=0)
        change[number + 1] += 1  # the value is alive from here on ...
        change[number + reach + 1] -= 1  # ... to its last reader
    passing = list(accumulate(change))
    starts = range(run.spare + 1)

    def worth(start: int) -> tuple[int, int, bool, bool, int]:
        there = start + run.period
        back, pooled = _goes_back(part[there - 1 : there + 1]), part[there - 1].pools
        skipping = sum((at - start) % run.period + far >= 2 * run.period for at, far in long)
        return skipping, passing[there], not back, not pooled, start

    return run.start + min(starts, key=worth)


def _goes_back(units: Sequence[FoldItem]) -> bool:
    """Whether the second of two units was called from a line above the line of the first."""
    one, other = (unit.source for unit in units)
    if one is None or other is None or one[::2] != other[::2]:
        return False
    return other.line < one.line


def _is_alone(row: Sequence[FoldItem], run: Repetition) -> bool:
    return run.period == 1 and row[run.start].alone


def _is_worth(row: Sequence[FoldItem], run: Repetition) -> bool:
    part = row[run.start : run.start + run.period]
    if any(unit.composed for unit in part):
        return True
    following = row[run.start + run.period : run.start + 2 * run.period]
    own = _given(part) - _given(following)
    saved = (run.times - 1) * (sum(len(unit.items) for unit in part) + len(own))
    return run.times > 2 and saved >= MIN_BOXES_SAVED


def _given(units: Sequence[FoldItem]) -> frozenset[ValueId]:
    return frozenset[ValueId]().union(*(unit.given for unit in units))


def _collapsed(row: Sequence[FoldItem], found: Mapping[int, BlockRun]) -> Iterator[FoldItem]:
    """*row* with each run as one unit."""
    place = 0
    for start, parts in found.items():
        yield from row[place:start]
        key = ("run", tuple(unit.key for unit in parts[0]), len(parts))
        composed = any(unit.composed for unit in parts[0])
        yield FoldItem(key, tuple(block_id(items_of(part)) for part in parts), composed)
        place = start + sum(map(len, parts))
    yield from row[place:]


def repeated(
    recording: RecordedRun,
    unit: Callable[[RecordedRun, str], FoldItem] = unit_of,
    micro_batches: Mapping[ScopeId | None, Sequence[Sequence[str]]] = {},
) -> frozenset[str]:
    """The scopes and ops that are not drawn if all repeats fold. *micro_batches* are siblings that
    repeat, adjacent or not."""
    again = {item for row in micro_batches.values() for group in row for item in group[1:]}
    undrawn = {*again}
    for around, children in recording.children.items():
        if around in undrawn:
            undrawn.update(child.id for child in children)
            continue
        units = [unit(recording, child.id) for child in children if child.id not in again]
        undrawn.update(_later(recording, units))
        inner: dict[str, tuple[str, ...]] = {}
        for parts in blocks(units):
            inner.update((block_id(items_of(part)), items_of(part)) for part in parts)
            later = (item for part in parts[1:] for item in items_of(part))
            undrawn.update(reached(later, lambda item: inner.get(item, ())))
    return frozenset(undrawn)


def _later(recording: RecordedRun, units: Sequence[FoldItem]) -> Iterator[str]:
    """All but the first scope of each row that is long enough to fold."""
    for _, group in groupby((unit for unit in units if unit.alone), key=lambda unit: unit.key):
        row = [unit.items[0] for unit in group]
        if len(row) >= min_repeats(recording, row[0]):
            yield from row[1:]
