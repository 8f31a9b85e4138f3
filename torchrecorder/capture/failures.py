"""Notes on the user's exceptions that name the place in the model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchrecorder.build import Event
from torchrecorder.checks import Check, check_one
from torchrecorder.events import GradId, OpKind, ScopeId, ScopeKind, SourceLine, ValueId
from torchrecorder.graph.nodes import GradNode, GradRun, Op, Scope, Value
from torchrecorder.graph.recording import Failure
from torchrecorder.recording import Recording

_ATTRIBUTE = "torchrecorder_recorder"
_BLOCKING = "CUDA_LAUNCH_BLOCKING"
_LATE = (
    "; kernels of CUDA report errors late, so that an earlier operation may be the one that "
    f"failed: with {_BLOCKING}=1 in the environment, it is the one that is named"
)
_CALLS = ScopeKind.MODULE, ScopeKind.FUNCTION, ScopeKind.SCRIPTED


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
    from torchrecorder.query.failed_backward import why_backward_failed
    from torchrecorder.query.failed_inputs import failed_inputs

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


def describe(failure: Failure, events: Sequence[Event], raised: SourceLine | None = None) -> str:
    """*while running `encoder.layer.3` (Attention), op `matmul` at model.py:57, inputs ...*"""
    scopes: dict[ScopeId, Scope] = {}
    op = None
    values: dict[ValueId, Value] = {}
    for event in events:
        if isinstance(event, Scope):
            scopes[event.id] = event
        elif isinstance(event, Op) and event.id == failure.op:
            op = event
        elif isinstance(event, Value):
            values[event.id] = event
    scope = scopes.get(failure.scope) if failure.scope is not None else None
    if scope is None and op is None:
        return ""
    raises = op is not None and op.kind is OpKind.CALLED and op.seconds is None
    in_hook = failure.backward and (raises or failure.grad is None)
    parts = [] if in_hook and raises else list(_describe_scopes(scope, scopes))
    if op is not None:
        parts.append(f"op `{op.name}`")
    called = op.source if op is not None else scope.source if scope is not None else None
    source = called if failure.backward else raised or called
    if source is not None:
        parts.append(f"at {source.file}:{source.line}")
    if op is not None and op.inputs:
        parts.append(f"inputs {', '.join(_describe_inputs(op, values))}")
    doing = "while running "
    if failure.backward:
        place = f" raised at {raised.file}:{raised.line}," if raised is not None else ""
        node = _describe_node(failure.grad, events) if failure.grad is not None else ""
        doing = f"in backward, while running {node},{place} made by "
        if in_hook:
            doing = f"in backward, in a hook{node and ' of '}{node},{place} "
    return f"torchrecorder: {doing}" + ", ".join(parts)


def _describe_scopes(scope: Scope | None, scopes: Mapping[ScopeId, Scope]) -> Iterator[str]:
    """The module that was running, then the regions inside it, such as a custom function."""
    regions: list[str] = []
    while scope is not None and scope.kind not in _CALLS:
        name = f" `{scope.cls}`" if scope.cls and scope.cls != scope.name else ""
        if scope.kind is ScopeKind.CUSTOM_FUNCTION:
            name = f" `{scope.name}`"
        regions.append(f"{scope.kind.value}{name}")
        scope = scopes.get(scope.parent) if scope.parent is not None else None
    if scope is not None:
        yield f"`{scope.path or scope.name}` ({scope.cls})"
    yield from reversed(regions)


def _describe_inputs(op: Op, values: Mapping[ValueId, Value]) -> Iterator[str]:
    """*weight float32[8, 4]*, each with its device if these differ."""
    read = [(slot.name, values.get(slot.value)) for slot in op.inputs]
    several = len({value.device for _, value in read if value is not None}) > 1
    for name, value in read:
        device = f" on {value.device}" if several and value is not None else ""
        yield f"{name} {value.dtype}{list(value.shape)}{device}" if value is not None else name


def _describe_node(grad: GradId, events: Sequence[Event]) -> str:
    """*`AddmmBackward0`, given gradients float32[2, 8]*"""
    name, given = "", "nothing"
    for event in events:
        if isinstance(event, GradNode) and event.id == grad:
            name = event.name
        elif isinstance(event, GradRun) and event.grad == grad:
            forms = [
                "none" if item is None else f"{item.dtype}{list(item.shape)}"
                for item in event.given
            ]
            given = ", ".join(forms) or given
    return f"`{name}`, given gradients {given}"
