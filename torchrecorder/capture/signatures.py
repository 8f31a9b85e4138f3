"""Types of the keyword options of `record`, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Union

from torchrecorder.capture.probes.probes import Compiled
from torchrecorder.capture.probes.statistics import Choice


class RecordOptions(TypedDict, total=False):
    """The keyword options of `record`, apart from the inputs."""

    name: str | None
    autograd: bool
    backward: bool
    fake: bool
    restore: bool
    repeat: int
    warmup: int | None
    stats: Choice
    keep: Choice
    flops: bool
    replay: bool
    saved: bool | None
    compiled: Compiled
    profile: bool
    memory: bool
    threads: bool


class InputOptions(RecordOptions, total=False):
    """The same, and inputs created from shapes."""

    input_shapes: Union[Sequence[Any], Mapping[str, Any]]
    dtypes: Any
    input_data: Any
