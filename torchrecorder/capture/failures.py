"""Notes on the user's exceptions: the module, operation, line and input shapes of the failure."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from torchrecorder.capture.hooks.failing_node import home
from torchrecorder.capture.hooks.source import PACKAGE
from torchrecorder.capture.modes.call_site import is_call_site
from torchrecorder.checks import Check, check_one
from torchrecorder.events import OpKind, ScopeKind, SourceLine
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import GradRun, Op, Scope
from torchrecorder.recording import Recording

_ATTRIBUTE = "torchrecorder_recorder"
_BLOCKING = "CUDA_LAUNCH_BLOCKING"
_LATE = (
    "; kernels of CUDA report errors late, so that an earlier operation may be the one that "
    f"failed: with {_BLOCKING}=1 in the environment, it is the one that is named"
)


def explain(error: BaseException, recording: Recording) -> None:
    """Add notes to *error*: with the module, operation and line that raised it, and about its
    cause, if the recording shows it: the operation that made a backward pass fail, or those that
    computed the inputs of a failed operation."""
    from torchrecorder.query.failed_backward import failed_inputs, why_backward_failed

    failure = recording.run.failure
    assert failure is not None
    note = describe(failure, recording)
    if note and "CUDA error" in failure.message and os.environ.get(_BLOCKING) != "1":
        note += _LATE
    if note:
        _attach_note(error, note)
    cause = why_backward_failed(recording) or failed_inputs(recording)
    if cause:
        _attach_note(error, f"torchrecorder: {cause}")


def _attach_note(error: BaseException, note: str) -> None:
    with contextlib.suppress(Exception):  # the user's class may reject attributes
        if hasattr(error, "add_note"):
            error.add_note(note)
        else:  # Python 3.10 does not show notes, but other tools read this attribute
            error.__notes__ = [*getattr(error, "__notes__", ()), note]


def attach(error: BaseException, recorder: Any) -> None:
    """Store *recorder* on *error*, for `recording_of`."""
    with contextlib.suppress(Exception):  # the user's class may reject attributes
        setattr(error, _ATTRIBUTE, recorder)


def remove_own_frames(error: BaseException) -> None:
    """Remove the frames of the recorder between those of the program from the tracebacks of *error*
    and of its causes; an error of the recorder itself keeps its own."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        _join_program(found.__traceback__)
        found = found.__cause__ or found.__context__


def _join_program(first: TracebackType | None) -> None:
    """Let each entry of the program refer to the next one, also in Python 3.10, which raises an
    error again with the traceback that it had."""
    last, trace = first, first and first.tb_next
    ours = False
    while last is not None and trace is not None:
        code = trace.tb_frame.f_code
        called = ours and is_call_site(code)  # repeats the line before the frames of the recorder
        ours = not called and code.co_filename.startswith(PACKAGE)
        if called:
            last.tb_next = trace.tb_next
        elif not ours:
            last.tb_next = trace
            last = trace
        trace = trace.tb_next


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
"""Autograd nodes whose only Python code is hooks: post-accumulate-grad hooks, and the full backward
hooks of modules."""


def describe(failure: Failure, recording: Recording) -> str:
    """*torchrecorder: while running `encoder.layer.3` (Attention), op `matmul` at model.py:57, ...*

    Empty if neither op nor scope is known.
    """
    place = _FailedPlace(failure, recording)
    if place.scope is None and place.op is None:
        return ""
    return f"torchrecorder: {place.backward() if failure.backward else place.forward()}"


class _FailedPlace:
    """The op, scope and autograd node of a failure."""

    def __init__(self, failure: Failure, recording: Recording) -> None:
        self.failure = failure
        self.scopes, self.ops, self.values = recording.scopes, recording.ops, recording.values
        self.grads = recording.grad_nodes
        self.node = self.grads.get(failure.grad) if failure.grad is not None else None
        passes = recording.backward_runs[-1:]  # in an earlier one, it did not fail
        ran = [run for run in recording.grad_runs if run.grad == failure.grad]
        self.run = ran[-1] if ran and passes and ran[-1].run == passes[0].run else None
        self.op = self.ops.get(failure.op) if failure.op is not None else None
        self.scope = self.scopes.get(failure.scope) if failure.scope is not None else None

    def forward(self) -> str:
        """Describes the failure of an operation or module in forward."""
        parts = [*self._scopes(self.scope), *self._op(self.op, self.scope, self.failure.source)]
        return f"while running {', '.join(parts)}"

    def backward(self) -> str:
        """Describes the failure of an autograd node, or of one of its hooks."""
        raised = self.failure.source
        line = f" raised at {raised.place}," if raised is not None else ""
        raises = self.op is not None and self.op.kind is OpKind.CALLED and self.op.seconds is None
        parts = [*self._scopes(None if raises else self.scope), *self._op(self.op, self.scope)]
        found = ", ".join(parts)
        node = self._described_node()
        if not raises and not self._is_in_hook():
            return f"in backward, while running {node},{line} made by {found}"
        start = f"in backward, in a hook{node and ' of '}{node},{line}"
        made, adds = self._made(), self.node is not None and self.node.variable is not None
        if made == found:
            return f"{start} {'read' if adds else 'made'} by {found}"
        origin = "the tensor was read" if adds else "the node was made"
        return f"{start} {found}" + (f"; {origin} by {made}" if made else "")

    def _is_in_hook(self) -> bool:
        """Whether a hook failed, and not the node itself."""
        if self.node is None or self.run is None:
            return True
        return self.failure.source is not None and self.node.name in _AROUND_HOOKS

    def _made(self) -> str:
        """The operation whose forward created the node, with its module and line."""
        owner, scope = home(self.node.id, self.grads.values()) if self.node else (None, None)
        op = self.ops.get(owner) if owner is not None else None
        within = self.scopes.get(scope) if scope is not None else None
        return ", ".join([*self._scopes(within), *self._op(op, within)])

    def _described_node(self) -> str:
        """*`AddmmBackward0`, given gradients float32[2, 8]*; *`AccumulateGrad` of `weight`*."""
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
        """An operation, its line (or that which *raised*), and its inputs."""
        if op is not None:
            yield f"op `{op.name}`"
        called = op.source if op is not None else scope.source if scope is not None else None
        source = raised or called
        if source is not None:
            yield f"at {source.place}"
        if op is not None and op.inputs:
            yield f"inputs {', '.join(self._inputs(op))}"

    def _inputs(self, op: Op) -> Iterator[str]:
        """*weight float32[8, 4]*, with the device of each input if these differ."""
        read = [(slot.name, self.values.get(slot.value)) for slot in op.inputs]
        several = len({value.device for _, value in read if value is not None}) > 1
        for name, value in read:
            device = f" on {value.device}" if several and value is not None else ""
            yield f"{name} {value.dtype}{list(value.shape)}{device}" if value is not None else name


def _forms(run: GradRun) -> str:
    """*float32[2, 8], none*: dtypes and shapes of the gradients that a node received."""
    forms = [
        "none" if item is None else f"{item.dtype}{list(item.shape)}" for item in run.given
    ]
    return ", ".join(forms) or "nothing"
