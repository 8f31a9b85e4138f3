"""The origin of the first NaN or infinity, in forward and backward."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from torchrecorder.annotations.places import op_in_words
from torchrecorder.annotations.registry import unmeasured
from torchrecorder.annotations.statistics import NOT_FINITE, gradients, values
from torchrecorder.errors import UnknownAnnotation
from torchrecorder.events import GradId, OpId, Statistics
from torchrecorder.graph.nodes import GradRun
from torchrecorder.graph.recording import RecordedRun

_INFINITY = re.compile(r"\binf\b")


class FirstBad(NamedTuple):
    """The op or grad node whose result has the first NaN or infinity."""

    node: str
    nans: int
    infs: int

    @property
    def kinds(self) -> str:
        """``"NaN"``, ``"Inf"`` or both."""
        return " and ".join(["NaN"] * bool(self.nans) + ["Inf"] * bool(self.infs))


def first_bad_ops(recording: RecordedRun) -> Iterator[FirstBad]:
    """The op with the first NaN, and before it the op with the first infinity.

    An infinity that was passed as a Python number, such as the -inf of a mask, is expected.
    """
    bad = {one.node: one for one in values(recording) if one.nans or one.infs}
    nan = _first(recording, {node: item for node, item in bad.items() if item.nans})
    first = _first(recording, bad)
    if first is not None and (nan is None or _index(recording, first) < _index(recording, nan)):
        yield first
    if nan is not None:
        yield nan


def _first(recording: RecordedRun, bad: Mapping[str, Statistics]) -> FirstBad | None:
    """The first op with *bad* outputs and without *bad* inputs."""
    for op in recording.ops.values():
        made = [bad[value] for value in op.outputs if value in bad]
        if made and not any(slot.value in bad for slot in op.inputs):
            found = FirstBad(op.id, sum(m.nans for m in made), sum(m.infs for m in made))
            if found.nans or not any(_INFINITY.search(text) for _, text in op.arguments):
                return found
    return None


def _index(recording: RecordedRun, first: FirstBad) -> int:
    return recording.ops[OpId(first.node)].index


def first_bad_grad(recording: RecordedRun) -> FirstBad | None:
    """The first grad node with a NaN or infinity in its outputs and none in its inputs, or None."""
    bad: dict[tuple[int, str], tuple[int, int]] = {}
    for gradient in gradients(recording):
        if gradient.nans or gradient.infs:
            nans, infs = bad.get((gradient.run, gradient.node), (0, 0))
            bad[gradient.run, gradient.node] = (nans + gradient.nans, infs + gradient.infs)
    for ran in recording.grad_runs:
        found = bad.get((ran.run, ran.grad))
        if found is not None:
            maker = _maker(recording, ran, bad)
            return FirstBad(ran.grad if maker is None else maker, *found)
    return None


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
        node: The id of the op; of the grad node if no op in forward has any.
        nans: The number of NaNs in its results.
        infs: The number of infinities in its results.
        text: A sentence with the module and the line.
    """

    node: str
    nans: int
    infs: int
    text: str

    def __str__(self) -> str:
        return self.text


def first_not_finite(recording: RecordedRun) -> NotFinite | None:
    """The first op, else the first grad node, with a NaN or infinity in its results, or None.

    Raises:
        UnknownAnnotation: The run was recorded without statistics.
    """
    if not recording.statistics and recording.values:
        raise UnknownAnnotation(unmeasured(NOT_FINITE.on(recording)))
    found = next(first_bad_ops(recording), None) or first_bad_grad(recording)
    return NotFinite(*found, next(describe(recording))) if found is not None else None


def describe(recording: RecordedRun) -> Iterator[str]:
    """Sentences such as *first NaN: op `log` in encoder.fc at model.py:12 (3 NaN)*."""
    for op in first_bad_ops(recording):
        yield f"first {op.kinds}: {op_in_words(recording, OpId(op.node))} ({_counts(op)})"
    grad = first_bad_grad(recording)
    if grad is not None:
        node = recording.grad_nodes[GradId(grad.node)]
        owner = op_in_words(recording, node.owner) if node.owner is not None else "no op"
        yield f"first NaN or Inf in backward: {node.name} of {owner} ({_counts(grad)})"


def _counts(first: FirstBad) -> str:
    texts = [f"{first.nans} NaN" * bool(first.nans), f"{first.infs} Inf" * bool(first.infs)]
    return ", ".join(filter(None, texts))
