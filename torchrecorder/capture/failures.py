"""Notes on the user's exceptions: where in the model they happened."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Protocol

from torchrecorder.checks import Check, check_one
from torchrecorder.events import (
    Event,
    GradId,
    GradNodeFound,
    GradNodeRan,
    OpCalled,
    RunFailed,
    ScopeEntered,
    ValueSeen,
)
from torchrecorder.recording import Recording

_ATTRIBUTE = "torchrecorder_recorder"


class HasRecording(Protocol):
    """A recorder whose run is over."""

    @property
    def recording(self) -> Recording:
        """What was recorded."""


def explain(error: BaseException, failure: RunFailed, events: Sequence[Event]) -> None:
    """Attach a note to *error* that says where in the model it came up."""
    note = describe(failure, events)
    if not note:
        return
    with contextlib.suppress(Exception):  # the user's class may refuse to be written on
        if hasattr(error, "add_note"):
            error.add_note(note)
        else:  # Python 3.10 shows no notes, but later tools find them here
            error.__notes__ = [*getattr(error, "__notes__", ()), note]


def attach(error: BaseException, recorder: HasRecording) -> None:
    """Keep *recorder* with *error*, for `recording_of`."""
    with contextlib.suppress(Exception):  # the user's class may refuse to be written on
        setattr(error, _ATTRIBUTE, recorder)


ERROR = Check("an exception", lambda value: isinstance(value, BaseException))


def recording_of(error: BaseException) -> Recording | None:
    """What was recorded until *error* left the recorder; None if it passed through none.

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


def describe(failure: RunFailed, events: Sequence[Event]) -> str:
    """*while running `encoder.layer.3` (Attention), op `matmul` at model.py:57, inputs ...*"""
    scope = op = None
    shapes = {}
    for event in events:
        if isinstance(event, ScopeEntered) and event.scope == failure.scope:
            scope = event
        elif isinstance(event, OpCalled) and event.op == failure.op:
            op = event
        elif isinstance(event, ValueSeen):
            shapes[event.value] = f"{event.dtype}{list(event.shape)}"
    if scope is None and op is None:
        return ""
    parts = []
    if scope is not None:
        parts.append(f"`{scope.path or scope.name}` ({scope.cls})")
    if op is not None:
        parts.append(f"op `{op.name}`")
    source = op.source if op is not None else scope.source if scope is not None else None
    if source is not None:
        parts.append(f"at {source.file}:{source.line}")
    if op is not None and op.inputs:
        listed = ", ".join(f"{slot.name} {shapes.get(slot.value, '')}" for slot in op.inputs)
        parts.append(f"inputs {listed}")
    doing = "while running "
    if failure.grad is not None:
        doing = f"in backward, while running {_describe_node(failure.grad, events)}, made by "
    return f"torchrecorder: {doing}" + ", ".join(parts)


def _describe_node(grad: GradId, events: Sequence[Event]) -> str:
    """*`AddmmBackward0`, given gradients float32[2, 8]*"""
    name, given = "", "nothing"
    for event in events:
        if isinstance(event, GradNodeFound) and event.grad == grad:
            name = event.name
        elif isinstance(event, GradNodeRan) and event.grad == grad:
            forms = [
                "none" if each is None else f"{each.dtype}{list(each.shape)}"
                for each in event.given
            ]
            given = ", ".join(forms) or given
    return f"`{name}`, given gradients {given}"
