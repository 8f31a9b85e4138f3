"""Notes on the user's exceptions that name the place in the model: the module, the operation, the
line and the sizes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from torchrecorder.build import Event
from torchrecorder.capture.hooks.failing_node import home
from torchrecorder.checks import Check, check_one
from torchrecorder.events import OpId, OpKind, ScopeId, ScopeKind, SourceLine, ValueId
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun, Op, Scope, Value
from torchrecorder.graph.recording import Failure
from torchrecorder.recording import Recording

_ATTRIBUTE = "torchrecorder_recorder"
_BLOCKING = "CUDA_LAUNCH_BLOCKING"
_LATE = (
    "; kernels of CUDA report errors late, so that an earlier operation may be the one that "
    f"failed: with {_BLOCKING}=1 in the environment, it is the one that is named"
)


def explain(
    error: BaseException, failure: Failure, events: Sequence[Event], raised: SourceLine | None
) -> None:
    """Attach a note to *error* that names the place in the model, and the user's line, if known."""
    note = describe(failure, events, raised)
    if note and "CUDA error" in failure.message and os.environ.get(_BLOCKING) != "1":
        note += _LATE
    if note:
        _attach_note(error, note)


def explain_cause(error: BaseException, recording: Recording) -> None:
    """Attach a note to *error* about its cause: the operation that made a backward pass fail,
    or made the tensors with which an operation failed."""
    from torchrecorder.query.failed_backward import failed_inputs, why_backward_failed

    cause = why_backward_failed(recording) or failed_inputs(recording)
    if cause:
        _attach_note(error, f"torchrecorder: {cause}")


def _attach_note(error: BaseException, note: str) -> None:
    with contextlib.suppress(Exception):  # the user's class may refuse to be written on
        if hasattr(error, "add_note"):
            error.add_note(note)
        else:  # Python 3.10 shows no notes, but later tools find them here
            error.__notes__ = [*getattr(error, "__notes__", ()), note]


def attach(error: BaseException, recorder: Any) -> None:
    """Keep *recorder* with *error*, for `recording_of`."""
    with contextlib.suppress(Exception):  # the user's class may refuse to be written on
        setattr(error, _ATTRIBUTE, recorder)


ERROR = Check("an exception", lambda value: isinstance(value, BaseException))


def recording_of(error: BaseException) -> Recording | None:
    """The recording of a run that failed with *error*; None if no recorder was active.

    Example:
        >>> import torch, torchrecorder
        >>> try:
        ...     torchrecorder.record(torch.nn.Linear(4, 2), torch.ones(1, 3))
        ... except RuntimeError as error:
        ...     recording = torchrecorder.recording_of(error)
        >>> recording.run.failure.error
        'RuntimeError'
    """
    check_one("error", error, ERROR)
    recorder = getattr(error, _ATTRIBUTE, None)
    return None if recorder is None else recorder.recording


_CALLS = ScopeKind.MODULE, ScopeKind.FUNCTION, ScopeKind.SCRIPTED

_AROUND_HOOKS = "AccumulateGrad", "BackwardHookFunctionBackward"
"""Nodes in which the program runs only hooks: of a weight after it has its gradient, and of a
module."""


def describe(failure: Failure, events: Sequence[Event], raised: SourceLine | None = None) -> str:
    """*while running `encoder.layer.3` (Attention), op `matmul` at model.py:57, inputs ...*"""
    place = _FailedPlace(failure, events)
    if place.scope is None and place.op is None:
        return ""
    return f"torchrecorder: {place.backward(raised) if failure.backward else place.forward(raised)}"


