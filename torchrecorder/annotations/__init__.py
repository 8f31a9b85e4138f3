"""Numbers computed from a recording: one file per subject, all listed here."""

from __future__ import annotations

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.communication import (
    BLOCKED_TIME,
    COMMUNICATION_BYTES,
    COMMUNICATION_TIME,
    WAITED_TIME,
)
from torchrecorder.annotations.compiled import BREAKS, COMPILED, KERNEL
from torchrecorder.annotations.flops import BACKWARD_FLOPS, FLOPS
from torchrecorder.annotations.memory import (
    GRADIENT_BYTES,
    OUTPUT_BYTES,
    PEAK_BYTES,
    SAVED_BYTES,
)
from torchrecorder.annotations.parameters import (
    BUFFER_BYTES,
    GLOBAL_PARAMETER_BYTES,
    PARAMETER_BYTES,
    PARAMETERS,
    TRAINABLE,
)
from torchrecorder.annotations.profile import (
    ALLOCATED,
    CPU_TIME,
    DEVICE_TIME,
    FREED,
    KERNEL_COUNT,
    LAUNCH_GAP,
    PROFILED_FLOPS,
)
from torchrecorder.annotations.statistics import (
    ACTIVATION_HIGH,
    ACTIVATION_LOW,
    ACTIVATION_MEAN,
    ACTIVATION_NORM,
    ACTIVATION_STD,
    GRADIENT_NORM,
    NOT_FINITE,
    PARAMETER_GRADIENT_NORM,
    ZEROS,
)
from torchrecorder.annotations.timing import BACKWARD_TIME, FORWARD_TIME, TIME

ANNOTATIONS: tuple[Annotation, ...] = (
    PARAMETERS,
    TRAINABLE,
    PARAMETER_BYTES,
    GLOBAL_PARAMETER_BYTES,
    BUFFER_BYTES,
    OUTPUT_BYTES,
    FORWARD_TIME,
    BACKWARD_TIME,
    TIME,
    SAVED_BYTES,
    GRADIENT_BYTES,
    PEAK_BYTES,
    COMMUNICATION_BYTES,
    COMMUNICATION_TIME,
    BLOCKED_TIME,
    WAITED_TIME,
    FLOPS,
    BACKWARD_FLOPS,
    ACTIVATION_MEAN,
    ACTIVATION_STD,
    ACTIVATION_LOW,
    ACTIVATION_HIGH,
    ACTIVATION_NORM,
    ZEROS,
    NOT_FINITE,
    GRADIENT_NORM,
    PARAMETER_GRADIENT_NORM,
    COMPILED,
    BREAKS,
    KERNEL,
    CPU_TIME,
    DEVICE_TIME,
    KERNEL_COUNT,
    LAUNCH_GAP,
    ALLOCATED,
    FREED,
    PROFILED_FLOPS,
)
"""Every annotation that can be asked for by name."""
