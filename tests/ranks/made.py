"""Recordings of processes that are one after the other this process."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder import Recorder

from tests.capture.processes import process_group


def recorded(run, world=4, **options):
    """What each of so many processes records of ``run(rank)``."""
    found = []
    for rank in range(world):
        with process_group(rank, world):
            with Recorder(name="job", **options) as recorder:
                run(rank)
            found.append(recorder.recording)
    return found


def timed(recording, *seconds, blocked=None):
    """*recording*, had its communications taken so long."""
    sent = [
        told._replace(seconds=each, blocked_seconds=blocked)
        for told, each in zip(recording.communications, seconds, strict=True)
    ]
    return replace(recording, communications=tuple(sent))
