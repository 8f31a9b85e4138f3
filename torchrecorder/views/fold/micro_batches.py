"""Micro-batches: the module calls, messages and backward passes that a pipeline stage repeats.

A schedule interleaves the forward and backward of different micro-batches, so repetitions need not
be adjacent. They are recognized by their operations and their connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from torchrecorder.events import (
    CALLED, POINT_TO_POINT, Communication, OpId, Role, ScopeId, ScopeKind,
)
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import ops_inside
from torchrecorder.views.fold.blocks import op_key


def micro_batches(
    recording: RecordedRun
) -> Mapping[ScopeId | None, tuple[tuple[str, ...], ...]]:
    """For each scope that sends or receives messages, the groups of its children that repeat for
    each micro-batch."""
    sent = {
        message.op: message
        for message in recording.communications
        if message.op is not None and message.name in POINT_TO_POINT
    }
    scopes = dict.fromkeys(recording.ops[op].scope for op in sent)
    return {scope: tuple(_Steps(recording, scope, sent).groups()) for scope in scopes}


class _Steps:
    """The ops and scopes directly in one scope."""

    def __init__(
        self, recording: RecordedRun, around: ScopeId | None, sent: Mapping[OpId, Communication]
    ) -> None:
        self.recording = recording
        self.sent = sent
        self.backwards = {run.op for run in recording.backward_runs}
        self.steps: dict[str, Scope | Op] = {step.id: step for step in recording.children[around]}
        self.anchors: dict[str, Hashable] = {
            step.id: key for step in self.steps.values() if (key := self._anchor(step)) is not None
        }
        self.before: dict[str, dict[str, None]] = {name: {} for name in self.steps}
        self.after: dict[str, dict[str, None]] = {name: {} for name in self.steps}
        self._connect()

    def groups(self) -> Iterator[tuple[str, ...]]:
        """The groups of steps with equal keys, in run order."""
        neighbors = self._neighbors()
        self.anchors = {name: (key, neighbors(name)) for name, key in self.anchors.items()}
        neighbors, times = self._neighbors(), Counter(self.anchors.values())
        groups: dict[Hashable, list[str]] = {}
        largest: dict[Hashable, int] = {}
        for name, step in self.steps.items():
            key, around = self.anchors.get(name), neighbors(name)
            if key is None and isinstance(step, Op) and any(around):
                key = op_key(self.recording, step)
                largest[key, around] = max(times[anchor] for side in around for anchor in side)
            if key is not None:
                groups.setdefault((key, around), []).append(name)
        for found, names in groups.items():
            if 1 < len(names) <= largest.get(found, len(names)):
                yield tuple(names)

    def _anchor(self, step: Scope | Op) -> Hashable:
        """The key that a call, a message or a backward pass shares with its repetitions."""
        if isinstance(step, Scope):
            if step.kind is ScopeKind.PIPELINE_BACKWARD:
                return step.kind, step.cls, self._parameters(step)
            called = step.kind in CALLED and not step.recompute
            return (step.module, self.recording.structures[step.id]) if called else None
        sent = self.sent.get(step.id)
        if sent is not None:
            return sent.name, sent.peer, sent.given, sent.received
        return ("backward", step.name) if step.id in self.backwards else None

    def _parameters(self, scope: Scope) -> frozenset[str]:
        """The parameters that the ops directly in *scope* read."""
        values = self.recording.values
        return frozenset(
            slot.value
            for op in self.recording.children[scope.id] if isinstance(op, Op)
            for slot in op.inputs if values[slot.value].role is Role.PARAMETER
        )

    def _connect(self) -> None:
        """Find the edges between steps."""
        home = dict(self._homes())
        for op in self.recording.ops.values():
            reader = home.get(op.id)
            if reader is None:
                continue
            for slot in op.inputs:
                maker = home.get(self.recording.values[slot.value].producer or "")
                if maker is not None and maker != reader:
                    self.before[reader][maker] = None
                    self.after[maker][reader] = None

    def _homes(self) -> Iterator[tuple[str, str]]:
        """Each op, with the step that contains it."""
        for name, step in self.steps.items():
            inside = [step.id] if isinstance(step, Op) else ops_inside(self.recording, [step.id])
            yield from ((op, name) for op in inside)

    def _neighbors(self) -> Callable[[str], tuple[frozenset[Hashable], ...]]:
        """Returns a function: the anchors before and after a step, without its own key."""
        before = self._nearest(self.steps, self.before)
        after = self._nearest(reversed(self.steps), self.after)
        anchors = dict(self.anchors)
        return lambda name: tuple(side[name] - {anchors.get(name)} for side in (before, after))

    def _nearest(
        self, order: Iterable[str], edges: Mapping[str, Iterable[str]]
    ) -> dict[str, frozenset[Hashable]]:
        """The anchors that each step is connected with, directly or through other ops."""
        found: dict[str, frozenset[Hashable]] = {}
        for name in order:
            near: set[Hashable] = set()
            for other in edges[name]:
                if other in self.anchors:
                    near.add(self.anchors[other])
                elif isinstance(self.steps[other], Op):
                    near |= found.get(other, frozenset())
            found[name] = frozenset(near)
        return found
