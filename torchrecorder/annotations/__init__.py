"""Numbers computed from a recording: one file per subject, all listed here."""

from __future__ import annotations

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.memory import OUTPUT_BYTES
from torchrecorder.annotations.parameters import (
    BUFFER_BYTES,
    PARAMETER_BYTES,
    PARAMETERS,
    TRAINABLE,
)

ANNOTATIONS: tuple[Annotation, ...] = (
    PARAMETERS,
    TRAINABLE,
    PARAMETER_BYTES,
    BUFFER_BYTES,
    OUTPUT_BYTES,
)
"""Every annotation that can be asked for by name."""
