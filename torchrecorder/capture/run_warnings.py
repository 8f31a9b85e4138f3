"""Warnings at the end of a run, about what was not recorded."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from torchrecorder.build import Event
from torchrecorder.capture.instruments import Instruments
from torchrecorder.capture.tape import Tape
from torchrecorder.checks import plural, warn
from torchrecorder.errors import Notice
from torchrecorder.events import Lost

_OTHER_THREAD = (
    "the with block of a recorder ended in another thread than it began in: that thread keeps its "
    "function mode, which does nothing from now on but takes time"
)


def warn_of_others(tape: Tape, instruments: Instruments, *, runs_model: bool) -> None:
    """Warn about compiled code that ran eagerly, unless `record` runs the model, and about a run
    that was all in other threads."""
    for note in () if runs_model else instruments.regions.sources.eager.notes():
        warn(note, Notice)
    unrecorded = instruments.modules.others.notes()
    if unrecorded and not tape.index:
        warn(
            f"nothing was recorded in the thread of the recorder; {unrecorded[0]}. "
            "threads=True records threads that the block starts"
        )


def warn_of_losses(tape: Tape, events: Iterable[Event]) -> None:
    """Warn if the run ended in another thread, or if instruments failed."""
    if not tape.records(threading.get_ident()):
        warn(_OTHER_THREAD)
    if not tape.lost:
        return
    first = next((event for event in events if isinstance(event, Lost)), None)
    example = f"; the first in {first.where or 'the model'!r}: {first.error}" if first else ""
    warn(
        f"torchrecorder could not record {plural(tape.lost, 'fact')} of this run{example}. "
        "The run itself is not affected.",
        Notice,
    )