class _FailedPlace:
    """The events about the place of a failure."""

    def __init__(self, failure: Failure, events: Sequence[Event]) -> None:
        self.failure, self.events = failure, events
        self.scopes: dict[ScopeId, Scope] = {}
        self.ops: dict[OpId, Op] = {}
        self.values: dict[ValueId, Value] = {}
        self.node: GradNode | None = None
        self.run: GradRun | None = None
        for event in events:
            if isinstance(event, Scope):
                self.scopes[event.id] = event
            elif isinstance(event, Op):
                self.ops[event.id] = event
            elif isinstance(event, Value):
                self.values[event.id] = event
            elif isinstance(event, GradNode) and event.id == failure.grad:
                self.node = event
            elif isinstance(event, GradRun) and event.grad == failure.grad:
                self.run = event
            elif isinstance(event, BackwardRun) and self.run and event.run != self.run.run:
                self.run = None  # of an earlier pass
        self.op = self.ops.get(failure.op) if failure.op is not None else None
        self.scope = self.scopes.get(failure.scope) if failure.scope is not None else None

    def forward(self, raised: SourceLine | None) -> str:
        """Where an operation or module failed."""
        parts = [*self._scopes(self.scope), *self._op(self.op, self.scope, raised)]
        return f"while running {', '.join(parts)}"

    def backward(self, raised: SourceLine | None) -> str:
        """Where a node, or a hook at a node, failed."""
        line = f" raised at {raised.file}:{raised.line}," if raised is not None else ""
        raises = self.op is not None and self.op.kind is OpKind.CALLED and self.op.seconds is None
        parts = [*self._scopes(None if raises else self.scope), *self._op(self.op, self.scope)]
        found = ", ".join(parts)
        node = self._described_node()
        if not raises and not self._is_in_hook(raised):
            return f"in backward, while running {node},{line} made by {found}"
        start = f"in backward, in a hook{node and ' of '}{node},{line}"
        made, adds = self._made(), self.node is not None and self.node.variable is not None
        if made == found:
            return f"{start} {'read' if adds else 'made'} by {found}"
        origin = "the tensor was read" if adds else "the node was made"
        return f"{start} {found}" + (f"; {origin} by {made}" if made else "")

    def _is_in_hook(self, raised: SourceLine | None) -> bool:
        """Whether no code of the node itself failed."""
        if self.node is None or self.run is None:
            return True
        return raised is not None and self.node.name in _AROUND_HOOKS

    def _made(self) -> str:
        """The operation that made the node, with its module and line."""
        owner, scope = home(self.node.id, self.events) if self.node else (None, None)
        op = self.ops.get(owner) if owner is not None else None
        within = self.scopes.get(scope) if scope is not None else None
        return ", ".join([*self._scopes(within), *self._op(op, within)])

    def _described_node(self) -> str:
        """*`AddmmBackward0`, given gradients float32[2, 8]*, or of which weight it is."""
        if self.node is None:
            return ""
        leaf = self.values.get(self.node.variable) if self.node.variable is not None else None
        of = f" of `{leaf.names[0]}`" if leaf is not None and leaf.names else ""
        given = f", given gradients {_forms(self.run)}" if self.run is not None else ""
        return f"`{self.node.name}`{of}{given}"

    def _scopes(self, scope: Scope | None) -> Iterator[str]:
        """The module that was running, then the regions inside it, such as a custom function."""
        regions: list[str] = []
        while scope is not None and scope.kind not in _CALLS:
            name = f" `{scope.cls}`" if scope.cls and scope.cls != scope.name else ""
            if scope.kind is ScopeKind.CUSTOM_FUNCTION:
                name = f" `{scope.name}`"
            regions.append(f"{scope.kind.value}{name}")
            scope = self.scopes.get(scope.parent) if scope.parent is not None else None
        if scope is not None:
            yield f"`{scope.path or scope.name}` ({scope.cls})"
        yield from reversed(regions)

    def _op(
        self, op: Op | None, scope: Scope | None, raised: SourceLine | None = None
    ) -> Iterator[str]:
        """An operation, its line or the one that *raised*, and its inputs."""
        if op is not None:
            yield f"op `{op.name}`"
        called = op.source if op is not None else scope.source if scope is not None else None
        source = raised or called
        if source is not None:
            yield f"at {source.file}:{source.line}"
        if op is not None and op.inputs:
            yield f"inputs {', '.join(self._inputs(op))}"

    def _inputs(self, op: Op) -> Iterator[str]:
        """*weight float32[8, 4]*, each with its device if these differ."""
        read = [(slot.name, self.values.get(slot.value)) for slot in op.inputs]
        several = len({value.device for _, value in read if value is not None}) > 1
        for name, value in read:
            device = f" on {value.device}" if several and value is not None else ""
            yield f"{name} {value.dtype}{list(value.shape)}{device}" if value is not None else name


def _forms(run: GradRun) -> str:
    """The gradients that a node was given."""
    forms = [
        "none" if item is None else f"{item.dtype}{list(item.shape)}" for item in run.given
    ]
    return ", ".join(forms) or "nothing"
