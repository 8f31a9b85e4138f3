"""Micro-batches: what a process of a pipeline does again for each part of a batch.

A schedule runs them in whatever order, forward and backward in turn, so that repeats need not be
next to each other. They are told by what they do and by what leads to and from them: the calls of
a module, messages and backward passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Union

from torchrecorder.events import POINT_TO_POINT, Communication, OpId, ScopeId, ScopeKind
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.fold.blocks import op_key

CALLS = (ScopeKind.MODULE, ScopeKind.FUNCTION)

Step = Union[Scope, Op]
Groups = Mapping[Union[ScopeId, None], tuple[tuple[str, ...], ...]]
"""By the scope around them: siblings that do the same for one micro-batch after the other."""


def micro_batches(recording: RecordedRun) -> Groups:
    """The siblings that repeat, in each scope that sends messages or receives them."""
    sent = {
        told.op: told
        for told in recording.communications
        if told.op is not None and told.name in POINT_TO_POINT
    }
    scopes = dict.fromkeys(recording.ops[op].scope for op in sent)
    return {scope: tuple(_Row(recording, scope, sent).groups()) for scope in scopes}


class _Row:
    """The steps that ran directly in one scope."""

    def __init__(
        self, recording: RecordedRun, around: ScopeId | None, sent: Mapping[OpId, Communication]
    ) -> None:
        self.recording = recording
        self.sent = sent
        self.backwards = {run.op for run in recording.backward_runs}
        self.steps: dict[str, Step] = {step.id: step for step in recording.children[around]}
        self.anchors: dict[str, Hashable] = {
            step.id: key for step in self.steps.values() if (key := self._anchor(step)) is not None
        }
        self.before: dict[str, dict[str, None]] = {name: {} for name in self.steps}
        self.after: dict[str, dict[str, None]] = {name: {} for name in self.steps}
        self._connect()

    def groups(self) -> Iterator[tuple[str, ...]]:
        """Steps of equal key, in run order."""
        near = self._near()
        self.anchors = {name: (key, near(name)) for name, key in self.anchors.items()}
        near, times = self._near(), Counter(self.anchors.values())
        alike: dict[Hashable, list[str]] = {}
        most: dict[Hashable, int] = {}
        for name, step in self.steps.items():
            key, around = self.anchors.get(name), near(name)
            if key is None and isinstance(step, Op) and any(around):
                key = op_key(self.recording, step)
                most[key, around] = max(times[anchor] for side in around for anchor in side)
            if key is not None:
                alike.setdefault((key, around), []).append(name)
        for found, names in alike.items():
            if 1 < len(names) <= most.get(found, len(names)):
                yield tuple(names)

    def _anchor(self, step: Step) -> Hashable:
        """What a call, a message or a backward pass has in common with its repeats."""
        if isinstance(step, Scope):
            called = step.kind in CALLS and not step.recompute
            return (step.module, self.recording.structures[step.id]) if called else None
        told = self.sent.get(step.id)
        if told is not None:
            return told.name, told.peer, told.given, told.received
        return ("backward", step.name) if step.id in self.backwards else None

    def _connect(self) -> None:
        """Find out which step reads from which."""
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
        """Each op, and the step of this row that it is or lies in."""
        for name, step in self.steps.items():
            waiting: list[Step] = [step]
            while waiting:
                inner = waiting.pop()
                if isinstance(inner, Op):
                    yield inner.id, name
                else:
                    waiting.extend(self.recording.children[inner.id])

    def _near(self) -> Callable[[str], tuple[frozenset[Hashable], ...]]:
        """Gives the anchors above and below a step, other than those like itself."""
        above = self._nearest(self.steps, self.before)
        below = self._nearest(reversed(self.steps), self.after)
        anchors = dict(self.anchors)
        return lambda name: tuple(side[name] - {anchors.get(name)} for side in (above, below))

    def _nearest(
        self, order: Iterable[str], edges: Mapping[str, Iterable[str]]
    ) -> dict[str, frozenset[Hashable]]:
        """The anchors that each step is connected with, directly or by plain ops between."""
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
