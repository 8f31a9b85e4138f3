"""Missing updates: why no optimizer step updated a parameter, or what undid the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Literal

from torchrecorder.annotations.parameter_owners import (
    before_writes, optimizer_steps, updated_parameters, writers, written_parameters,
)
from torchrecorder.annotations.places import op_in_words
from torchrecorder.checks import plural
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import GRAD_SUFFIX, OpId, Role, ScopeKind, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.memory_access import contents_read
from torchrecorder.graph.nodes import Op, Scope, Value
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import maker_of, values_behind
from torchrecorder.query.find import tensor_named
from torchrecorder.query.missing_gradient import why_no_gradient

MissingUpdateReason = Literal[
    "no gradient", "no step", "too early", "zeroed", "nothing updated", "left out", "overwritten",
]

_OVERWRITING = frozenset(("copy_", "_foreach_copy_", "fill_", "zero_", "set_"))
"""Ops that write to a tensor whatever it was before."""

_ZEROING = frozenset(("zero_", "_foreach_zero_"))
"""Ops that set a gradient to zeros."""


@dataclass(frozen=True)
class MissingUpdate:
    """The reason why a parameter is not what an optimizer step makes of it. ``str()`` of it is a
    sentence.

    Attributes:
        name: The parameter.
        reason: ``"no gradient"`` (see `MissingGradient`), ``"no step"`` (no step of an optimizer
            was recorded), ``"too early"`` (all steps ran before the backward pass), ``"zeroed"``
            (the gradient was set to zeros between the backward pass and the step), ``"nothing
            updated"`` (the steps updated no parameter at all: every gradient was None), ``"left
            out"`` (the steps updated other parameters only), ``"overwritten"`` (it was updated,
            and other numbers were written to it afterwards).
        text: The reason in words.
        ops: The operations that overwrote it or lost its gradient, in run order; may be empty.
    """

    name: str
    reason: MissingUpdateReason
    text: str
    ops: tuple[Op, ...] = ()

    def __str__(self) -> str:
        was = "lost its update" if self.reason == "overwritten" else "was not updated"
        return f"{self.name} {was}: {self.text}"


def why_no_update(recording: RecordedRun, name: str) -> MissingUpdate | None:
    """See `torchrecorder.Recording.why_no_update`."""
    value = tensor_named(recording, name)
    if value.role is not Role.PARAMETER:
        raise InvalidArgument(f"{name!r} is not a parameter, such as 'layer1.0.weight'")
    return _UpdateSearch(recording, value).answer()


class _UpdateSearch:
    """Follows what is written to one parameter."""

    def __init__(self, recording: RecordedRun, value: Value) -> None:
        self.recording = recording
        self.value = value
        self.name = value.names[0] if value.names else value.id
        self.around = optimizer_steps(recording)
        self.steps = _steps(recording)

    def answer(self) -> MissingUpdate | None:
        """The first reason that holds."""
        writes = writers(self.recording).get(self.value.id, [])
        updates = [op for op in writes if self._step(op) is not None]
        if updates:
            step = self._step(updates[-1])
            assert step is not None
            return self._zeroed(step, updates) or self._overwritten(updates[-1], writes)
        if writes:
            return None  # the program updates it without an optimizer
        gradient = why_no_gradient(self.recording, self.name)
        if gradient is not None:
            return self._because("no gradient", gradient.text, *gradient.ops)
        if not self.steps:
            return self._because("no step", f"no step of an optimizer was recorded{self._skipped}")
        last = self.steps[-1]
        if self._arrivals and last.index < self._arrivals[-1]:
            text = f"{_in_words(last)} ran before the backward pass that computed its gradient"
            return self._because("too early", text)
        return self._left_out(last)

    @property
    def _skipped(self) -> str:
        """That a gradient scaler may have skipped the step, if there is one."""
        is_scaled = any(one.kind is ScopeKind.SCALER for one in self.recording.scopes.values())
        return ": a gradient scaler skips it if a gradient is infinite" if is_scaled else ""

    def _because(self, reason: MissingUpdateReason, text: str, *ops: Op) -> MissingUpdate:
        return MissingUpdate(self.name, reason, text, ops)

    def _step(self, op: Op) -> Scope | None:
        """The optimizer step around *op*."""
        step = self.around.get(op.scope) if op.scope is not None else None
        return self.recording.scopes[step] if step is not None else None

    @cached_property
    def _arrivals(self) -> list[int]:
        """The positions in run order of the backward passes that computed its gradient, without
        those in a closure that a step called."""
        reached = _passes(self.recording).get(self.value.id, ())
        ops = [self.recording.ops[op] for op in reached]
        return [op.index for op in ops if self._step(op) is None]

    def _zeroed(self, step: Scope, updates: Sequence[Op]) -> MissingUpdate | None:
        """The reason if its gradient was set to zeros just before this step, and no earlier one of
        the *updates* was made with it."""
        arrived = max((index for index in self._arrivals if index < step.index), default=step.index)
        used = (op.index for op in updates if op.index > arrived)
        between = range(arrived, min(step.index, *used))
        zeroing = _zeroing(self.recording)
        ops = [op for name in self.value.names for op in zeroing.get(f"{name}{GRAD_SUFFIX}", ())]
        ops = [op for op in ops if op.index in between]
        if not ops:
            return None
        op = min(ops, key=attrgetter("index"))
        words = op_in_words(self.recording, op.id)
        text = f"{words} set its gradient to zeros before {_in_words(step)}"
        return self._because("zeroed", text, op)

    def _left_out(self, step: Scope) -> MissingUpdate:
        """The reason if *step*, after its gradient arrived, did not update it."""
        others = updated_parameters(self.recording)
        if not others:
            text = "updated nothing: all gradients were None, as after zero_grad()"
            return self._because("nothing updated", f"{_in_words(step)} {text}")
        text = (
            f"updated {plural(len(others), 'other parameter')} only: either none of its parameter "
            "groups has this one, or its gradient was None by then"
        )
        return self._because("left out", f"{_in_words(step)} {text}")

    def _overwritten(self, update: Op, writes: list[Op]) -> MissingUpdate | None:
        """The reason if other numbers were written to it after its *update*, which do not follow
        from it, as an average of it and of earlier numbers does."""
        later = [op for op in writes if op.index > update.index and op.name in _OVERWRITING]
        ops = [op for op in later if self._is_whole(op) and not self._follows(op, update)]
        if not ops:
            return None
        words = op_in_words(self.recording, ops[0].id)
        return self._because("overwritten", f"{words} wrote other numbers to it", *ops)

    def _follows(self, op: Op, update: Op) -> bool:
        """Whether what *op* writes to it was computed from it, after *update*."""
        recording, first = self.recording, written_parameters(self.recording)
        target = {recording.values[value].storage for value in op.writes}
        read = [slot.value for slot in op.inputs]
        read = [one for one in read if recording.values[one].storage not in target]
        found = values_behind(
            recording, read,
            lambda maker: maker.index >= update.index and any(contents_read(maker)),
        )
        makers = (maker_of(recording, one) for one in found if first.get(one) == self.value.id)
        return any(maker is not None and maker.index >= update.index for maker in makers)

    def _is_whole(self, op: Op) -> bool:
        """Whether *op* wrote to all of it, not only to a view of a part, such as a row."""
        first = written_parameters(self.recording)
        written = [self.recording.values[value] for value in op.writes]
        memory = {value.storage for value in written if first.get(value.id) == self.value.id}
        # the tensor that was given to the op comes before others in its memory
        given = next(value for value in written if value.storage in memory)
        return given.bytes >= self.value.bytes


def _in_words(step: Scope) -> str:
    """``"the step of SGD at train.py:12"``."""
    line = f" at {step.source.place}" if step.source is not None else ""
    return f"the step of {step.cls or step.name}{line}"


@once
def _steps(recording: RecordedRun) -> list[Scope]:
    """The outermost optimizer steps."""
    return [recording.scopes[step] for step in dict.fromkeys(optimizer_steps(recording).values())]


@once
def _passes(recording: RecordedRun) -> dict[ValueId, list[OpId]]:
    """The calls of backward that reached each leaf, in run order, by the first value of a
    parameter."""
    first, reached = before_writes(recording), dict[int, dict[ValueId, None]]()
    for ran in recording.grad_runs:
        leaf = recording.grad_nodes[ran.grad].variable
        if leaf is not None:
            reached.setdefault(ran.run, {})[first.get(leaf, leaf)] = None
    runs = recording.backward_runs
    return grouped((leaf, run.op) for run in runs for leaf in reached.get(run.run, ()))


@once
def _zeroing(recording: RecordedRun) -> dict[str, list[Op]]:
    """The ops that set each gradient to zeros, by its names."""
    ops = (op for op in recording.ops.values() if op.name in _ZEROING)
    return grouped(
        (name, op) for op in ops for value in op.writes for name in recording.values[value].names
    )
