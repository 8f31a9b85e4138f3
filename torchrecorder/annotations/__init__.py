"""Numbers computed from a recording: one file per subject, all listed here."""

from __future__ import annotations

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.communication import COMMUNICATION
from torchrecorder.annotations.compiled import COMPILATION
from torchrecorder.annotations.intensity import INTENSITY
from torchrecorder.annotations.memory import GRADIENT_BYTES, OUTPUT_BYTES, PEAK_BYTES, SAVED_BYTES
from torchrecorder.annotations.parameters import STORED_NUMBERS
from torchrecorder.annotations.random_draws import RANDOM_DRAWS
from torchrecorder.annotations.statistics import STATISTICS
from torchrecorder.annotations.timing import FLOPS, PROFILE, TIMING

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
