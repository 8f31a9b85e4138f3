"""The origin of the first NaN or infinity, in forward and backward."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from torchrecorder.annotations import unmeasured
from torchrecorder.annotations.places import call_in_words, calls_of_passes, op_in_words
from torchrecorder.annotations.statistics import NOT_FINITE, gradients, values
from torchrecorder.errors import UnknownAnnotation
from torchrecorder.events import GradId, OpId, Role, Statistics, ValueId
from torchrecorder.graph.nodes import GradRun, Op, Value
from torchrecorder.graph.recording import RecordedRun

_INFINITY = re.compile(r"\binf\b")


class FirstBad(NamedTuple):
    """The op or grad node whose result has the first NaN or infinity, or the value that had it."""

    node: str
    nans: int
    infs: int

    @property
    def kinds(self) -> str:
        """``"NaN"``, ``"Inf"`` or both."""
        return " and ".join(["NaN"] * bool(self.nans) + ["Inf"] * bool(self.infs))


def first_bad(recording: RecordedRun) -> Iterator[FirstBad]:
    """The ops with the first infinity and the first NaN, and the grad node with the first of them,
    in run order."""
    found = [*_first_bad_ops(recording)]
    in_backward = _first_bad_run(recording, found)
    if in_backward is not None:
        grad, ran = in_backward
        begin = _call_of(recording, ran.run)
        place = sum(_index(recording, op) < begin for op in found)
        found.insert(place, grad)
    yield from found


def _first_bad_ops(recording: RecordedRun) -> Iterator[FirstBad]:
    """The op with the first NaN, and before it the op with the first infinity.

    It is an input, weight or constant if that has the number. An infinity that was passed as a
    Python number, or is in another tensor than a parameter, such as the -inf of a mask, is
    expected. What writes to the gradients of a pass with a NaN or infinity is not an origin.
    """
    bad = {one.node: one for one in values(recording) if one.nans or one.infs}
    given = _given_by_bad_passes(recording)
    nan = _first(recording, {node: item for node, item in bad.items() if item.nans}, given)
    first = _first(recording, bad, given)
    if first is not None and (nan is None or _index(recording, first) < _index(recording, nan)):
        yield first
    if nan is not None:
        yield nan


def _given_by_bad_passes(recording: RecordedRun) -> set[ValueId]:
    """The unmeasured gradients that backward passes with a NaN or infinity computed."""
    bad = {one.run for one in gradients(recording) if one.nans or one.infs}
    calls = calls_of_passes(recording)
    passes = (calls[number] for number in bad if number in calls)
    measured = {one.node for one in values(recording)}
    return {value for op in passes for value in op.outputs if value not in measured}


def _first(
    recording: RecordedRun, bad: Mapping[str, Statistics], given: set[ValueId]
) -> FirstBad | None:
    """The first op with *bad* outputs but no *bad* or *given* inputs; or a bad input of it."""
    passes = {run.op for run in recording.backward_runs}
    for op in recording.ops.values():
        made = [bad[value] for value in op.outputs if value in bad]
        if not made or op.id in passes:
            continue
        read = [slot.value for slot in op.inputs if slot.value in bad]
        for value in read:
            known, one = recording.values[value], bad[value]
            if known.producer is None and (one.nans or known.role is Role.PARAMETER):
                return FirstBad(value, one.nans, one.infs)
        if not read and given.isdisjoint(slot.value for slot in op.inputs):
            found = FirstBad(op.id, sum(m.nans for m in made), sum(m.infs for m in made))
            if found.nans or not any(_INFINITY.search(text) for _, text in op.arguments):
                return found
    return None


def _index(recording: RecordedRun, first: FirstBad) -> int:
    return _reader(recording, first.node).index


def _reader(recording: RecordedRun, node: str) -> Op:
    """The op *node*; of a value, the first op that reads it."""
    if OpId(node) in recording.ops:
        return recording.ops[OpId(node)]
    read = (op for op in recording.ops.values() if any(slot.value == node for slot in op.inputs))
    return next(read)


def _first_bad_run(
    recording: RecordedRun, bad_ops: Sequence[FirstBad]
) -> tuple[FirstBad, GradRun] | None:
    """The first grad node with a NaN or infinity in its outputs and none in its inputs; and a run
    of it, or of the node that received the number."""
    bad: dict[tuple[int, str], tuple[int, int]] = {}
    for gradient in gradients(recording):
        if gradient.nans or gradient.infs:
            nans, infs = bad.get((gradient.run, gradient.node), (0, 0))
            bad[gradient.run, gradient.node] = (nans + gradient.nans, infs + gradient.infs)
    for ran in recording.grad_runs:
        found = bad.get((ran.run, ran.grad))
        if found is not None:
            if _made_in_hook(recording, ran.run, bad_ops):
                return None
            maker = _maker(recording, ran, bad)
            return FirstBad(ran.grad if maker is None else maker, *found), ran
    return None


def _made_in_hook(recording: RecordedRun, number: int, bad_ops: Sequence[FirstBad]) -> bool:
    """Whether a hook in this backward pass gave it a NaN or infinity that an op of hooks made."""
    bad = {one.node for one in values(recording) if one.nans or one.infs}
    return any(
        not bad.isdisjoint(run.replacements)
        and any(_index(recording, op) > _call_of(recording, number) for op in bad_ops)
        for run in recording.backward_runs if run.run == number
    )


def _call_of(recording: RecordedRun, number: int) -> float:
    """The index of the op that called backward pass *number*; after all others if that is not in
    this part of a recording."""
    call = calls_of_passes(recording).get(number)
    return call.index if call is not None else inf


def _maker(
    recording: RecordedRun, ran: GradRun, bad: dict[tuple[int, str], tuple[int, int]]
) -> GradId | None:
    """The node from which *ran* received a NaN or infinity; None if it came from outside."""
    makers = [
        run.grad
        for run in recording.grad_runs
        if run.run == ran.run
        and run.order < ran.order
        and (run.run, run.grad) not in bad
        and any(edge and edge.grad == ran.grad for edge in recording.grad_nodes[run.grad].next)
    ]
    return makers[-1] if makers else None


class NotFinite(NamedTuple):
    """The origin of the first number that is not finite. ``str()`` of it is a sentence.

    Attributes:
        node: The id of the op; of the grad node if a backward pass produced it; of the input,
            weight or constant if that had it.
        nans: The number of NaNs in it, or in its results.
        infs: The number of infinities in it, or in its results.
        text: A sentence with the module and the line.
    """

    node: str
    nans: int
    infs: int
    text: str

    def __str__(self) -> str:
        return self.text


def first_not_finite(recording: RecordedRun) -> NotFinite | None:
    """The first op, grad node or given tensor with a NaN or infinity, or None.

    Raises:
        UnknownAnnotation: The run was recorded without statistics.
    """
    if not recording.statistics and recording.values:
        of_tensors = replace(NOT_FINITE, needs=("stats",))
        raise UnknownAnnotation(unmeasured(recording, of_tensors))
    found = next(first_bad(recording), None)
    return NotFinite(*found, _in_words(recording, found)) if found is not None else None


def describe(recording: RecordedRun) -> Iterator[str]:
    """Sentences such as *first NaN: op `log` in encoder.fc at model.py:12 (3 NaN)*."""
    return (_in_words(recording, found) for found in first_bad(recording))


def _in_words(recording: RecordedRun, found: FirstBad) -> str:
    node = recording.grad_nodes.get(GradId(found.node))
    if node is None:
        words = _call(recording, OpId(_reader(recording, found.node).id))
        value = recording.values.get(ValueId(found.node))
        if value is not None:
            words = f"{_name(value)}, which {words} reads"
        return f"first {found.kinds}: {words} ({_counts(found)})"
    leaf = recording.values[node.variable] if node.variable is not None else None
    owner = "no op" if leaf is None else _name(leaf)
    if node.owner is not None:
        owner = _call(recording, node.owner)
    return f"first NaN or Inf in backward: {node.name} of {owner} ({_counts(found)})"


def _name(value: Value) -> str:
    return value.names[0] if value.names else "a tensor"


def _call(recording: RecordedRun, op: OpId) -> str:
    place = call_in_words(recording, op)
    return op_in_words(recording, op) + (f", {place}" if place else "")


def _counts(first: FirstBad) -> str:
    texts = [f"{first.nans} NaN" * bool(first.nans), f"{first.infs} Inf" * bool(first.infs)]
    return ", ".join(filter(None, texts))
