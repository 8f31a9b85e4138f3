"""Notes on the user's exceptions that name the place in the model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from torchrecorder.build import Event
from torchrecorder.capture.failure_words import describe
from torchrecorder.checks import Check, check_one
from torchrecorder.events import SourceLine
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
