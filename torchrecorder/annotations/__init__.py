"""Numbers computed from a recording: one file per subject, all listed here and found by name."""

from __future__ import annotations

from collections.abc import Iterable

from torchrecorder.annotations.annotation import (
    DEVICE, INDUCTOR, JOINED, PROCESSES, TIMES, Annotation, Numbers, is_unmeasured,
)
from torchrecorder.annotations.communication import COMMUNICATION
from torchrecorder.annotations.compiled import COMPILATION
from torchrecorder.annotations.intensity import INTENSITY
from torchrecorder.annotations.memory import GRADIENT_BYTES, OUTPUT_BYTES, PEAK_BYTES, SAVED_BYTES
from torchrecorder.annotations.parameters import STORED_NUMBERS
from torchrecorder.annotations.random_draws import RANDOM_DRAWS
from torchrecorder.annotations.statistics import STATISTICS
from torchrecorder.annotations.timing import FLOPS, PROFILE, TIMING
from torchrecorder.checks import guess, warn
from torchrecorder.errors import UnknownAnnotation
from torchrecorder.graph.recording import RecordedRun

ANNOTATIONS: tuple[Annotation, ...] = (
    *STORED_NUMBERS,
    OUTPUT_BYTES,
    *TIMING,
    SAVED_BYTES,
    GRADIENT_BYTES,
    PEAK_BYTES,
    *COMMUNICATION,
    *FLOPS,
    INTENSITY,
    RANDOM_DRAWS,
    *STATISTICS,
    *COMPILATION,
    *PROFILE,
)
"""Every annotation that has a name on the command line and in options."""

_WHY = {
    TIMES: "it was saved without times",
    DEVICE: "only a run on a device such as CUDA has it",
    PROCESSES: "only a run of several processes has it",
    JOINED: "only processes whose recordings gather or merge put together have it",
    INDUCTOR: "record(..., compiled='inductor') measures it",
}


def numbers_of(recording: RecordedRun, which: str | Annotation) -> Numbers:
    """The numbers of an annotation, by name or itself; warns if none were measured."""
    numbers = by_name(which).on(recording)
    if is_unmeasured(numbers):
        warn(unmeasured(recording, numbers.annotation))
    return numbers


def flags_for(numbers: Iterable[Annotation]) -> set[str]:
    """The flags of `record` without which these numbers are not measured."""
    return {flag for one in numbers for flag in one.needs} - {*_WHY}


def unmeasured(recording: RecordedRun, wanted: Annotation) -> str:
    """A message: why there are no numbers, how to measure them, and which annotations have some."""
    present = ", ".join(item.name for item in ANNOTATIONS if item.on(recording).by_node)
    return (
        f"this recording of {recording.name} has no {wanted.name!r}: {_how(wanted.needs)}. "
        f"It has {present or 'no numbers at all'}"
    )


def _how(needs: tuple[str, ...]) -> str:
    reasons = [_WHY[need] for need in needs if need in _WHY]
    flags = ", ".join(f"{need}=True" for need in needs if need not in _WHY)
    if not flags:
        return reasons[0]
    grad = " of tensors that require grad" if {"saved", "backward"} & {*needs} else ""
    return ", and ".join([f"record(..., {flags}){grad} measures it", *reasons])


def by_name(name: str | Annotation, others: Iterable[str] = ()) -> Annotation:
    """The annotation of this name, or given itself; *others* are valid in the same place.

    Raises:
        UnknownAnnotation: No annotation has this name; the message lists the known ones.
    """
    if isinstance(name, Annotation):
        return name
    known = {item.name: item for item in ANNOTATIONS}
    if isinstance(name, str) and name in known:
        return known[name]
    problem = f"no annotation is called {name!r}"
    if measured_so := [item.name for item in ANNOTATIONS if name in item.needs]:
        raise UnknownAnnotation(
            f"{problem}: record(..., {name}=True) measures {', '.join(measured_so)}"
        )
    valid = [*others, *known]
    raise UnknownAnnotation(f"{problem}{guess(name, valid) or '.'} Known: {', '.join(valid)}")
